"""Answers that Dynamo folds into the trace: after a change of what they were read from, served calls answer as the plain function."""

from __future__ import annotations

import abc
import functools
import sys
import typing

import pytest
import torch

import trident_hook

STATE = {"add": 1}
CALLS: list = []


@typing.runtime_checkable
class HasScale(typing.Protocol):
    scale: float


class Registered(abc.ABC):  # noqa: B024
    pass


class Meta(type):
    answer = True

    def __instancecheck__(cls, instance):
        return Meta.answer


class Asked(metaclass=Meta):
    pass


class Thing:
    pass


def named():
    pass


@functools.cache
def remembered(n):
    CALLS.append(n)
    return STATE["add"]


@functools.cache
def table(n):
    return [n]


def leaf(x):
    return x * (3 if x.is_leaf else 2)


def made_by(x):
    return x * (3 if x.grad_fn is None else 2)


def view(x):
    return x * (3 if x._is_view() else 2)


def storage(x):
    return x * x.untyped_storage().size()


def detached(x):
    h = x * 2
    h.detach_()
    return h * (3 if h.requires_grad else 2)


def protocol(x, o):
    return x * (3 if isinstance(o, HasScale) else 2)


def registered(x, o):
    return x * (3 if isinstance(o, Registered) else 2)


def asked(x, o):
    return x * (3 if isinstance(o, Asked) else 2)


def by_name(x):
    return x * len(named.__name__)


def by_class_name(x):
    return x * len(Thing.__name__)


def limit(x):
    return x * (sys.getrecursionlimit() % 7)


def from_the_cache(x):
    return x + remembered(x.numel())


def list_from_the_cache(x):
    return x + len(table(3))


def group(x):
    return x * (torch.distributed.get_world_size() + 8 if torch.distributed.is_initialized() else 2)


def scaled():
    thing = Thing()
    thing.scale = 1.0
    return thing


@pytest.mark.parametrize(("plain", "first", "second"), [
    (leaf, lambda: (torch.ones(2, requires_grad=True),), lambda: (torch.ones(2, requires_grad=True) * 1,)),
    (made_by, lambda: (torch.ones(2, requires_grad=True),), lambda: (torch.ones(2, requires_grad=True) * 1,)),
    (view, lambda: (torch.ones(2),), lambda: (torch.ones(4)[:2],)),
    (storage, lambda: (torch.ones(2),), lambda: (torch.ones(4)[:2],)),
    (detached, lambda: (torch.ones(2, requires_grad=True),), lambda: (torch.ones(2),)),
    (protocol, lambda: (torch.ones(2), Thing()), lambda: (torch.ones(2), scaled())),
], ids=lambda v: getattr(v, "__name__", ""))  # fmt: skip
def test_another_argument(plain, first, second, through):
    fn = through(plain)
    for make in (first, first, first, second, second, first):
        assert fn(*make()).tolist() == plain(*make()).tolist()


def changes(plain):
    return {
        registered: lambda patch: Registered.register(Thing),
        asked: lambda patch: patch.setattr(Meta, "answer", False),
        by_name: lambda patch: patch.setattr(named, "__name__", "longer name"),
        by_class_name: lambda patch: type.__setattr__(Thing, "__name__", "LongerName"),
        limit: lambda patch: sys.setrecursionlimit(sys.getrecursionlimit() + 1),
        from_the_cache: lambda patch: (remembered.cache_clear(), patch.setitem(STATE, "add", 5)),
        list_from_the_cache: lambda patch: table(3).append(1),
    }[plain]


@pytest.mark.parametrize(
    "plain", [registered, asked, by_name, by_class_name, limit, from_the_cache, list_from_the_cache]
)
def test_a_change_outside(plain, served, monkeypatch):
    args = (torch.ones(2), Thing()) if plain in (registered, asked) else (torch.ones(2),)
    before = sys.getrecursionlimit()
    try:
        fn = served(plain)
        for _ in range(3):
            assert fn(*args).tolist() == plain(*args).tolist()
        changes(plain)(monkeypatch)
        for _ in range(2):
            assert fn(*args).tolist() == plain(*args).tolist()
    finally:
        sys.setrecursionlimit(before)
        Thing.__name__ = "Thing"
        remembered.cache_clear()
        table.cache_clear()


def test_a_remembered_answer_is_not_made_again(served, monkeypatch):
    """The cache holds what the body would not give today; and the body is called as often as in plain Python."""
    remembered.cache_clear()
    CALLS.clear()
    x = torch.ones(2)
    expected = from_the_cache(x).tolist()
    monkeypatch.setitem(STATE, "add", 9)
    fn = served(from_the_cache)
    assert [fn(x).tolist() for _ in range(4)] == [expected] * 4
    assert (len(CALLS), trident_hook.counts(fn)["hits"]) == (1, 3)
    remembered.cache_clear()


def test_a_process_group(served):
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    fn, x = served(group), torch.ones(2)
    for _ in range(3):
        assert fn(x).tolist() == [2.0, 2.0]
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        assert [fn(x).tolist() for _ in range(3)] == [[9.0, 9.0]] * 3
    finally:
        torch.distributed.destroy_process_group()
    assert fn(x).tolist() == [2.0, 2.0]
