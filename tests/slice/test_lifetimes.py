"""What happens when objects go that a function makes, drops or leaves half way: as in the plain function."""

from __future__ import annotations

import contextlib
import weakref

import pytest
import torch

import trident_hook

EVENTS: list = []


class Timed:
    factor = 2

    def __del__(self):
        EVENTS.append("gone")


class Plain:
    factor = 2


def made_and_dropped(x):
    timed = Timed()
    return x * timed.factor


def watched(x):
    plain = Plain()
    weakref.ref(plain, lambda _: EVENTS.append("gone"))
    kept = weakref.ref(plain, lambda _: EVENTS.append("gone too"))
    return x * kept().factor


def numbers():
    try:
        yield 2
        yield 3
    finally:
        EVENTS.append("closed")


@contextlib.contextmanager
def region():
    EVENTS.append("enter")
    try:
        yield 2
    finally:
        EVENTS.append("exit")


def half_way(x):
    for number in numbers():
        x = x * number
        break
    EVENTS.append("after")
    return x


def to_the_end(x):
    for number in numbers():
        x = x * number
    EVENTS.append("after")
    return x


def in_a_region(x):
    with region() as number:
        return x * number


def returned(x):
    return x * 2, (n for n in (1, 2))


@pytest.mark.parametrize("plain", [made_and_dropped, watched, half_way, to_the_end, in_a_region])
def test_events_are_those_of_the_plain_function(plain, through):
    fn, x = through(plain), torch.ones(2)
    plain(x)
    expected, EVENTS[:] = list(EVENTS), []
    assert expected
    for _ in range(4):
        fn(x)
        assert expected == EVENTS
        EVENTS.clear()


@pytest.mark.parametrize("plain", [to_the_end, in_a_region])
def test_generators_that_end_are_served(plain, served):
    fn = served(plain)
    for _ in range(3):
        fn(torch.ones(2))
        EVENTS.clear()
    assert trident_hook.counts(fn)["hits"] == 2


def test_a_generator_that_is_returned(served):
    fn = served(returned)
    for _ in range(3):
        value, items = fn(torch.ones(2))
        assert (type(items).__name__, list(items), value.tolist()) == ("generator", [1, 2], [2.0, 2.0])
