"""How the tests call a Function: what a run of it shows, and what the run added to the counts of its two directions."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

import torch
from support import routes


class Library:
    """One copy of `functions`."""

    def __init__(self, module: types.ModuleType) -> None:
        self.module = module

    def __getattr__(self, name: str):
        return getattr(self.module, name)

    def directions(self) -> list:
        """The functions that users wrote, below the decorators."""
        classes = [v for v in vars(self.module).values() if isinstance(v, type) and v is not torch.autograd.Function]
        return [inner(f) for c in classes if issubclass(c, torch.autograd.Function) for f in (c.forward, c.backward)]


def fresh_functions(name: str) -> types.ModuleType:
    """A copy of `functions`, importable by that name, with code and kernels of its own."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("functions.py"))
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def inner(function):
    return getattr(function, "__wrapped__", function)


def leaves(*tensors: torch.Tensor, requiring: tuple | None = None) -> list[torch.Tensor]:
    """Copies that are leaves; those at `requiring` (default: all) require grad."""
    return [t.clone().requires_grad_(requiring is None or i in requiring) for i, t in enumerate(tensors)]


def train(function, *args, requiring: tuple | None = None) -> dict:
    """One step: forward, a loss that weighs every element otherwise, backward. What there is to see afterwards."""
    copies = iter(leaves(*(a for a in args if isinstance(a, torch.Tensor)), requiring=requiring))
    given = [next(copies) if isinstance(a, torch.Tensor) else a for a in args]
    result = function.apply(*given) if isinstance(function, type) else function(*given)
    results = result if isinstance(result, tuple) else (result,)
    loss = sum((r * torch.arange(1.0, r.numel() + 1).view(r.shape)).sum() for r in results if r.requires_grad)
    if isinstance(loss, torch.Tensor):
        loss.backward()
    tensors = [a for a in given if isinstance(a, torch.Tensor)]
    return {
        "results": [r.detach() for r in results],
        "facts": [
            (r.requires_grad, r.is_leaf, type(r.grad_fn).__name__, r._version, r.is_inference()) for r in results
        ],
        "gradients": [a.grad for a in tensors],
        "versions": [a._version for a in tensors],
    }


def routes_of(function, call) -> tuple[object, tuple, tuple]:
    """call()'s answer, and the routes (see routes.route_of) that forward and backward took."""
    with routes.counted(inner(function.forward)) as forward, routes.counted(inner(function.backward)) as backward:
        answer = call()
    return answer, routes.route_of(forward), routes.route_of(backward)


HIT, NOT_CALLED = (1, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0)
MISS, BYPASS = (0, 1, 0, 0, 1, 0), (0, 0, 0, 1, 0, 0)
