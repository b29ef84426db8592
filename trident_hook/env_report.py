"""`python -m trident_hook.env_report`: what a bug report needs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys


def report() -> str:
    import torch

    import trident_hook
    from trident_hook._scm import compiler
    from trident_hook.errors import TridentHookError

    lines = [str(trident_hook.status()), f"  trident_hook {trident_hook.__version__}, {platform.platform()}"]
    for package in ("torch", "triton", "cython", "cuda-bindings", "apache-tvm-ffi", "flag-gems"):
        lines.append(f"  {package} {_version(package)}")
    lines.append(f"  CUDA of this PyTorch: {torch.version.cuda}; available: {torch.cuda.is_available()}")
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            lines.append(
                f"  GPU {index}: {properties.name}, sm_{properties.major}{properties.minor}, driver {_driver()}"
            )
    try:
        lines.append(f"  C compiler: {compiler.compiler_version()}; headers: {compiler.include_dir()}")
    except TridentHookError as error:
        lines.append(f"  C compiler: {error}")
    for name in sorted(os.environ):
        if name.startswith(("TRIDENT_HOOK_", "TRITON_", "TORCHDYNAMO_", "TORCH_COMPILE", "CUDA_")):
            lines.append(f"  {name}={os.environ[name]}")
    lines.append(f"  python: {sys.version}")
    return "\n".join(lines)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _driver() -> str:
    try:
        from cuda.bindings import driver

        error, version = driver.cuDriverGetVersion()
        return f"{version // 1000}.{version % 1000 // 10}" if int(error) == 0 else str(error)
    except ImportError:
        return "?"


if __name__ == "__main__":
    print(report())
