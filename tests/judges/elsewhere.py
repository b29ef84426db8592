"""A module of the user's own that functions of the corpus call into: its globals are not theirs."""

from __future__ import annotations

RATE = 2
OPTIONS = {"deep": 1}


def inner(x):
    return x * RATE + OPTIONS["deep"]


def outer(x):
    return abs(inner(x)) + 1
