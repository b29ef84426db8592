"""What may differ from the plain function: each line of the list in docs/soundness.md. A test that fails because a served call does
as the plain one is good news, and its line goes."""

from __future__ import annotations

import warnings

import torch

import trident_hook

EVENTS: list = []


class Timed:
    def __del__(self):
        EVENTS.append("gone")


def warns(x):
    return torch.std(x[:1], dim=0)


def drops(x, held):
    held.clear()
    EVENTS.append("cleared")
    return x * 2


def place(fn, x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fn(x)
    (one,) = seen
    return one.filename, one.lineno


def test_the_place_of_a_warning(served):
    fn, x = served(warns), torch.ones(3)
    assert place(warns, x) == (__file__, warns.__code__.co_firstlineno + 1)
    for _ in range(3):
        place(fn, x)
    assert trident_hook.counts(fn)["hits"] == 2
    assert place(fn, x) == (__file__, place.__code__.co_firstlineno + 3)


def test_when_a_dropped_object_is_finalized(served):
    fn, x = served(drops), torch.ones(3)
    drops(x, [Timed()])
    assert EVENTS == ["gone", "cleared"]
    for _ in range(3):
        EVENTS.clear()
        fn(x, [Timed()])
    assert trident_hook.counts(fn)["hits"] == 2
    assert EVENTS == ["cleared", "gone"]
    EVENTS.clear()
