"""Compiled modules on disk, keyed by all that their bytes depend on. Written to a temporary name and renamed, so that
processes that build the same module at once do no harm; a file that does not load is built again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from ..config import config
from ..errors import BuildError
from ..logs import log
from . import compiler, process, worker

_DIGEST = hashlib.sha256().digest_size
MODULE = "tdh_scm_module"  # the name in PyInit_*: every SCM is loaded from a file of its own


def key_of(source: str) -> str:
    """Source (which names its CUBINs by digest), headers (with the ABI number), CPython, compiler and its flags.
    PyTorch and Triton enter through the version line that the source's head does not carry."""
    import Cython
    import torch
    import triton

    digest = hashlib.sha256()
    parts = [source, sys.implementation.cache_tag, sys.version, torch.__version__, triton.__version__,
             Cython.__version__, _compiler(), " ".join(compiler.CFLAGS + compiler.LDFLAGS)]  # fmt: skip
    for name in sorted(os.listdir(compiler.include_dir())):
        if name.endswith((".h", ".pxd")):
            parts.append((compiler.include_dir() / name).read_text())
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:32]


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


def compiled(source: str, kernels: list) -> bytes:
    """The compiled module, from the cache or built now. Raises BuildError."""
    key = key_of(source)
    folder = config.cache_dir / key[:2]
    target = folder / f"{key}.so"
    if config.cache:
        known = _read(target)
        if known is not None:
            log("build", "cache hit %s", target)
            return known
    work = Path(tempfile.mkdtemp(prefix="trident_hook_"))
    try:
        pyx = work / f"{MODULE}.pyx"
        pyx.write_text(source)
        for kernel in kernels:
            (work / f"{kernel.digest}.cubin").write_bytes(kernel.cubin)
        built = work / f"{MODULE}.so"
        if not (worker.is_this_thread() and process.build(pyx, built)):
            compiler.compile_c(compiler.cythonize(pyx), built)
        content = built.read_bytes()
        if config.cache:
            _publish(content, source, folder, target)
        return content
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _read(target: Path) -> bytes | None:
    """A cached module, if it is there and whole: loading a file that was cut short kills the process."""
    try:
        data = target.read_bytes()
    except OSError:
        return None
    content, digest = data[:-_DIGEST], data[-_DIGEST:]
    if hashlib.sha256(content).digest() == digest:
        return content
    log("build", "%s is damaged: built again", target)
    return None


def _publish(content: bytes, source: str, folder: Path, target: Path) -> None:
    sealed = content + hashlib.sha256(content).digest()  # what follows an ELF file does not matter to the loader
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, data in ((target.with_suffix(".pyx"), source.encode()), (target, sealed)):
            handle, temporary = tempfile.mkstemp(dir=folder)
            with os.fdopen(handle, "wb") as out:
                out.write(data)
            os.replace(temporary, path)
    except OSError as error:  # a cache that cannot be written is not worth a failure
        log("build", "cannot write the cache: %s", error)


def forget(source: str) -> None:
    """Removes a cached module that turned out to be unusable."""
    key = key_of(source)
    with contextlib.suppress(OSError):
        (config.cache_dir / key[:2] / f"{key}.so").unlink()
