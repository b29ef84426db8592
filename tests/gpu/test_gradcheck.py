"""PyTorch's own check of gradients in float64 against three wrappers of kernels, both directions served on the GPU."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from support.routes import same

import trident_hook

pytestmark = pytest.mark.gpu
SOURCE = Path(__file__).resolve().parents[1] / "autograd" / "functions.py"
SIZES = {"Silu": ((3, 4),), "RmsNorm": ((3, 4), (4,)), "MulAdd": ((3, 4), (3, 4), (3, 4))}


@pytest.fixture
def load(monkeypatch):
    """load(NAME) -> a copy of the Functions with code and kernels of its own."""

    def fresh(name: str):
        spec = importlib.util.spec_from_file_location(name, SOURCE)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return fresh


def directions(function) -> list:
    return [getattr(f, "__wrapped__", f) for f in (function.forward, function.backward)]


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
