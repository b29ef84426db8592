"""Functions that are marked for Dynamo are called as often as the plain function calls them, with its tensors."""

from __future__ import annotations

import pytest
import torch

EVENTS: list = []
STATE = {"scale": 2}


@torch._dynamo.assume_constant_result
def constant():
    return STATE["scale"]


class Holder:
    @torch._dynamo.assume_constant_result
    def constant(self):
        return STATE["scale"]


@torch._dynamo.allow_in_graph
def allowed(x):
    EVENTS.append(type(x).__name__)
    return x * 2


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        EVENTS.append(type(x).__name__)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


torch._dynamo.allow_in_graph(Doubled)


def by_constant(x):
    return x * constant()


def by_method(x, holder):
    return x * holder.constant()


def by_allowed(x):
    return allowed(x)


def by_class(x):
    return Doubled.apply(x)


@pytest.mark.parametrize("plain", [by_constant, by_method])
def test_a_result_that_changes(plain, through, monkeypatch):
    fn, args = through(plain), (torch.ones(2), Holder())[: plain.__code__.co_argcount]
    for _ in range(3):
        assert fn(*args).tolist() == [2.0, 2.0]
    monkeypatch.setitem(STATE, "scale", 5)
    assert [fn(*args).tolist() for _ in range(2)] == [[5.0, 5.0]] * 2


@pytest.mark.parametrize("plain", [by_allowed, by_class])
def test_one_call_is_one(plain, through):
    fn = through(plain)
    for _ in range(3):
        fn(torch.ones(2))
        assert EVENTS == ["Tensor"]
        EVENTS.clear()
