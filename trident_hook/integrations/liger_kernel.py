"""Liger-Kernel 0.8: its wrappers launch Triton's kernels as they are, but ask on every call which device there is."""

from __future__ import annotations

import sys

import torch

from . import DeviceContext, LauncherAdapter


def describe() -> LauncherAdapter:
    utils = sys.modules["liger_kernel.utils"]
    names = ("infer_device", "infer_device_arch", "is_npu_available")
    contexts: tuple[DeviceContext, ...] = ()
    ops = sys.modules.get("liger_kernel.ops.utils")  # absent where only the package was imported
    if ops is not None and hasattr(ops, "device_context"):
        contexts = (DeviceContext(ops.device_context, _current_device),)
    return LauncherAdapter(
        "liger_kernel",
        device_contexts=contexts,
        constants=tuple(getattr(utils, name) for name in names if hasattr(utils, name)),
    )


def _current_device() -> int | None:
    """None without CUDA: a device with an index is then another one."""
    return torch.cuda.current_device() if torch.cuda.is_available() else None
