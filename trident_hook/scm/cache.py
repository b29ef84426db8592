"""Compiled modules on disk, keyed by all that their bytes depend on. Written to a temporary name and renamed, so that
processes that build the same module at once do no harm; a file that does not load is built again.

Beside them the objects of their units, each under the key of the specializations up to its last. A module that begins
with the same ones links them, and compiles what is new: the tenth specialization costs what the second did."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from .._logs import log
from ..codegen.unit import GeneratedModule
from ..config import config
from ..errors import BuildError
from . import builder_process, compiler, worker

_DIGEST = hashlib.sha256().digest_size
_BEGIN = 4  # bytes, in front of an object: the first specialization that is in it


def key_of(source: str) -> str:
    """Source (which names its CUBINs by digest), headers (with the ABI number), CPython, compiler and its flags.
    PyTorch and Triton enter through the version line that the source's head does not carry."""
    return _key(_surroundings(), source)


def unit_keys(module: GeneratedModule) -> list[str]:
    """Of its first specialization, its first two, ..., all."""
    digest = _surroundings()
    return [_key(digest, part.text) for part in module.parts]


def _key(digest, text: str) -> str:
    digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:32]


def _surroundings():
    """The digest of all but the source."""
    import Cython
    import torch
    import triton

    digest = hashlib.sha256()
    parts = [sys.implementation.cache_tag, sys.version, torch.__version__, triton.__version__,
             Cython.__version__, _compiler(), " ".join(compiler.CFLAGS + compiler.LDFLAGS)]  # fmt: skip
    for name in sorted(os.listdir(compiler.include_dir())):
        if name.endswith((".h", ".pxd")):
            parts.append((compiler.include_dir() / name).read_text())
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest


def _compiler() -> str:
    """The compiler's version. Without a compiler that runs, the one that the cache was last filled with: its modules can
    still be loaded."""
    note = config.cache_dir / "compiler.txt"
    try:
        version = compiler.compiler_version()
    except BuildError:
        if config.cache and note.exists():
            return note.read_text()
        raise
    if config.cache:
        with contextlib.suppress(OSError):
            if not note.exists() or note.read_text() != version:
                note.parent.mkdir(parents=True, exist_ok=True)
                note.write_text(version)
    return version


def compiled(module: GeneratedModule) -> bytes:
    """The compiled module, from the cache or built now. Raises BuildError."""
    source = module.source
    target = _path(key_of(source), ".so")
    known = _read(target)
    if known is not None:
        log("build", "cache hit %s", target)
        return known
    keys = unit_keys(module) if config.cache else []
    begin, objects = _linkable(keys)
    try:
        content, unit = _make(module, begin, objects)
    except BuildError:
        if not begin:
            raise
        log("build", "%d specializations from the cache do not link: all are compiled again", begin)
        begin = 0
        content, unit = _make(module, 0, [])
    if config.cache:
        _publish(target.with_suffix(".pyx"), source.encode())
        _publish(target, _sealed(content))
        _publish_unit(keys[-1], begin, unit)
    return content


def _make(module: GeneratedModule, begin: int, objects: list[bytes]) -> tuple[bytes, bytes]:
    """The module, and the object of its specializations from `begin` on; `objects` have those before."""
    work = Path(tempfile.mkdtemp(prefix="trident_hook_"))
    try:
        pyx = work / f"{module.unit_name}.pyx"
        pyx.write_text(module.unit(begin))
        for kernel in module.own_kernels(begin):
            (work / f"{kernel.digest}.cubin").write_bytes(kernel.cubin)
        linked = [work / f"linked_{number}.o" for number in range(len(objects))]
        for path, content in zip(linked, objects, strict=True):
            path.write_bytes(content)
        built = work / f"{module.unit_name}.so"
        if not (worker.is_this_thread() and builder_process.build(pyx, linked, built)):
            compiler.build(pyx, linked, built)
        return built.read_bytes(), pyx.with_suffix(".o").read_bytes()
    finally:
        shutil.rmtree(work, ignore_errors=True)


# -- objects of units --------------------------------------------------------------------------------------------------


def _linkable(keys: list[str]) -> tuple[int, list[bytes]]:
    """As many of the first specializations as the cache has units for, and those. Never all: a new unit brings the
    dispatcher."""
    for count in range(len(keys) - 1, 0, -1):
        objects, at = [], count
        while at:
            found = _read_unit(keys[at - 1])
            if found is None or found[0] >= at:
                break
            at, content = found
            objects.append(content)
        else:
            log("build", "%d specialization(s) are linked from %d unit(s)", count, len(objects))
            return count, objects
    return 0, []


def _read_unit(key: str) -> tuple[int, bytes] | None:
    content = _read(_path(key, ".o"))
    return None if content is None else (int.from_bytes(content[:_BEGIN], "little"), content[_BEGIN:])


def _publish_unit(key: str, begin: int, unit: bytes) -> None:
    _publish(_path(key, ".o"), _sealed(begin.to_bytes(_BEGIN, "little") + unit))


# -- files -------------------------------------------------------------------------------------------------------------


def _path(key: str, suffix: str) -> Path:
    return config.cache_dir / key[:2] / f"{key}{suffix}"


def _sealed(content: bytes) -> bytes:
    """As `_read` wants it. What follows an ELF file does not matter to the loader."""
    return content + hashlib.sha256(content).digest()


def _read(target: Path) -> bytes | None:
    """A cached file, if it is there and whole: loading a module that was cut short kills the process."""
    if not config.cache:
        return None
    try:
        data = target.read_bytes()
    except OSError:
        return None
    content, digest = data[:-_DIGEST], data[-_DIGEST:]
    if hashlib.sha256(content).digest() == digest:
        return content
    log("build", "%s is damaged: built again", target)
    return None


def _publish(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        os.replace(temporary, path)
    except OSError as error:  # a cache that cannot be written is not worth a failure
        log("build", "cannot write the cache: %s", error)


def forget(module: GeneratedModule) -> None:
    """Removes a cached module that turned out to be unusable, and what it may have been linked from."""
    paths = [_path(key_of(module.source), ".so"), *(_path(key, ".o") for key in unit_keys(module))]
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


# -- notes -------------------------------------------------------------------------------------------------------------


def read_note(key: str) -> bytes | None:
    """Something else that was learned once for this installation, if it is there and whole."""
    return _read(_path(key, ".note"))


def write_note(key: str, content: bytes) -> None:
    if config.cache:
        _publish(_path(key, ".note"), _sealed(content))
