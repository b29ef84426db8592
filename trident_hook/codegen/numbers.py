"""PyTorch's numbers for dtypes and device types, as the C ABI carries them (c10::ScalarType, c10::DeviceType)."""

from __future__ import annotations

import functools
from typing import Any

from .. import _rt
from ..errors import Unsupported


@functools.cache
def scalar_type(dtype: Any) -> int:
    import torch

    read = _rt.tensor_read(torch.empty(0, dtype=dtype))
    assert read is not None, "a plain tensor"
    found: int = read["dtype"]
    return found


_DEVICE_TYPES = {"cpu": _rt.DEVICE_CPU, "cuda": _rt.DEVICE_CUDA}


def device_type(name: str) -> int:
    if name not in _DEVICE_TYPES:
        raise Unsupported("device", f"tensors on {name}")
    return _DEVICE_TYPES[name]


def kernel_flags(pdl: bool, cooperative: bool) -> int:
    return pdl * _rt.KERNEL_PDL | cooperative * _rt.KERNEL_COOPERATIVE
