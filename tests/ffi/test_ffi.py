"""TVM FFI's table: operators equal eager's, nothing is copied, errors are PyTorch's; modules as functions: result, miss,
error."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import weakref

import pytest
import torch

import trident_hook
from trident_hook import ffi
from trident_hook._config import config

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")


@pytest.fixture(scope="module")
def aten():
    registered = ffi.register_aten()
    assert registered.share_left_out < 0.03, registered.inexpressible
    return lambda name: tvm_ffi.get_global_func(f"trident.aten.{name}")


@pytest.fixture(autouse=True)
def settings(tmp_path_factory):
    before = dict(vars(config))
    config.build, config.cache_dir = "sync", tmp_path_factory.getbasetemp() / "modules"
    yield
    for name, value in before.items():
        setattr(config, name, value)


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def as_torch(value):
    if isinstance(value, tvm_ffi.Tensor):
        return torch.from_dlpack(value)
    if isinstance(value, (tvm_ffi.Array, tvm_ffi.List, list, tuple)):
        return [as_torch(v) for v in value]
    return value


CASES = {
    "add.Tensor": (X, X, 2), "add.Scalar": (X, 1.5), "relu": (X,), "mul.Tensor": (X, 2.0), "sum.dim_IntList": (X, [0, 1], True),
    "topk": (X, 2), "split.Tensor": (X, 2), "cat": ([X, X], 1), "clamp": (X, None, 0.5), "layer_norm": (X, [4]),
    "eq.Tensor": (X, X), "equal": (X, X), "transpose.int": (X, 0, 1), "index.Tensor": (X, [torch.tensor([0, 2])]),
    "var_mean.correction": (X, [1], 1, False), "arange": (5,), "gelu": (X, "tanh"), "size.int": (X, 1), "view": (X, [4, 3]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_eagers(aten, name):
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
    args = CASES[name]
    names = [a.name for a in operator._schema.arguments]
    positional = sum(not a.kwarg_only for a in operator._schema.arguments)
    expected = operator(*args[:positional], **dict(zip(names[positional:], args[positional:], strict=False)))
    got = as_torch(aten(name)(*args))
    for a, b in zip(flat(got), flat(expected), strict=True):
        assert torch.equal(a, b) if isinstance(b, torch.Tensor) else a == b


def flat(value):
    return [v for item in value for v in flat(item)] if isinstance(value, (list, tuple)) else [value]


def test_tensors_are_not_copied(aten):
    x = torch.zeros(3, 4)
    view = as_torch(aten("view")(x, [4, 3]))
    assert view.data_ptr() == x.data_ptr()
    aten("add_.Tensor")(x, 2)
    assert view.sum() == 24


def test_errors_are_pytorchs(aten):
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        aten("mm")(X, X)
    with pytest.raises(IndexError, match="Dimension out of range"):
        aten("select.int")(X, 7, 0)
    with pytest.raises(TypeError, match="argument 'self' must be Tensor"):
        aten("relu")("text")
    with pytest.raises(TypeError, match="misses argument 'mat2'"):
        aten("mm")(X)


def test_opaque_handles_keep_autograd(aten):
    x = X.clone().requires_grad_()
    live = tvm_ffi.get_global_func("trident.handle.live")
    release = tvm_ffi.get_global_func("trident.handle.release")
    before = live()
    made = aten("mul.Tensor")(ctypes.c_void_p(trident_hook._rt.tensor_read(x)["impl"]), 3)
    assert isinstance(made, ctypes.c_void_p)
    assert live() == before + 1
    assert aten("_version")(made) == 0
    release(made)
    assert live() == before


def test_nothing_leaks(aten):
    def once():
        aten("split.Tensor")(X, 1)
        with pytest.raises(RuntimeError):
            aten("mm")(X, X)

    def tensors():
        gc.collect()
        return sum(isinstance(o, torch.Tensor) for o in gc.get_objects())

    for _ in range(3):
        once()
    before, uses = tensors(), sys.getrefcount(X)
    for _ in range(50):
        once()
    assert tensors() <= before, "fewer is what earlier tests left"
    assert sys.getrefcount(X) == uses


# -- modules ------------------------------------------------------------------------------------------------------------


def pick(x, index, scale):
    return torch.index_select(x, 0, index) * scale, x.shape[0]


INDEX = torch.tensor([0, 2])


@pytest.fixture
def served():
    fn = trident_hook.jit(type(pick)(pick.__code__.replace(), pick.__globals__))
    fn(X, INDEX, 2)
    fn(X, INDEX, 2)
    assert trident_hook.counts(fn)["hits"] == 1, trident_hook.explain(fn)
    return fn


def test_a_module_as_a_function(served):
    call = trident_hook.scm(served).as_tvm_ffi()
    before = trident_hook.counts(served)
    product, rows = call(X, INDEX, 2)
    assert torch.equal(as_torch(product), X[[0, 2]] * 2)
    assert rows == 3
    after = trident_hook.counts(served)
    assert (after["hits"] - before["hits"], after["delegated"] - before["delegated"]) == (1, 0)


def test_a_miss_is_no_result_and_no_error(served):
    call = trident_hook.scm(served).as_tvm_ffi()
    missed = call(X.double(), INDEX, 2)
    assert missed == trident_hook.MISS
    assert trident_hook.MISS == missed  # noqa: SIM300 - both ways round
    assert trident_hook.scm(served)(X.double(), INDEX, 2) is trident_hook.MISS
    assert trident_hook.MISS != None  # noqa: E711
    assert call(X) == trident_hook.MISS  # arguments that do not fit


def pick_behind_an_effect(x, index, scale):
    x.mul_(1)
    return torch.index_select(x, 0, index) * scale


def test_an_error_behind_an_effect_is_the_programs():
    fn, x = trident_hook.jit(pick_behind_an_effect), X.clone()
    for _ in range(2):
        fn(x, INDEX, 2)
    call = trident_hook.scm(fn).as_tvm_ffi()
    with pytest.raises(IndexError, match="out of range"):
        call(x, torch.tensor([0, 9]), 2)


def test_an_error_before_any_effect_is_a_miss(served):
    """The function's Python raises it, and may handle it."""
    call = trident_hook.scm(served).as_tvm_ffi()
    assert call(X, torch.tensor([0, 9]), 2) == trident_hook.MISS
    assert torch.equal(as_torch(call(X, INDEX, 2)[0]), X[[0, 2]] * 2)


def test_a_dropped_function_lets_go(served):
    module = trident_hook.scm(served)
    gone, call = weakref.ref(module), module.as_tvm_ffi()
    call(X, INDEX, 2)
    del module
    gc.collect()
    assert gone() is not None
    del call
    gc.collect()
    assert gone() is None


def test_without_the_package():
    """The rest works; asking for the table says what is missing."""
    script = (
        "import sys; sys.modules['tvm_ffi'] = None\n"
        "import trident_hook\n"
        "from trident_hook.errors import UnsupportedEnvironmentError\n"
        "try:\n    trident_hook.ffi.register_aten()\n"
        "except UnsupportedEnvironmentError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "pip install apache-tvm-ffi" in done.stdout, done.stderr
