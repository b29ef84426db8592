"""What guards read from a tensor: fields, refusals, and the dispatch keys in effect."""

from __future__ import annotations

import pytest
import torch
from torch._C import _dispatch_keys

from trident_hook import _rt

CONJ, NEG, INFERENCE = 1, 2, 4


class Plain(torch.Tensor):
    pass


class Wrapper(torch.Tensor):
    """Sizes come from Python."""

    @staticmethod
    def __new__(cls, sizes):
        return torch.Tensor._make_wrapper_subclass(cls, sizes, dispatch_sizes_strides_policy="sizes")

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError("asked")


base = torch.arange(24.0).reshape(2, 3, 4)
TENSORS = {
    "float32": base,
    "transposed": base.transpose(0, 2),
    "sliced": base[1:, ::2],
    "expanded": torch.zeros(3, 1).expand(3, 5),
    "scalar": torch.tensor(1.5),
    "empty": torch.empty(0, 4),
    "grad": torch.zeros(2, requires_grad=True),
    "non-leaf": torch.zeros(2, requires_grad=True) * 2,
    "parameter": torch.nn.Parameter(torch.zeros(3)),
    "subclass": torch.zeros(3).as_subclass(Plain),
    "meta": torch.empty(2, 2, device="meta"),
    "conj": torch.zeros(2, dtype=torch.complex64).conj(),
    "neg": torch.zeros(2, dtype=torch.complex64).conj().imag,
    "channels_last": torch.zeros(1, 2, 3, 4).to(memory_format=torch.channels_last),
    "many dims": torch.zeros([1] * 9),
    **{str(t): torch.zeros(2, dtype=t) for t in (torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn)},
}


@pytest.mark.parametrize("name", TENSORS)
def test_fields(name):
    tensor = TENSORS[name]
    read = _rt.tensor_read(tensor)
    assert read["sizes"] == tuple(tensor.shape)
    assert read["strides"] == tensor.stride()
    assert read["ndim"] == tensor.dim()
    assert read["storage_offset"] == tensor.storage_offset()
    assert read["requires_grad"] == tensor.requires_grad
    assert read["device_type"] == {"cpu": 0, "meta": 14}[tensor.device.type]
    assert read["device_index"] == (-1 if tensor.device.index is None else tensor.device.index)
    assert read["layout"] == 0
    assert bool(read["flags"] & CONJ) == tensor.is_conj()
    assert bool(read["flags"] & NEG) == tensor.is_neg()
    assert bool(read["flags"] & INFERENCE) == tensor.is_inference()
    assert read["keys"] == _dispatch_keys(tensor).raw_repr()


def test_dtypes_have_distinct_numbers():
    dtypes = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool]
    assert len({_rt.tensor_read(torch.zeros(1, dtype=t))["dtype"] for t in dtypes}) == len(dtypes)


def test_inference_tensor():
    with torch.inference_mode():
        tensor = torch.zeros(2)
    assert _rt.tensor_read(tensor)["flags"] == INFERENCE


def test_requires_grad_is_the_tensors_own_flag():
    with torch.no_grad():
        assert _rt.tensor_read(TENSORS["grad"])["requires_grad"]


class Liar:
    """isinstance() says that it is a tensor."""

    @property
    def __class__(self):
        return torch.Tensor


@pytest.mark.parametrize(
    "thing", [None, 1, "x", [torch.zeros(1)], torch.Tensor, Liar()], ids=lambda v: type(v).__name__
)
def test_no_tensor(thing):
    assert _rt.tensor_read(thing) is None


def test_refuses_sizes_that_are_not_plain():
    nested = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])
    assert _rt.tensor_read(nested) is None
    assert _rt.tensor_read(torch.zeros(3, 3).to_sparse()) is None
    assert _rt.tensor_read(torch.zeros(3, 3).to_sparse_csr()) is None
    assert _rt.tensor_read(Wrapper((2, 3))) is None  # and did not ask Python


def test_refuses_tensors_that_dispatch_to_python():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.zeros(3, 4))
    assert _rt.tensor_read(fake) is None


def test_same_impl_for_same_tensor():
    assert _rt.tensor_read(base)["impl"] == _rt.tensor_read(base)["impl"] != _rt.tensor_read(base[:])["impl"]


def dynamo_keys(tensor):
    """The dispatch keys that TENSOR_MATCH compares: a guard made now holds for exactly those."""
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set()
    masked = _dispatch_key_set_of("Python", "PythonTLSSnapshot", "PythonDispatcher")
    return (((_dispatch_keys(tensor) | included) - excluded) - masked).raw_repr()


def _dispatch_key_set_of(*names):
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Undefined)
    for name in names:
        keys = keys | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
    return keys


@pytest.mark.parametrize("name", ["float32", "grad", "conj", "subclass", "meta"])
@pytest.mark.parametrize("mode", ["plain", "no_grad", "inference", "autocast"])
def test_keys_in_effect(name, mode):
    tensor = TENSORS[name]
    context = {
        "plain": torch.enable_grad,
        "no_grad": torch.no_grad,
        "inference": torch.inference_mode,
        "autocast": lambda: torch.autocast("cpu"),
    }[mode]
    with context():
        ok, words = _rt.state_read()
        assert ok
        assert _rt.keys_apply(_rt.tensor_read(tensor)["keys"], words) == dynamo_keys(tensor)


def test_keys_change_with_autocast_and_inference():
    keys = _rt.tensor_read(base)["keys"]
    seen = set()
    for context in (torch.enable_grad, torch.inference_mode, lambda: torch.autocast("cpu")):
        with context():
            seen.add(_rt.keys_apply(keys, _rt.state_read()[1]))
    assert len(seen) == 3


def test_no_references_are_taken():
    import sys

    tensor = torch.zeros(2)
    before = sys.getrefcount(tensor), tensor._use_count()
    for _ in range(100):
        _rt.tensor_read(tensor)
    assert (sys.getrefcount(tensor), tensor._use_count()) == before


def test_data_ptr():
    assert _rt.data_ptr(base) == base.data_ptr()
    assert _rt.data_ptr(base[1]) == base[1].data_ptr()
    assert _rt.data_ptr(torch.empty(0)) == 0
    with pytest.raises(RuntimeError):
        _rt.data_ptr(torch.zeros(3, 3).to_sparse())


def test_data_ptr_materialises_copy_on_write():
    tensor = torch.zeros(8)
    lazy = torch._lazy_clone(tensor)
    assert torch._C._is_cow_tensor(lazy)
    pointer = _rt.data_ptr(lazy)
    assert not torch._C._is_cow_tensor(lazy)
    assert pointer == lazy.data_ptr() != tensor.data_ptr()
