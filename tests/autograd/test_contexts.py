"""What was saved for backward is only read where reading it is harmless; and whole functions that call `apply`."""

from __future__ import annotations

import pytest
import torch
from support.routes import outcome, routed, same
from torch.utils.checkpoint import checkpoint

import trident_hook
from trident_hook import _rt

from .library import BYPASS, HIT, leaves, routes_of, train

X = torch.randn(6, 8, generator=torch.Generator().manual_seed(2))


@pytest.fixture
def warm(served):
    for _ in range(2):
        train(served.Silu, X)
    return served


def test_hooks_see_every_reading_once(plain, warm):
    """Saved-tensor hooks run the program's code: forward packs, backward unpacks, once each."""

    def step(library):
        seen = []
        pack, unpack = (lambda t: seen.append("pack") or t), (lambda t: seen.append("unpack") or t)
        (x,) = leaves(X)
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = library.Silu.apply(x)
        y.sum().backward()
        return seen, x.grad

    expected = step(plain)
    got, _, backward = routes_of(warm.Silu, lambda: step(warm))
    assert same(got, expected)
    assert backward == BYPASS
    _, forward, backward = routes_of(warm.Silu, lambda: train(warm.Silu, X))
    assert (forward, backward) == (HIT, HIT)


def test_hooks_before_anything_is_known(plain, served):
    """The first backward of all must not read them either, though that is when Dynamo would look."""

    def step(library):
        seen = []
        (x,) = leaves(X)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: seen.append("unpack") or t):
            y = library.Silu.apply(x)
        y.sum().backward()
        return seen, x.grad

    assert same(step(served), step(plain))


def test_checkpoint(plain, warm):
    """Its unpack hook recomputes, and refuses to be asked twice."""

    def step(library):
        (x,) = leaves(X)
        checkpoint(lambda t: library.Silu.apply(t * 2), x, use_reentrant=False).sum().backward()
        return x.grad

    expected = step(plain)
    for _ in range(3):
        assert same(step(warm), expected)


def test_saved_tensors_that_are_given_up_when_read(plain, served):
    for library in (plain, served):
        library.Silu.clear_saved_tensors_on_access = True
    for _ in range(3):
        got, _, backward = routes_of(served.Silu, lambda: train(served.Silu, X))
        assert same(got, train(plain.Silu, X))
        assert backward[0] == 0


def test_a_graph_that_is_gone(plain, warm):
    def step(library):
        (x,) = leaves(X)
        y = library.Silu.apply(x).sum()
        y.backward()
        y.backward()

    both(step, plain, warm, "backward through the graph a second time")


def test_a_saved_tensor_that_was_changed(plain, warm):
    def step(library):
        (x,) = leaves(X)
        middle = x * 2
        y = library.Silu.apply(middle).sum()
        middle.add_(1)
        y.backward()

    both(step, plain, warm, "modified by an inplace operation")


class Counting(torch.autograd.Function):
    """Only counts what it saved."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * len(ctx.saved_tensors)


def test_the_first_backward_fails():
    """Dynamo takes saved tensors that cannot be read for none at all, and would trace on."""

    def step(_):
        (x,) = leaves(X)
        middle = x * 2
        y = Counting.apply(middle).sum()
        middle.add_(1)
        y.backward()

    both(step, None, None, "modified by an inplace operation")
    with trident_hook.enable(include=[Counting.forward, Counting.backward]):
        both(step, None, None, "modified by an inplace operation")
        for _ in range(2):  # it has raised three times: a call runs as plain Python before the next one is captured
            train(Counting, X)
        _, forward, backward = routes_of(Counting, lambda: train(Counting, X))
        assert (forward, backward) == (HIT, HIT)


def both(step, plain, served, text: str) -> None:
    expected = outcome(step, (plain,), {}).error
    assert text in str(expected)
    for _ in range(2):
        got = outcome(step, (served,), {}).error
        assert (type(got), str(got)) == (type(expected), str(expected))


def test_plain_contexts():
    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad

    (x,) = leaves(X)
    assert _rt.context_is_plain(Identity.apply(x).grad_fn)
    assert _rt.context_is_plain(x)
    with torch.autograd.graph.save_on_cpu():
        assert not _rt.context_is_plain(Identity.apply(x).grad_fn)
    used = Identity.apply(x)
    used.sum().backward()
    assert not _rt.context_is_plain(used.grad_fn)


# -- whole functions ----------------------------------------------------------------------------------------------------


def test_a_function_that_applies_one_is_left_alone(plain):
    """What requires grad: tracing through `apply` would lose its backward."""
    fn = trident_hook.jit(plain.silu)
    for _ in range(3):
        assert same(train(fn, X), train(plain.Silu, X))
    assert "autograd-function" in str(trident_hook.explain(fn).refusals)
    assert trident_hook.counts(fn)["hits"] == 0


def test_a_function_that_applies_one_without_grad(plain):
    fn = trident_hook.jit(plain.silu)
    routed(fn, X, via="dynamo")
    assert routed(fn, X, via="scm", launches=1).grad_fn is None
    routed(fn, *leaves(X), via="dynamo")


PARAMETER = torch.full((3,), 2.0, requires_grad=True)


class Returning(torch.autograd.Function):
    """Uses a tensor that it was not given, asks for the grad mode, gives an argument back."""

    @staticmethod
    def forward(ctx, x, y):
        return x, y * PARAMETER, torch.is_grad_enabled()

    @staticmethod
    def backward(ctx, *grads):
        return grads[:2]


def returning(x, y):
    same_one, product, mode = Returning.apply(x, y)
    return same_one, product, mode, y * PARAMETER


def test_apply_without_grad_is_eagers():
    """Forward runs without grad mode, and an argument that comes back is a view."""
    fn = trident_hook.jit(returning)
    x, y = torch.ones(3), torch.arange(3.0)
    routed(fn, x, y, via="dynamo")
    view, product, mode, other = routed(fn, x, y, via="scm")
    assert view is not x
    assert view._base is x
    assert (product.requires_grad, mode, other.requires_grad) == (False, False, True)


def test_non_differentiable_results_stay_so(plain, served):
    """Dynamo forgets the mark in a forward that is compiled by itself."""
    for _ in range(3):
        a, b = leaves(X, X)
        (first, second), forward, _ = routes_of(served.WithoutSecond, lambda: served.WithoutSecond.apply(a, b))
        assert first.requires_grad
        assert not second.requires_grad
    assert forward == HIT
