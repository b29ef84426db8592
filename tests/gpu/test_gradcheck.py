"""PyTorch's own check of gradients in float64 against three wrappers of kernels, both directions served on the GPU."""

from __future__ import annotations

import sys

import pytest
import torch
from autograd.library import fresh_functions, inner
from support.routes import same

import trident_hook

pytestmark = pytest.mark.gpu
SIZES = {"Silu": ((3, 4),), "RmsNorm": ((3, 4), (4,)), "MulAdd": ((3, 4), (3, 4), (3, 4))}


@pytest.fixture
def load():
    """load(NAME) -> a copy of the Functions with code and kernels of its own."""
    made = []

    def fresh(name: str):
        made.append(name)
        return fresh_functions(name)

    yield fresh
    for name in made:
        del sys.modules[name]


def directions(function) -> list:
    return [inner(f) for f in (function.forward, function.backward)]


def gradients(function, inputs, more) -> list[torch.Tensor]:
    result = function.apply(*inputs, *more)
    weights = torch.arange(1.0, result.numel() + 1, dtype=result.dtype, device=result.device).view(result.shape)
    return [result.detach(), *torch.autograd.grad((result * weights).sum(), inputs)]


@pytest.mark.parametrize("name", SIZES)
def test_gradcheck(load, name):
    plain, served = (getattr(load(f"gradcheck_{name}_{which}"), name) for which in ("plain", "served"))
    inputs = [torch.randn(*s, device="cuda", dtype=torch.float64, requires_grad=True) for s in SIZES[name]]
    more = (1e-5,) if name == "RmsNorm" else ()
    expected = gradients(plain, inputs, more)
    with trident_hook.enable(include=directions(served)):
        assert torch.autograd.gradcheck(lambda *given: served.apply(*given, *more), inputs)
        before = [trident_hook.counts(f)["hits"] for f in directions(served)]
        assert same(gradients(served, inputs, more), expected)
        after = [trident_hook.counts(f)["hits"] for f in directions(served)]
    n = sum(tensor.numel() for tensor in inputs)
    assert before[0] >= 2 * n, "the numerical side calls forward twice for each element"
    assert before[1] >= inputs[0].numel(), "the analytical side calls backward once for each result"
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1]
