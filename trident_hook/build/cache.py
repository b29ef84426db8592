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
from ..logs import log
from . import compiler

MODULE = "tdh_scm_module"  # the name in PyInit_*: every SCM is loaded from a file of its own


def key_of(source: str) -> str:
    """Source (which names its CUBINs by digest), headers (with the ABI number), CPython, compiler and its flags.
    PyTorch and Triton enter through the version line that the source's head does not carry."""
    import Cython
    import torch
    import triton

    digest = hashlib.sha256()
    parts = [source, sys.implementation.cache_tag, sys.version, torch.__version__, triton.__version__,
             Cython.__version__, compiler.compiler_version(), " ".join(compiler.CFLAGS)]  # fmt: skip
    for name in sorted(os.listdir(compiler.include_dir())):
        if name.endswith((".h", ".pxd")):
            parts.append((compiler.include_dir() / name).read_text())
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:32]


def compiled(source: str, kernels: list) -> Path:
    """Path of the compiled module, from the cache or built now. Raises BuildError."""
    key = key_of(source)
    folder = config.cache_dir / key[:2]
    target = folder / f"{key}.so"
    if config.cache and target.exists():
        log("build", "cache hit %s", target)
        return target
    work = Path(tempfile.mkdtemp(prefix="trident_hook_"))
    try:
        pyx = work / f"{MODULE}.pyx"
        pyx.write_text(source)
        for kernel in kernels:
            (work / f"{kernel.digest}.cubin").write_bytes(kernel.cubin)
        built = work / f"{MODULE}.so"
        compiler.compile_c(compiler.cythonize(pyx), built)
        if not config.cache:
            return _keep(built)
        return _publish(built, source, folder, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _publish(built: Path, source: str, folder: Path, target: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, data in ((target.with_suffix(".pyx"), source.encode()), (target, built.read_bytes())):
            handle, temporary = tempfile.mkstemp(dir=folder)
            with os.fdopen(handle, "wb") as out:
                out.write(data)
            os.replace(temporary, path)
    except OSError as error:  # a cache that cannot be written is not worth a failure
        log("build", "cannot write the cache: %s", error)
        return _keep(built)
    return target


def _keep(built: Path) -> Path:
    """A copy that outlives the build folder; the loader removes what it loads from."""
    handle, path = tempfile.mkstemp(suffix=".so", prefix="trident_hook_")
    os.close(handle)
    shutil.copyfile(built, path)
    return Path(path)


def forget(path: Path) -> None:
    """Removes a cached file that turned out to be unusable."""
    with contextlib.suppress(OSError):
        path.unlink()
