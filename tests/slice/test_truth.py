"""Branches over objects: what `if o:` answers, by `__bool__`, by `__len__` and by a builtin base class."""

from __future__ import annotations

import collections

import pytest
import torch


class Number:
    def __init__(self, number):
        self.number = number

    def __bool__(self):
        return self.number > 2


class Lengthy:
    def __init__(self, number):
        self.number = number

    def __len__(self):
        return self.number - 1


class Items(list):
    def __init__(self, number):
        super().__init__(range(number - 1))


class Named(collections.OrderedDict):
    def __init__(self, number):
        super().__init__((n, n) for n in range(number - 1))


class Pair(tuple):
    def __new__(cls, number):
        return super().__new__(cls, range(number - 1))


class Queue(collections.deque):
    def __init__(self, number):
        super().__init__(range(number - 1))


def asks(x, o):
    return x * (2 if o else 3)


def asks_not(x, o):
    return x * (2 if not o else 3)


def chooses(x, o):
    return x * (2 if (o or None) else 3)


@pytest.mark.parametrize("kind", [Number, Lengthy, Items, Named, Pair, Queue])
@pytest.mark.parametrize("plain", [asks, asks_not, chooses])
def test_every_branch_is_pythons(plain, kind, served):
    fn, x = served(plain), torch.ones(2)
    for number in (1, 1, 2, 3, 4, 1, 2, 5):
        assert fn(x, kind(number)).tolist() == plain(x, kind(number)).tolist(), number
