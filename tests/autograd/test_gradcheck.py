"""PyTorch's own check of gradients, in float64, against three wrappers of kernels; and what a second derivative does."""

from __future__ import annotations

import pytest
import torch
from support.routes import outcome

import trident_hook

from .library import inner, leaves

SEED = torch.Generator().manual_seed(1)


def numbers(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=SEED, dtype=torch.float64)


CASES = {
    "Silu": (numbers(3, 4),),
    "RmsNorm": (numbers(3, 4), numbers(4)),
    "MulAdd": (numbers(3, 4), numbers(3, 4), numbers(3, 4)),
}


def hits(function) -> tuple[int, int]:
    return tuple(trident_hook.counts(inner(f))["hits"] for f in (function.forward, function.backward))


@pytest.mark.parametrize("name", CASES)
def test_gradcheck(served, name):
    function = getattr(served, name)
    more = (1e-5,) if name == "RmsNorm" else ()
    assert torch.autograd.gradcheck(lambda *inputs: function.apply(*inputs, *more), leaves(*CASES[name]))
    forward, backward = hits(function)
    n = sum(t.numel() for t in CASES[name])
    assert forward >= 2 * n, "the numerical side calls forward twice for each element"
    assert backward >= CASES[name][0].numel(), "the analytical side calls backward once for each result"


def test_a_second_derivative_that_exists(served):
    """Doubling's backward is another Function."""
    assert torch.autograd.gradgradcheck(served.Doubling.apply, leaves(CASES["Silu"][0]))
    assert min(hits(served.SetUp)) > 10


@pytest.mark.parametrize("name", ["Silu", "MulAdd"])
def test_a_second_derivative_that_does_not(plain, served, name):
    """Through a kernel (nothing requires grad) and through once_differentiable (an error node)."""

    def second(library):
        inputs = leaves(*CASES[name])
        result = getattr(library, name).apply(*inputs)
        (first, *_) = torch.autograd.grad(result.sum(), inputs, create_graph=True)
        return torch.autograd.grad(first.sum(), inputs)

    expected = outcome(second, (plain,), {})
    assert expected.error is not None
    for _ in range(3):
        got = outcome(second, (served,), {})
        assert (type(got.error), str(got.error)) == (type(expected.error), str(expected.error))
    assert hits(getattr(served, name))[0] > 0
