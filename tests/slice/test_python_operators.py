"""Operators written in Python run code of the program in the middle of a function: what they change, and when, is as in plain Python."""

from __future__ import annotations

import pytest
import torch

import trident_hook

EVENTS: list = []
STATE = {"factor": 1}
FACTOR = 1


def operator(name):
    def make(fn):
        op = torch.library.custom_op(f"trident_hook_tests::{name}", fn, mutates_args=())
        op.register_fake(lambda x: torch.empty_like(x))
        return op

    return make


@operator("notes")
def notes(x: torch.Tensor) -> torch.Tensor:
    EVENTS.append("op")
    return x + 1


@operator("steps")
def steps(x: torch.Tensor) -> torch.Tensor:
    STATE["factor"] += 1
    return x + 1


@operator("rebinds")
def rebinds(x: torch.Tensor) -> torch.Tensor:
    global FACTOR
    FACTOR += 1
    return x + 1


def helper():
    STATE["factor"] += 2


@operator("calls")
def calls(x: torch.Tensor) -> torch.Tensor:
    helper()
    return x + 1


@operator("pure")
def pure(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    out[:] = x * 3
    return out


def around(x):
    EVENTS.append("before")
    y = notes(x)
    EVENTS.append("after")
    return y


def reads_an_item(x):
    return steps(x) * STATE["factor"]


def reads_a_global(x):
    return rebinds(x) * FACTOR


def reads_through_a_helper(x):
    return calls(x) * STATE["factor"]


def length(x):
    return notes(x) * len(EVENTS)


def writes_around_pure(x):
    STATE["factor"] = 7
    return pure(x)


def runs(fn) -> list:
    global FACTOR
    EVENTS.clear()
    STATE["factor"] = FACTOR = 1
    return [(fn(torch.ones(2)).tolist(), list(EVENTS), dict(STATE), FACTOR) for _ in range(4)]


PROGRAMS = (around, reads_an_item, reads_a_global, reads_through_a_helper, length, writes_around_pure)


@pytest.mark.parametrize("plain", PROGRAMS, ids=lambda fn: fn.__name__)
def test_order_as_in_plain_python(plain, through):
    expected = runs(plain)
    assert runs(through(plain)) == expected


def test_an_operator_that_changes_nothing_is_served(served):
    fn = served(lambda x: pure(x) + 1)
    for _ in range(3):
        assert fn(torch.ones(2)).tolist() == [4.0, 4.0]
    assert trident_hook.counts(fn)["hits"] == 2, trident_hook.explain(fn).refusals
