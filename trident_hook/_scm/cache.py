"""Compiled modules, keyed by all that their bytes depend on, and how they are made. Where they are kept: see `store`. A file
that does not load is built again.

Beside them the objects of their units, each under the key of the specializations up to its last. A module that begins
with the same ones links them, and compiles what is new: the tenth specialization costs what the second did."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import sys
import sysconfig
from pathlib import Path

from .._config import config
from .._logs import log
from ..codegen.module import GENERATOR
from ..codegen.unit import GeneratedModule
from ..errors import BuildError
from . import builder_process, compiler, native_module, places, store, worker

_BEGIN = 4  # bytes, in front of an object: the first specialization that is in it
_NOTE = "compiler/identity.txt"
#: What a full disk says.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def key_of(source: str) -> str:
    """Of the module that this source becomes here. The source names its CUBINs by digest."""
    return _key(_surroundings(), source)


def unit_keys(module: GeneratedModule) -> list[str]:
    """Of its first specialization, its first two, ..., all."""
    digest = _surroundings()
    return [_key(digest, part.text) for part in module.parts]


def _key(digest, text: str) -> str:
    digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:32]


def _surroundings():
    """The digest of all but the source: who wrote it (our generator), what it is compiled against (our headers with the ABI
    number, CPython, PyTorch), what compiles it, and the machine and C library that it is for."""
    import Cython
    import torch
    import triton

    digest = hashlib.sha256()
    parts = [str(GENERATOR), sys.implementation.cache_tag, sys.version, str(sysconfig.get_config_var("SOABI")),
             torch.__version__, str(torch.version.git_version), triton.__version__, Cython.__version__,
             platform.machine(), sys.byteorder, _c_library(), _compiler()]  # fmt: skip
    for name in sorted(os.listdir(compiler.include_dir())):
        if name.endswith((".h", ".pxd")):
            parts.append((compiler.include_dir() / name).read_text())
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest


def _c_library() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        return "/".join(platform.libc_ver())


def _compiler() -> str:
    """All that the compiler adds. Without a compiler that runs, the one that the cache was last filled with: its modules can
    still be loaded."""
    try:
        identity = compiler.identity()
    except BuildError:
        known = store.read(_NOTE)
        if known is not None:
            return known.decode()
        raise
    if store.read(_NOTE) != identity.encode():
        store.publish(_NOTE, identity.encode())
    return identity


def compiled(module: GeneratedModule) -> bytes:
    """The compiled module, from the cache or built now. Raises BuildError."""
    if not config.cache:
        return _make(module, 0, [])[0]
    source = module.source
    name = _name(key_of(source), ".so")
    known = store.read(name)
    if known is not None:
        log("build", "cache hit %s", name)
        return known
    keys = unit_keys(module)
    begin, objects = _linkable(keys)
    try:
        content, unit = _make(module, begin, objects)
    except BuildError:
        if not begin:
            raise
        log("build", "%d specializations from the cache do not link: all are compiled again", begin)
        begin = 0
        content, unit = _make(module, 0, [])
    store.publish_text(name.removesuffix(".so") + ".pyx", source)
    store.publish(name, content)
    _publish_unit(keys[-1], begin, unit)
    return content


def _make(module: GeneratedModule, begin: int, objects: list[bytes]) -> tuple[bytes, bytes]:
    """The module, and the object of its specializations from `begin` on; `objects` have those before. Where a disk is full,
    the next place is tried."""
    failure: Exception | None = None
    for work in places.scratch_folders():
        try:
            return _make_in(work, module, begin, objects)
        except OSError as error:
            failure = error
        except BuildError as error:
            if not any(os.strerror(number) in error.seen for number in _FULL):
                raise
            failure = error
        log("build", "nothing can be built in %s: %s", work.parent, failure)
    raise BuildError(
        f"nothing can be built in any temporary folder: {failure}", "room for a few megabytes",
        "Make room, or set TMPDIR to a folder that has some.",
    ) from failure  # fmt: skip


def _make_in(work: Path, module: GeneratedModule, begin: int, objects: list[bytes]) -> tuple[bytes, bytes]:
    pyx = work / f"{module.unit_name}.pyx"
    pyx.write_text(module.unit(begin))
    for kernel in module.own_kernels(begin):
        (work / f"{kernel.digest}.cubin").write_bytes(kernel.cubin)
    linked = [work / f"linked_{number}.o" for number in range(len(objects))]
    for path, content in zip(linked, objects, strict=True):
        path.write_bytes(content)
    built = work / f"{module.unit_name}.so"
    if not (worker.is_this_thread() and builder_process.build(pyx, linked, built)):
        native_module.build(pyx, linked, built)
    return built.read_bytes(), pyx.with_suffix(".o").read_bytes()


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
    content = store.read(_name(key, ".o"))
    return None if content is None else (int.from_bytes(content[:_BEGIN], "little"), content[_BEGIN:])


def _publish_unit(key: str, begin: int, unit: bytes) -> None:
    store.publish(_name(key, ".o"), begin.to_bytes(_BEGIN, "little") + unit)


def _name(key: str, suffix: str) -> str:
    return f"{key[:2]}/{key}{suffix}"


def forget(module: GeneratedModule) -> None:
    """Removes a cached module that turned out to be unusable, and what it may have been linked from."""
    if config.cache:
        for name in (_name(key_of(module.source), ".so"), *(_name(key, ".o") for key in unit_keys(module))):
            store.forget(name)


# -- notes -------------------------------------------------------------------------------------------------------------


def read_note(key: str) -> bytes | None:
    """Something else that was learned once for this installation, if it is there and whole."""
    return store.read(_name(key, ".note"))


def write_note(key: str, content: bytes) -> None:
    """Keeps it where modules are kept."""
    store.publish(_name(key, ".note"), content)
