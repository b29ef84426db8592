"""Allocation is eager's: same tensors, same errors, same overrides."""

from __future__ import annotations

import gc

import pytest
import torch

from trident_hook import _rt

CPU = 0


def number(dtype):
    return _rt.tensor_read(torch.empty(0, dtype=dtype))["dtype"]


CASES = [
    ((), (), torch.float32),
    ((3,), (1,), torch.float64),
    ((2, 3, 4), (12, 4, 1), torch.bfloat16),
    ((2, 3), (1, 2), torch.int64),
    ((0, 5), (5, 1), torch.bool),
    ((4, 4), (0, 1), torch.complex64),
    ((2, 2), (7, 3), torch.float16),
]


@pytest.mark.parametrize(("sizes", "strides", "dtype"), CASES)
def test_equals_torch(sizes, strides, dtype):
    ours = _rt.empty_strided(sizes, strides, number(dtype), CPU, -1)
    theirs = torch.empty_strided(sizes, strides, dtype=dtype)
    assert ours.shape == theirs.shape
    assert ours.stride() == theirs.stride()
    assert ours.dtype == theirs.dtype
    assert ours.device == theirs.device
    assert type(ours) is torch.Tensor
    assert not ours.requires_grad
    assert ours.untyped_storage().nbytes() == theirs.untyped_storage().nbytes()
    assert torch._C._dispatch_keys(ours) == torch._C._dispatch_keys(theirs)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_modes_that_do_not_refuse(context):
    with context():
        ours, theirs = _rt.empty_strided((2,), (1,), 6, CPU, -1), torch.empty_strided((2,), (1,))
    assert ours.is_inference() == theirs.is_inference()
    assert torch._C._dispatch_keys(ours) == torch._C._dispatch_keys(theirs)


def test_determinism_fills():
    torch.use_deterministic_algorithms(True)
    try:
        assert _rt.empty_strided((64,), (1,), 6, CPU, -1).isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


def error_of(call):
    with pytest.raises(Exception) as caught:
        call()
    return type(caught.value), str(caught.value).splitlines()[0]


@pytest.mark.parametrize(("sizes", "strides"), [((-1,), (1,)), ((2,), (-1,)), ((1 << 62, 4), (4, 1))])
def test_same_errors(sizes, strides):
    ours = error_of(lambda: _rt.empty_strided(sizes, strides, 6, CPU, -1))
    assert ours == error_of(lambda: torch.empty_strided(sizes, strides))


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks for a device that is absent")
def test_absent_device_is_eagers_error():
    ours = error_of(lambda: _rt.empty_strided((2,), (1,), 6, 1, 0))
    assert ours == error_of(lambda: torch.empty_strided((2,), (1,), device="cuda"))


def test_override_is_honoured(override):
    seen = []

    def ours(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
        seen.append((tuple(size), tuple(stride), dtype, device))
        return torch.full(size, 7.0)

    with override("empty_strided", ours):
        tensor = _rt.empty_strided((2, 3), (3, 1), number(torch.float32), CPU, -1)
    _rt.empty_strided((2,), (1,), 6, CPU, -1)
    assert tensor.tolist() == [[7.0] * 3] * 2
    assert seen == [((2, 3), (3, 1), torch.float32, torch.device("cpu"))]


def test_exception_of_an_override(override):
    def refuse(*args, **kwargs):
        raise KeyError("not today")

    with override("empty_strided", refuse), pytest.raises(KeyError, match="not today"):
        _rt.empty_strided((2, 3), (3, 1), 6, CPU, -1)


def test_memory_is_given_back():
    import weakref

    tensor = _rt.empty_strided((4,), (1,), 6, CPU, -1)
    storage = weakref.ref(tensor.untyped_storage())
    del tensor
    gc.collect()
    assert storage() is None


def test_counted():
    _rt.counters_reset()
    for _ in range(3):
        _rt.empty_strided((2,), (1,), 6, CPU, -1)
    assert _rt.counters()["alloc"] == 3
