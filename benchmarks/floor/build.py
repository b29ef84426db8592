"""Builds floor.cpp (or launch_loop.cpp) beside itself, with PyTorch's headers and the CUDA headers that Triton's wheel brings; loads it.

`python -m benchmarks.floor.build` builds only. Needs a C++ compiler; no CUDA toolkit, no GPU.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
SERVICES = HERE.parent.parent / "ext" / "abi"  # what generated modules include


def command(name: str, target: Path) -> list[str]:
    import torch
    from torch.utils.cpp_extension import include_paths, library_paths

    libraries = ["c10", "torch", "torch_cpu", "torch_python"]
    flags = ["-O3", "-std=c++20", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wno-missing-field-initializers"]
    includes = [*include_paths(), sysconfig.get_path("include"), str(SERVICES)]
    triton = importlib.util.find_spec("triton")
    if torch.version.cuda and triton and triton.origin:
        flags.append("-DFLOOR_WITH_CUDA")
        includes.append(str(Path(triton.origin).parent / "backends" / "nvidia" / "include"))
        libraries += ["c10_cuda", "torch_cuda"]
    return [
        os.environ.get("CXX", "g++"),
        *flags,
        *(f"-isystem{path}" for path in includes),
        str(HERE / f"{name}.cpp"),
        *(f"-L{path}" for path in library_paths()),
        *(f"-l{name}" for name in libraries),
        "-o",
        str(target),
    ]


def build(name: str = "floor") -> Path:
    import torch

    text = (HERE / f"{name}.cpp").read_bytes() + b"".join(path.read_bytes() for path in sorted(SERVICES.glob("*.h")))
    key = hashlib.sha256(text + f"{sys.version} {torch.__version__}".encode())
    target = HERE / "build" / key.hexdigest()[:16] / f"_{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}.part")
        line = command(name, part)
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{name}.cpp did not compile:\n{shlex.join(line)}\n{done.stderr}")
        part.replace(target)
    return target


def load(name: str = "floor") -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"_{name}", build(name))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    print(build())
