"""Dicts of classes of the program's own, as model outputs are: made, returned and changed by a served function."""

from __future__ import annotations

import collections
import dataclasses

import pytest
import torch
from support import programs
from support.routes import twin, warm

import trident_hook


class Output(collections.OrderedDict):
    """Keys are attributes too, as in transformers' ModelOutput."""

    def __init__(self, **values):
        super().__init__()
        for name, value in values.items():
            self[name] = value

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __getitem__(self, name):
        return super().__getitem__(name) if isinstance(name, str) else tuple(self.values())[name]


@dataclasses.dataclass
class Fields(collections.OrderedDict):
    """A dataclass that is a dict of its fields which are not None."""

    first: torch.Tensor | None = None
    second: torch.Tensor | None = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)


class Plain(dict):
    pass


def contents(value) -> tuple:
    return (
        type(value),
        [(k, v.tolist() if isinstance(v, torch.Tensor) else v) for k, v in value.items()],
        sorted(vars(value)),
    )


FORMS = {
    "output": lambda x: Output(a=programs.shift(x, 3), b=x * 2),
    "one key twice": lambda x: (lambda o: (o.__setitem__("a", x * 2), o)[1])(Output(a=programs.shift(x, 3))),
    "fields": lambda x: Fields(programs.shift(x, 3), x + 1),
    "fields, one is none": lambda x: Fields(second=programs.shift(x, 3)),
    "dict": lambda x: Plain(a=programs.shift(x, 3)),
    "empty": lambda x: (programs.shift(x, 3), Plain())[1],
    "numbers as keys": lambda x: (lambda d: (d.__setitem__(3, programs.shift(x, 3)), d)[1])(Plain()),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_new_one(served, form):
    plain, fn = twin(FORMS[form]), served(FORMS[form])
    x = torch.arange(4.0)
    for _ in range(3):
        assert contents(fn(x)) == contents(plain(x))
    assert trident_hook.counts(fn)["hits"] == 2
    assert fn(x) is not fn(x)


def test_two_names_of_one_stay_one(served):
    def fn(x):
        output = Output(a=programs.shift(x, 3))
        return output, [output], output["a"]

    fn = served(fn)
    for _ in range(2):
        first, (second,), inner = fn(torch.arange(4.0))
        assert first is second
        assert first.a is first["a"] is inner
    assert trident_hook.counts(fn)["hits"] == 1


def test_one_that_was_passed_in_is_changed_in_place(through):
    def put(x, into):
        into["n"] = programs.shift(x, 3)
        return len(into)

    fn = through(put)
    x = torch.arange(4.0)
    for _ in range(3):
        mine, theirs = Output(old=1), Output(old=1)
        assert (fn(x, mine), contents(mine)) == (put(x, theirs), contents(theirs))
    assert trident_hook.counts(fn)["hits"] == 2
    fuller, same = Output(old=1, other=2), Output(old=1, other=2)
    assert (fn(x, fuller), contents(fuller)) == (put(x, same), contents(same))


def test_the_hit_makes_what_the_class_of_now_makes(served):
    """What the class defines is guarded: a new `__setitem__` is another specialization."""

    class Mine(Output):
        pass

    def fn(x):
        return Mine(a=programs.shift(x, 3))

    fn = served(fn)
    x = torch.arange(4.0)
    warm(fn, x)
    Mine.__setitem__ = lambda self, name, value: collections.OrderedDict.__setitem__(self, "other", value)
    assert contents(fn(x)) == (Mine, [("other", [3.0, 4.0, 5.0, 6.0])], [])
