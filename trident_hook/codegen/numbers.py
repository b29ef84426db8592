"""PyTorch's numbers for dtypes and device types, as the C ABI carries them (c10::ScalarType, c10::DeviceType)."""

from __future__ import annotations

import functools

from ..errors import Unsupported


@functools.cache
def scalar_type(dtype) -> int:
    import torch

    from .. import _rt

    return _rt.tensor_read(torch.empty(0, dtype=dtype))["dtype"]


_DEVICE_TYPES = {"cpu": 0, "cuda": 1}


def device_type(name: str) -> int:
    if name not in _DEVICE_TYPES:
        raise Unsupported("device", f"tensors on {name}")
    return _DEVICE_TYPES[name]
