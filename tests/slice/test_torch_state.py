"""The thread's torch state: a specialization serves under the state that it was captured in, and no other."""

from __future__ import annotations

import contextlib

import pytest
import torch
from support import programs
from support.routes import outcome, routed, same, twin, warm
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import trident_hook

X, W = torch.randn(8, 16), torch.randn(16, 4)


@contextlib.contextmanager
def default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def fewer_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


STATES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "default dtype": default_dtype,
    "deterministic": deterministic,
    "threads": fewer_threads,
    "default device": lambda: torch.device("cpu"),
}


def stateful(x, w):
    """Its answer shows the grad mode, autocast and the default dtype."""
    y = torch.empty_like(x)
    programs.shift_kernel[(1,)](x, y, 3, x.numel(), BLOCK=128)
    return y, torch.ones(3), x @ w, (x * 2).relu()


@pytest.mark.parametrize("state", STATES)
def test_another_state(served, state):
    fn = served(stateful)
    x = X.clone().requires_grad_()
    warm(fn, x, W)
    with STATES[state]():
        for _ in range(3):
            assert same(fn(x, W), twin(fn)(x, W))
    assert (trident_hook.counts(fn)["hits"] <= 3 and trident_hook.explain(fn).last_miss != "none") or state in (
        "default device",
    )
    routed(fn, x, W, via="scm")


@pytest.mark.parametrize("state", ["no_grad", "inference_mode", "autocast", "default dtype", "deterministic"])
def test_another_state_gets_its_own_specialization(served, state):
    fn = served(stateful)
    warm(fn, X, W)
    with STATES[state]():
        routed(fn, X, W, via="dynamo", reason="torch state")
        routed(fn, X, W, via="scm")
    routed(fn, X, W, via="scm")
    with STATES[state]():
        routed(fn, X, W, via="scm")


def test_autograd_goes_through(served):
    fn = served(differentiable)
    x = X.clone().requires_grad_()
    warm(fn, x, W)
    w = W.clone()
    for call in (fn, twin(fn)):
        x.grad = None
        call(x, w).sum().backward()
        if call is fn:
            got = x.grad
    assert torch.equal(got, x.grad)
    with torch.no_grad():
        routed(fn, x, W, via="dynamo")
        routed(fn, x, W, via="scm")


def differentiable(x, w):
    return (x @ w).relu() * 3


class Counting(TorchFunctionMode):
    calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


class Dispatching(TorchDispatchMode):
    calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [Counting, Dispatching])
def test_modes_see_every_operator(through, mode):
    fn = through(programs.aten_only)
    warm(fn, X, W)
    with mode() as eager:
        twin(fn)(X, W)
    with mode() as ours:
        fn(X, W)
    assert ours.calls == eager.calls > 0
    assert trident_hook.counts(fn)["bypasses"] == 1
    routed(fn, X, W, via="scm")


@pytest.mark.parametrize("mode", [Counting, Dispatching])
def test_a_function_first_called_under_a_mode(served, mode):
    fn = served(programs.aten_only)
    with mode():
        for _ in range(4):
            assert same(fn(X, W), twin(fn)(X, W))
    assert trident_hook.explain(fn).refused is None, "a mode says nothing about the function"
    warm(fn, X, W)


def test_vmap_is_not_served(served):
    fn = served(elementwise)
    warm(fn, X)
    expected = torch.vmap(twin(fn))(X)
    assert torch.equal(torch.vmap(fn)(X), expected)
    assert trident_hook.counts(fn)["hits"] == 1
    routed(fn, X, via="scm")


def test_functional_grad_is_not_served(served):
    fn = served(elementwise)
    warm(fn, X)
    got = torch.func.grad(lambda x: fn(x).sum())(X)
    assert torch.equal(got, torch.func.grad(lambda x: twin(fn)(x).sum())(X))
    assert trident_hook.counts(fn)["hits"] == 1


def elementwise(x):
    return x.sin() * 2


def test_forward_mode_tangents(served):
    import torch.autograd.forward_ad as fwd

    fn = served(elementwise)
    warm(fn, X)
    with fwd.dual_level():
        dual = fwd.make_dual(X, torch.ones_like(X))
        got, expected = fwd.unpack_dual(fn(dual)), fwd.unpack_dual(twin(fn)(dual))
        assert same(got.primal.clone(), expected.primal.clone())
        assert same(got.tangent.clone(), expected.tangent.clone())
    routed(fn, X, via="scm")


def test_saved_tensor_hooks_are_called(served):
    fn, packed = served(differentiable), []
    x = X.clone().requires_grad_()
    warm(fn, x, W)

    def pack(t):
        packed.append(t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        twin(fn)(x, W)
        eager = len(packed)
        fn(x, W)
    assert len(packed) == 2 * eager > 0


def test_deterministic_fill_of_empty(served):
    """use_deterministic_algorithms fills what torch.empty gives with NaN."""
    fn = served(only_empty)
    warm_ignoring_contents(fn)
    with deterministic():
        for _ in range(3):
            assert fn(X).isnan().all()


def only_empty(x):
    y = torch.empty_like(x)
    y[:, 0]
    return y


def warm_ignoring_contents(fn):
    fn(X), fn(X)


def test_errors_of_a_state(served):
    """In-place on a leaf that requires grad: raised by whoever answers, and only with grad mode on."""
    fn = served(in_place)
    x = torch.randn(4, requires_grad=True)
    with torch.no_grad():
        for _ in range(2):
            fn(x)
    assert isinstance(outcome(twin(fn), (x,), {}).error, RuntimeError)
    for _ in range(3):
        error = outcome(fn, (x,), {}).error
        assert isinstance(error, RuntimeError)
        assert "leaf" in str(error)


def in_place(x):
    return x.add_(1)
