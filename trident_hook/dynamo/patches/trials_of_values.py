"""Trials, as in `trials.py`, of the lessons about containers, about answers that Dynamo folds, and about nodes that stay."""

from __future__ import annotations

import collections
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .trials import Trial


def _tensor():
    import torch

    return torch.arange(6.0)


def _refused(function: Callable, *arguments: Any) -> Trial:
    return Trial(function, arguments, refused=True)


# -- containers --------------------------------------------------------------------------------------------------------


def order_of_keys() -> Iterator[Trial]:
    def turns(x, table):
        table.move_to_end("a")
        return x + 1

    table = collections.OrderedDict(a=1, b=2)
    yield Trial(turns, (_tensor(), table), holds=lambda captured: list(table) == ["b", "a"])


def changed_sets() -> Iterator[Trial]:
    def adds(x, members):
        members.add(5)
        return x + 1

    def removes(x, members):
        members.discard(1)
        return x + 1

    def merges(x, members):
        members |= {7}
        return x + 1

    for function in (adds, removes, merges):
        yield _refused(function, _tensor(), {1, 2})


def lengths_of_deques() -> Iterator[Trial]:
    def reads(x, numbers):
        return x * numbers[0]

    def fills(x):
        numbers = collections.deque([1, 2], maxlen=2)
        numbers.appendleft(3)
        return x * numbers[-1]

    yield _refused(reads, _tensor(), collections.deque([2, 3], maxlen=3))
    yield Trial(
        reads, (_tensor(), collections.deque([2, 3])), lambda x, numbers: (x, collections.deque(numbers, maxlen=3))
    )
    yield _refused(fills, _tensor())


def named_tuples() -> Iterator[Trial]:
    pair = collections.namedtuple("pair", "one other")

    def replaces(x, given):
        return x + 1, given._replace(other=3)

    def joins(x, given):
        return x, given + (3,)

    def repeats(x, given):
        return x, given * 2

    yield Trial(replaces, (_tensor(), pair(2, 5)), holds=lambda captured: captured.answer[1:] == (pair(2, 3),))
    yield _refused(joins, _tensor(), pair(2, 5))
    yield _refused(repeats, _tensor(), pair(2, 5))


def multiplied_lists() -> Iterator[Trial]:
    def doubles(x, numbers):
        numbers *= 2
        return x + len(numbers)

    yield _refused(doubles, _tensor(), [1, 2])


# -- answers -----------------------------------------------------------------------------------------------------------


def tensors() -> Iterator[Trial]:
    def asks_for_history(x):
        return x + 1 if x._version == 0 else x * 2

    def asks_for_leaves(x):
        return x + 1 if x.is_leaf else x * 2

    def asks_for_views(x):
        return x + 1 if x._is_view() else x * 2

    yield _refused(asks_for_history, _tensor())
    yield _refused(asks_for_leaves, _tensor().requires_grad_())
    yield _refused(asks_for_views, _tensor())


def process() -> Iterator[Trial]:
    import torch

    def asks_for_groups(x):
        return x + 1 if torch.distributed.is_initialized() else x * 2

    def asks_for_the_limit(x):
        return x + sys.getrecursionlimit()

    if torch.distributed.is_available():  # the group belongs to all threads: it is not changed for a trial
        yield Trial(
            asks_for_groups, (_tensor(),), holds=lambda captured: "_default_pg" in captured.names_of_what_is_guarded()
        )
    yield _refused(asks_for_the_limit, _tensor())


def classes() -> Iterator[Trial]:
    class ByCode(type):
        def __instancecheck__(cls, instance):
            return True

        def __subclasscheck__(cls, subclass):
            return True

    class Anything(metaclass=ByCode):
        pass

    class Thing:
        pass

    def asks_for_instances(x, thing):
        return x + 1 if isinstance(thing, Anything) else x * 2

    def asks_for_subclasses(x):
        return x + 1 if issubclass(Thing, Anything) else x * 2

    yield _refused(asks_for_instances, _tensor(), Thing())
    yield _refused(asks_for_subclasses, _tensor())


def names() -> Iterator[Trial]:
    def plain(x):
        return x

    class Thing:
        pass

    def asks(x, thing):
        return x + 1 if thing.__name__ == "other" else x * 2

    def renames(x, thing):
        thing.__name__ = "other"

    yield Trial(asks, (_tensor(), plain), renames)
    yield Trial(asks, (_tensor(), Thing), renames)


def remembered() -> Iterator[Trial]:
    factor = 2

    @functools.lru_cache
    def remembers(number):
        return number * factor

    @functools.lru_cache
    def remembers_tensors(x):
        return x * 2

    def asks(x):
        return x * remembers(3)

    def asks_of_tensors(x):
        return remembers_tensors(x) + 1

    remembers(3)
    factor = 5  # what the cache holds is older
    yield Trial(asks, (_tensor(),), holds=lambda captured: captured.answer[1] == 6)
    yield _refused(asks_of_tensors, _tensor())


# -- nodes that stay ---------------------------------------------------------------------------------------------------


def dead_reads() -> Iterator[Trial]:
    import torch

    def reads(x, index):
        x[index]
        return x + 1

    def tries(x, index):
        try:
            return reads(x, index)
        except IndexError:
            return None

    yield Trial(reads, (_tensor(), torch.tensor([99])), call=tries, holds=lambda captured: captured.answer is None)


def texts() -> Iterator[Trial]:
    class Thing:
        def __repr__(self):
            return "thing"

    def made():
        pass

    def names(x, value):
        return x + 1 if str(value) == "" else x * 2

    def formats(x, value):
        return x + 1 if f"{value}" == "" else x * 2

    yield Trial(names, (_tensor(), Thing()), refused=True)
    yield Trial(names, (_tensor(), made), refused=True)
    yield Trial(formats, (_tensor(), Thing()), refused=True)
