"""A fixed sample of PyTorch's operators through `trident.aten.*`; `python -m tests.ffi.run_aten` takes all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from opinfo.database import operators

from trident_hook import ffi

from .through_table import check, register

SAMPLE = [
    "add", "addmm", "bernoulli", "cat", "clamp", "cosh", "cumsum", "diag_embed", "fft_fft", "gather", "index_put", "isin",
    "linalg_svd", "masked_fill", "nn_functional_conv2d", "nn_functional_gelu", "nn_functional_layer_norm", "nonzero", "normal",
    "resize_", "sort", "split", "std_mean", "sum", "to_sparse", "topk", "unique", "var_mean", "view_as_complex", "where",
]  # fmt: skip

#: Whose types TVM FFI has no form for: a Storage, a Stream, a dict, an object of TorchScript.
INEXPRESSIBLE = {
    "get_gradients", "quantized_gru.data", "quantized_gru.input", "quantized_lstm.data", "quantized_lstm.input", "record_stream",
    "set.source_Storage", "set.source_Storage_out", "set.source_Storage_storage_offset", "set.source_Storage_storage_offset_out",
    "set_.source_Storage", "set_.source_Storage_storage_offset",
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLE)
def test_samples_equal_eager(name):
    register()
    verdict = check(operators()[name], samples=1)
    assert verdict.outcome == "equal", verdict


def test_what_cannot_be_expressed_is_known():
    registered = ffi.register_aten()
    assert set(registered.inexpressible) <= INEXPRESSIBLE
    assert registered.share_left_out < 0.03
    assert len(registered.names) > 3000


def test_a_handle_there_and_back():
    """The very tensor goes, with its history; what comes back is owned, once."""
    import tvm_ffi

    x = torch.ones(3, requires_grad=True)

    live = tvm_ffi.get_global_func("trident.handle.live")
    register()
    before = live()
    made = tvm_ffi.get_global_func("trident.aten.mul.Tensor")(ffi.handle_of(x), 3)
    assert live() == before + 1
    product = ffi.tensor_of(made)
    assert live() == before
    product.sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 3.0))


def test_a_result_is_never_an_argument_that_is_gone():
    """Arguments in a list may be dropped while the operator runs, and a result may get the place of one in memory."""
    import tvm_ffi

    register()
    take = tvm_ffi.get_global_func("trident.aten.index.Tensor")
    x = torch.arange(12.0).view(3, 4)
    for _ in range(50):
        rows, columns = torch.tensor([0, 2]), torch.tensor([1, 3])
        assert torch.equal(torch.from_dlpack(take(x, [rows, columns])), x[rows, columns])
