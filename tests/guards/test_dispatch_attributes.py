"""Specializations that differ in what is reached through an argument: told apart by the tree, as those are that differ in an
argument itself. And misses at the limit do not ask all of them."""

from __future__ import annotations

import itertools
import re

import pytest
import torch

import trident_hook
from trident_hook import api

X = torch.arange(8, dtype=torch.float32)
COUNT = 5


class Plain:
    def __init__(self, value) -> None:
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value) -> None:
        self.value = value


class Module(torch.nn.Module):
    def __init__(self, value) -> None:
        super().__init__()
        self.value, self.weight = value, torch.nn.Parameter(torch.ones(8))


class Computed:
    """The attribute is found in the instance; its class counts who asks for one that is not."""

    asked = 0

    def __init__(self, value) -> None:
        self.value = value

    def __getattr__(self, name):
        type(self).asked += 1
        raise AttributeError(name)


def of_attribute(x, holder):
    return x * len(holder.value) + 1


def of_item(x, holder):
    return x * len(holder["value"]) + 1


def of_nested(x, holder):
    return x * len(holder.value["inner"][0].value) + 1


def of_function(x, holder):
    return holder.value(x) + 1


def of_identity(x, holder):
    return x + (1 if holder.value is None else 2 if holder.value is True else 3 if holder.value is False else 4)


TEXTS = ["ab" * n + "c" for n in range(COUNT)]
FUNCTIONS = [eval(f"lambda x: x * {n} - {n}") for n in range(2, 2 + COUNT)]
KINDS = {
    "attribute": (of_attribute, lambda n: Plain(TEXTS[n])),
    "slot": (of_attribute, lambda n: Slotted(TEXTS[n])),
    "module": (of_attribute, lambda n: Module(TEXTS[n])),
    "class with __getattr__": (of_attribute, lambda n: Computed(TEXTS[n])),
    "item": (of_item, lambda n: {"value": TEXTS[n]}),
    "nested": (of_nested, lambda n: Plain({"inner": (Slotted(TEXTS[n]),)})),
    "function": (of_function, lambda n: Plain(FUNCTIONS[n])),
    "identity": (of_identity, lambda n: Plain((None, True, False, 3, "x")[n])),
}


def groups(fn) -> list[int]:
    """How many specializations stand together, of each group."""
    begins = re.search(r"static const int first\[\] = \{(.*?)\}", trident_hook.explain(fn).source)
    numbers = [int(n) for n in begins[1].split(",")]
    return [b - a for a, b in itertools.pairwise(numbers)]


@pytest.fixture
def learn():
    def learn(kind, plain=None):
        function, make = KINDS[kind]
        fn = trident_hook.jit(plain or function)
        holders = [make(n) for n in range(COUNT)]
        for holder in holders:
            for _ in range(3):
                fn(X, holder)
        return fn, holders

    return learn


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    trident_hook.config.build = "sync"
    with torch.no_grad():
        yield


def twin(function):
    return type(function)(function.__code__.replace(), function.__globals__, function.__name__)


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_told_apart(learn, kind):
    plain = KINDS[kind][0]
    fn, holders = learn(kind, twin(plain))
    assert set(groups(fn)) == {1}, groups(fn)
    before = trident_hook.counts(fn)["hits"]
    Computed.asked = 0
    for holder in [*holders, *reversed(holders)]:
        assert torch.equal(fn(X, holder), plain(X, holder))
    assert trident_hook.counts(fn)["hits"] - before == 2 * COUNT
    assert Computed.asked == 0


def test_any_other_argument_is_looked_at_without_harm(learn):
    fn, _ = learn("nested", twin(of_nested))
    for holder in (None, 3, {"value": 1}, Plain(None), Plain({}), Plain({"inner": ()}), Plain({"inner": (Plain(3),)})):
        expected = error_of(of_nested, holder)
        got = error_of(fn, holder)
        assert type(got) is type(expected)
        assert str(got) == str(expected)


def error_of(fn, holder):
    try:
        fn(X, holder)
    except Exception as error:
        return error
    return None


@pytest.mark.filterwarnings("ignore")
def test_a_miss_at_the_limit_does_not_ask_all(learn, monkeypatch):
    monkeypatch.setattr(trident_hook.config, "limit", COUNT)
    fn, holders = learn("attribute", twin(of_attribute))
    failed = torch.frombuffer(api.find_record(fn).last_miss.failed, dtype=torch.int32)

    def asked_by(calls: int) -> int:
        asked = 0
        for n in range(calls):
            failed[COUNT - 1] = -7
            assert torch.equal(fn(X, Plain("?" * (100 + n))), of_attribute(X, Plain("?" * (100 + n))))
            asked += failed[COUNT - 1] != -7
        return asked

    assert asked_by(20) == 20, "at first a miss is one for sure"
    asked_by(64)
    assert 1 <= asked_by(256) <= 8
    before = trident_hook.counts(fn)["hits"]
    for holder in holders:
        assert torch.equal(fn(X, holder), of_attribute(X, holder))
    assert trident_hook.counts(fn)["hits"] - before == COUNT
