"""Texts that a function makes of what it is given: `str`, `repr` and f-strings say what the plain function's say."""

from __future__ import annotations

import pytest
import torch

import trident_hook


class Shown:
    def __init__(self):
        self.number = 1

    def __repr__(self):
        return f"shown {self.number}"


class Named:
    pass


def helper():
    pass


def by_str(x, o):
    return x * 2, str(o)


def by_repr(x, o):
    return x * 2, repr(o)


def by_format(x, o):
    return x * 2, f"{o} and {o!r}"


def renamed(o):
    o.__qualname__ = "Another" if o.__qualname__ != "Another" else "Third"


def numbered(o):
    o.number += 1


def nested(o):
    numbered(o["a"])


def grown(o):
    o["a"] += 1


@pytest.mark.parametrize("plain", [by_str, by_repr, by_format])
@pytest.mark.parametrize(
    ("make", "change"),
    [
        (Shown, numbered),
        (lambda: Named, renamed),
        (lambda: helper, renamed),
        (lambda: {"a": 1}, grown),
        (lambda: {"a": Shown()}, nested),
    ],
    ids=["object", "class", "function", "dict", "dict of objects"],
)
def test_a_text_after_a_change(plain, make, change, served):
    fn, x, o = served(plain), torch.ones(2), make()
    for number in range(6):
        assert fn(x, o)[1] == plain(x, o)[1], number
        if number > 1:
            change(o)


def test_objects_with_a_text_of_their_own_are_served(served):
    fn, o = served(by_repr), Shown()
    for _ in range(3):
        assert fn(torch.ones(2), o)[1] == "shown 1"
    assert trident_hook.counts(fn)["hits"] == 2
