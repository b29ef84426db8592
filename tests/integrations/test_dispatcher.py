"""Functions that the dispatcher calls: nested in each other, under autograd, with the thread's state as it is there."""

from __future__ import annotations

import contextlib

import mini_gems
import pytest
import torch
from mini_gems import ops
from support.routes import counts, same
from torch._guards import CompileContext

import trident_hook

pytestmark = pytest.mark.usefixtures("described")
silu = torch.nn.functional.silu


def gated(self):
    """An operator of the library that reaches another one through the dispatcher, and launches a kernel itself."""
    return ops.double_rows(torch.nn.functional.silu(self))


@contextlib.contextmanager
def registered():
    """`neg` is `gated`, `silu` is the library's."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("neg", gated, "CPU")
    try:
        with mini_gems.use_mini_gems("silu"):
            yield
    finally:
        library._destroy()


def hits(*functions) -> list[int]:
    return [counts(fn).get("hits", 0) for fn in functions]


def test_an_operator_inside_an_operator():
    x = torch.randn(4, 32)
    with registered():
        expected = torch.neg(x)
        with trident_hook.enable(include=[gated, ops.silu]):
            for _ in range(5):
                torch.neg(x)
            before, launched = hits(gated, ops.silu), counts(gated)["rt_launch"]
            got = torch.neg(x)
            after = hits(gated, ops.silu)
            assert counts(gated)["rt_launch"] - launched == 2
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1]
    assert same(got, expected)


def test_an_operator_that_is_registered_later_is_the_one_that_is_called():
    """A specialization calls what the dispatcher has now, not what it had at capture."""
    x = torch.randn(4, 32)
    with trident_hook.enable(include=[gated]):
        for _ in range(3):
            plain = gated(x)
        with mini_gems.use_mini_gems("silu"):
            expected = ops.double_rows(ops.silu(x))
            before = hits(gated)
            assert same(gated(x), expected)
            assert hits(gated) >= before
        assert same(gated(x), plain)


def test_below_autograd_the_state_is_the_dispatchers():
    """With and without gradients the library's function runs under two states of the dispatcher: each is served."""
    x = torch.randn(4, 32, requires_grad=True)
    with mini_gems.use_mini_gems("silu"), trident_hook.enable(include=[ops.silu]):
        for _ in range(3):
            silu(x)
            with torch.no_grad():
                silu(x)
        before = hits(ops.silu)
        y = silu(x)
        with torch.no_grad():
            z = silu(x)
        assert hits(ops.silu)[0] - before[0] == 2, trident_hook.explain(ops.silu).last_miss
    assert (y.requires_grad, z.requires_grad) == (True, False)
    assert torch.equal(y, z)


def test_a_formula_that_calls_a_served_operator():
    """The gradient of `x * silu(x)` needs silu's value again: made by the same served function."""
    x = torch.randn(4, 32, requires_grad=True)

    def loss():
        return (x * silu(x)).sum()

    (expected,) = torch.autograd.grad(loss(), x)
    with mini_gems.use_mini_gems("silu"), trident_hook.enable(include=[ops.silu]):
        for _ in range(4):
            loss()
        before = hits(ops.silu)
        (got,) = torch.autograd.grad(loss(), x)
        assert hits(ops.silu)[0] == before[0] + 1
    assert torch.allclose(got, expected, atol=1e-5)


def test_under_inference_mode():
    x = torch.randn(4, 32)
    with mini_gems.use_mini_gems("silu"), trident_hook.enable(include=[ops.silu]), torch.inference_mode():
        for _ in range(4):
            y = silu(x)
        before = hits(ops.silu)
        y = silu(x)
        assert hits(ops.silu)[0] == before[0] + 1
        assert y.is_inference()


def test_what_pytorch_calls_while_it_traces_is_not_captured():
    """Tracing calculates with constants: the dispatcher calls `neg` in the middle of the capture of its caller."""
    seen = []

    def negated(self):
        y = ops.double_rows(self.reshape(1, 1))
        seen.append(CompileContext.try_get() is not None)
        return y.reshape(())

    def scaled(x):
        return ops.double_rows(x) * torch.neg(torch.tensor(1.5))

    library = torch.library.Library("aten", "IMPL")
    library.impl("neg", negated, "CPU")
    x = torch.randn(4, 32)
    try:
        expected = scaled(x)
        with trident_hook.enable(include=[scaled, negated]):
            for _ in range(4):
                assert same(scaled(x), expected)
            assert hits(scaled) == [3]
            assert any(seen)
            assert counts(negated)["python"] >= 1
            assert not trident_hook.explain(negated).refusals.get("dynamo-error")
    finally:
        library._destroy()
