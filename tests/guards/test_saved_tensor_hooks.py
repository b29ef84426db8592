"""Saved-tensor hooks: a program that saves nothing is served while they are active; any other call is a bypass, and the hooks
see what they see in the plain function."""

from __future__ import annotations

import contextlib

import pytest
import torch
from support.routes import routed, twin

import trident_hook

X = torch.arange(6.0).reshape(2, 3)
WEIGHT = torch.nn.Parameter(X + 1)
PACKED: list = []
hooks = torch.autograd.graph.saved_tensors_hooks


def counting():
    return hooks(lambda t: PACKED.append(tuple(t.shape)) or t, lambda t: t)


@contextlib.contextmanager
def below_others():
    with counting(), hooks(lambda t: t * 1, lambda t: t):
        yield


class Callable:
    def __call__(self, t):
        PACKED.append(tuple(t.shape))
        return t


def products(x, y):
    return (x * y).tanh().sum()


def with_unused(x, y):
    (x * y).exp()  # dead: no graph has it
    return x + y


def under_enable_grad(x, y):
    with torch.enable_grad():
        return (x * y).tanh()


def of_a_global(x, y):
    return (x * WEIGHT).tanh() + y


def grad():
    return X.clone().requires_grad_()


#: (function, arguments, grad mode, hooks) -> the route while the hooks are active
CASES = {
    "nothing requires grad": (products, (X, X + 1), True, counting, "scm"),
    "nothing requires grad, dead code": (with_unused, (X, X + 1), True, counting, "scm"),
    "grad mode is off": (products, (grad(), X), False, counting, "scm"),
    "grad mode is off, of a global": (of_a_global, (X, X), False, counting, "scm"),
    "two of them": (products, (X, X + 1), True, below_others, "scm"),
    "an argument requires grad": (products, (grad(), X), True, counting, "bypass"),
    "the other one": (products, (X, grad()), True, counting, "bypass"),
    "dead code that saves": (with_unused, (grad(), X), True, counting, "bypass"),
    "a global requires grad": (of_a_global, (X, X), True, counting, "bypass"),
    "grad mode is switched on": (under_enable_grad, (grad(), X), False, counting, "bypass"),
    "not plain functions": (products, (X, X), True, lambda: hooks(Callable(), Callable()), "bypass"),
}


@pytest.mark.parametrize("name", CASES)
def test_saved_tensor_hooks(name):
    fn, args, grad_mode, active, via = CASES[name]
    served = trident_hook.jit(twin(fn))
    with torch.set_grad_enabled(grad_mode):
        routed(served, *args, via="dynamo")
        routed(served, *args, via="scm")
        with active():
            PACKED.clear()
            twin(fn)(*args)
            expected = list(PACKED)
            PACKED.clear()
            before = trident_hook.counts(served)
            served(*args)
            after = trident_hook.counts(served)
            assert expected == PACKED
        routed(served, *args, via="scm")
    count = {"scm": "hits", "bypass": "bypasses"}[via]
    assert {n for n in after if after[n] != before[n]} - {"python"} == {count}
    assert bool(expected) == (name in SAVING), "the case is not what it says"


SAVING = (
    "an argument requires grad",
    "the other one",
    "dead code that saves",
    "a global requires grad",
    "grad mode is switched on",
)


def test_nothing_is_learned_under_hooks():
    """A call that no specialization serves is a bypass there, not a miss; the next one without hooks is learned."""
    served = trident_hook.jit(twin(products))
    routed(served, X, X, via="dynamo")
    with counting():
        routed(served, X, X, via="scm")
        for _ in range(4):
            routed(served, X.double(), X.double(), via="bypass")
    routed(served, X.double(), X.double(), via="dynamo")
    with counting():
        routed(served, X.double(), X.double(), via="scm")
        routed(served, X.half(), X.half(), via="bypass")
    assert trident_hook.explain(served).refused is None


def test_traceable_hooks_are_not_ours():
    """Dynamo asks which they are."""
    served = trident_hook.jit(twin(products))
    routed(served, X, X, via="dynamo")
    pack, unpack = (torch.fx.symbolic_trace(torch.nn.Identity()) for _ in range(2))
    with hooks(pack, unpack):
        routed(served, X, X, via="bypass")
    routed(served, X, X, via="scm")
