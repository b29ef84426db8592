"""Which tensors kernels accept: those on CUDA, or CPU tensors while a simulated driver stands in for CUDA."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, cast

_simulated_devices = 0
_held: tuple[Any, ...] = ()  # the C functions must live as long as native code may call them


def set_simulated(
    n_devices: int, current_stream: Callable[[int], int] | None = None, current_device: Callable[[], int] | None = None
) -> None:
    """Launch for CPU tensors on a simulated driver with so many devices, or (0) for CUDA tensors again. The two ctypes
    functions say where the calling thread is; they are called natively on each launch. Raises ValueError without them."""
    global _simulated_devices, _held
    from trident_hook import _rt

    if n_devices == 0:
        _rt.set_simulated(0, 0)
        _simulated_devices, _held = 0, ()
        return
    if current_stream is None or current_device is None:
        raise ValueError("A simulated driver needs the functions that tell the current device and its current stream.")
    addresses = [
        ctypes.cast(cast(Any, function), ctypes.c_void_p).value or 0 for function in (current_device, current_stream)
    ]
    _held = (current_device, current_stream)
    _rt.set_simulated(*addresses)
    _simulated_devices = n_devices


def is_simulated() -> bool:
    return _simulated_devices > 0


def device_count() -> int:
    """How many devices kernels can be launched on."""
    if is_simulated():
        return _simulated_devices
    import torch

    return torch.cuda.device_count()


def accepts(tensor: Any) -> bool:
    """Whether a kernel takes this tensor's data pointer. What stock Triton accepts besides (pinned host memory, managed
    memory of other libraries) is left to it."""
    return tensor.device.type == ("cpu" if is_simulated() else "cuda")
