"""Compiles the simulated libcuda.so.1 on first use, into a cache folder named after everything that decides its bytes.

Concurrent processes may build at the same time: each builds in a folder of its own and renames it into place.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from .._config import default_cache_dir
from .._scm import trusted

SONAME = "libcuda.so.1"
_FLAGS = ["-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", f"-Wl,-soname,{SONAME}"]
_LIBS = ["-lpthread", "-ldl"]


class SimBuildError(RuntimeError):
    """The simulated driver could not be compiled."""


def source_dir() -> Path:
    """The C sources: package data of an installed wheel, or `ext/simcuda` of a checkout."""
    package = Path(__file__).resolve().parent.parent
    candidates = [package / "_simcuda", package.parent / "ext" / "simcuda"]
    for folder in candidates:
        if (folder / "simcuda.h").is_file():
            return folder
    raise SimBuildError(f"The sources of the simulated CUDA driver are in none of {[str(c) for c in candidates]}.")


def cuda_include_dir() -> Path:
    """The folder with cuda.h in Triton's wheel, found without importing Triton."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        raise SimBuildError("Triton is not installed; its wheel carries the CUDA headers that are needed.")
    folder = Path(spec.origin).parent / "backends" / "nvidia" / "include"
    if not (folder / "cuda.h").is_file():
        raise SimBuildError(f"No cuda.h in {folder}: this Triton has no NVIDIA backend.")
    return folder


def compiler() -> list[str]:
    """The C compiler's command line: `CC` if set, else the first of cc, gcc and clang that exists."""
    if chosen := os.environ.get("CC"):
        return shlex.split(chosen)
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise SimBuildError("No C compiler found. Install one, or name it in the environment variable CC.")


def cache_root() -> Path:
    """The cache folder of the process, if nobody else can write there; else a folder that ends with the process."""
    folder = default_cache_dir()
    if folder is not None:
        try:
            with trusted.folder(folder, make=True):
                return folder
        except (OSError, trusted.NotTrusted):
            pass
    return _of_this_process()


@functools.cache
def _of_this_process() -> Path:
    folder = tempfile.mkdtemp(prefix="trident_hook_simcuda_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _key(sources: list[Path], command: list[str], include: Path) -> str:
    digest = hashlib.sha256(repr((command, _FLAGS, _LIBS)).encode())
    for path in [*sources, include / "cuda.h"]:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def build() -> Path:
    """The folder that holds the compiled `libcuda.so.1`; compiles it if no earlier call did."""
    folder = source_dir()
    sources = sorted([*folder.glob("*.c"), *folder.glob("*.h")])
    command, include = compiler(), cuda_include_dir()
    target = cache_root() / f"simcuda-{_key(sources, command, include)}"
    if (target / SONAME).is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="simcuda-build-", dir=target.parent))
    try:
        units = [str(path) for path in sources if path.suffix == ".c"]
        line = [*command, *_FLAGS, f"-I{include}", *units, "-o", str(scratch / SONAME), *_LIBS]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode != 0:
            raise SimBuildError(f"Compiling the simulated CUDA driver failed:\n{shlex.join(line)}\n{done.stderr}")
        try:
            os.rename(scratch, target)
        except OSError:
            if not (target / SONAME).is_file():  # not merely another process that was faster
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target
