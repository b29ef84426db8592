"""Containers whose changes or results Dynamo loses: the order of a dict's keys, the table of a set, the length of a deque, the class
of what is made of a named tuple. Done as Python does where that is a few lines, else refused."""

from __future__ import annotations

import collections
import operator

from ..refusal import forbid
from . import trials_of_values as trials
from .registry import patch

_SET_CHANGES = frozenset(("add", "clear", "difference_update", "discard", "intersection_update", "pop", "remove",
                          "symmetric_difference_update", "update", "__iand__", "__ior__", "__isub__", "__ixor__"))  # fmt: skip
_OPERATORS = (operator.add, operator.mul, operator.iadd, operator.imul)


@patch(
    "the order of a dict's keys",
    gone_when="Dynamo writes a dict back whose keys are in another order",
    trials=trials.order_of_keys,
)
def order_of_keys(changes) -> None:
    """`move_to_end` changes no value, so Dynamo takes the dict to be as it was."""
    from ..names import ConstDictVariable, SetVariable

    def has_new_items(self):
        if isinstance(self, SetVariable) or self.should_reconstruct_all:
            return None
        before, now = list(self.original_items), [key.vt for key in self.items]
        if any(one is not other for one, other in zip(before, now, strict=False)):
            self.should_reconstruct_all = True
        return None

    changes.in_front(ConstDictVariable, "has_new_items", has_new_items)


@patch(
    "sets that are changed",
    gone_when="Dynamo changes a set as the program does",
    trials=trials.changed_sets,
)
def changed_sets(changes) -> None:
    """Dynamo empties and refills a set; where its members then are depends on what the set was before."""
    from ..names import SetVariable

    def call_method(self, tx, name, args, kwargs):
        if name in _SET_CHANGES and self.source is not None:
            forbid("container", "a set that came from outside is changed: the order of its members would be another")

    changes.in_front(SetVariable, "calls a method", call_method)


@patch(
    "deques with a length",
    gone_when="Dynamo reads a deque's maxlen, and guards it",
    trials=trials.lengths_of_deques,
)
def lengths_of_deques(changes) -> None:
    """Dynamo takes every deque that comes from outside for one without a maximal length."""
    from ..names import AttrSource, DequeVariable, GuardBuilder, VariableBuilder, install_guard

    def wrap(self, value):
        if isinstance(value, collections.deque):
            if value.maxlen is not None:
                forbid("container", "a deque with a maximal length")
            install_guard(AttrSource(self.get_source(), "maxlen").make_guard(GuardBuilder.CONSTANT_MATCH))

    def call_method(self, tx, name, args, kwargs):
        limited = self.maxlen.as_python_constant() is not None
        if limited and name in ("appendleft", "extendleft", "insert", "__iadd__", "__imul__"):
            forbid("container", "a deque with a maximal length is filled from the left")

    changes.in_front(VariableBuilder, "_wrap", wrap)
    changes.in_front(DequeVariable, "calls a method", call_method)


@patch(
    "named tuples",
    gone_when="Dynamo answers `_replace` with all fields, and `+` and `*` with plain tuples",
    trials=trials.named_tuples,
)
def named_tuples(changes) -> None:
    """`_replace` is traced into a tuple without fields, and `+` and `*` give the same class with the fields that it had."""
    from ..names import BuiltinVariable, NamedTupleVariable, UserMethodVariable, ValueMutationNew

    def call_bound(self, tx, args, kwargs):
        made = self.obj if isinstance(self.obj, NamedTupleVariable) else None
        if made is None or self.fn.__name__ != "_replace" or self.fn.__code__.co_filename != collections.__file__:
            return None
        if args or not set(kwargs) <= set(made.fields()):
            forbid("container", f"_replace of what {made.tuple_cls.__name__} has not")
        items = [kwargs.get(field, item) for field, item in zip(made.fields(), made.items, strict=True)]
        return NamedTupleVariable(items, made.tuple_cls, mutation_type=ValueMutationNew())

    def call_function(self, tx, args, kwargs):
        if self.fn in _OPERATORS and any(isinstance(_real(v), NamedTupleVariable) for v in args):
            forbid("container", "`+` or `*` of a named tuple")

    if hasattr(NamedTupleVariable, "fields"):  # from PyTorch 2.12 on they are traced as objects, and keep their fields
        changes.in_front(UserMethodVariable, "is called", call_bound)
    changes.in_front(BuiltinVariable, "is called", call_function)


@patch(
    "lists that are multiplied in place",
    gone_when="Dynamo changes the list",
    trials=trials.multiplied_lists,
)
def multiplied_lists(changes) -> None:
    """`v *= 2` gives a list in the place of `v`, which the other names of it do not see."""
    from ..names import BaseListVariable, BuiltinVariable

    def call_method(self, tx, name, args, kwargs):
        if name == "__imul__" and self.python_type() in (list, collections.deque):
            forbid("container", "a list is multiplied in place")

    def call_function(self, tx, args, kwargs):
        if self.fn is operator.imul and isinstance(first := _real(args[0]), BaseListVariable):
            call_method(first, tx, "__imul__", args[1:], kwargs)

    changes.in_front(BaseListVariable, "calls a method", call_method)
    changes.in_front(BuiltinVariable, "is called", call_function)


def _real(variable):
    return variable.realize() if hasattr(variable, "realize") else variable


PATCHES = (order_of_keys, changed_sets, lengths_of_deques, named_tuples, multiplied_lists)
