"""Questions of identity that Dynamo answers from values: `a is b` of numbers, strings and tuples, of which equal ones may be two
objects; of bound methods, which are made anew each time they are read; `id()` and `hash()` of what no guard holds fast. Refused
while one of our captures runs; other compiles are left alone."""

from __future__ import annotations

import operator

from ..refusal import forbid
from . import trials
from .registry import is_capturing, patch

_SMALL_INTS = range(-5, 257)  # CPython has one object of each
_VALUES = (int, float, complex, str, bytes, tuple, frozenset)
_SEARCHES = frozenset(("__contains__", "__getitem__", "count", "discard", "get", "index", "pop", "remove"))


@patch(
    "`is` and NaNs in containers",
    gone_when="Dynamo refuses them itself, or guards which objects they are",
    trials=trials.comparisons,
)
def comparisons(changes) -> None:
    """Dynamo answers `is` from values, of which equal ones may be two objects, and looks for a NaN in a container by comparing,
    where Python finds the very object."""
    from ..names import BaseListVariable, BuiltinVariable, ConstDictVariable, SetVariable, symbolic_convert

    def call_function(self, tx, args, kwargs):
        if self.fn in (operator.is_, operator.is_not) and len(args) == 2 and not kwargs:
            _check(*args)

    def call_method(self, tx, name, args, kwargs):
        if name in _SEARCHES and args:
            _refuse_nan(args[0])

    changes.in_front(BuiltinVariable, "is called", call_function)
    changes.replace(symbolic_convert, "compare_op_handlers", _checking)
    for kind in (BaseListVariable, ConstDictVariable, SetVariable):
        changes.in_front(kind, "calls a method", call_method)


def _checking(handlers: dict) -> dict:
    """Handlers of comparisons, which Dynamo has bound before."""

    def checked(original):
        def handler(tx, args, kwargs):
            if is_capturing():
                _check(*args)
            return original(tx, args, kwargs)

        return handler

    return {name: checked(handler) if name in ("is", "is not") else handler for name, handler in handlers.items()}


def _check(left, right) -> None:
    """Refuses where equal values need not be one object."""
    from ..names import SymNodeVariable, UserMethodVariable

    left, right = (v.realize() if hasattr(v, "realize") else v for v in (left, right))
    if any(isinstance(v, SymNodeVariable) for v in (left, right)) and all(map(_is_number, (left, right))):
        forbid("identity", "`is` between numbers, which guards compare by value")
    if isinstance(left, UserMethodVariable) and isinstance(right, UserMethodVariable):
        forbid("identity", "`is` between bound methods, which are made when they are read")
    if left.is_python_constant() and right.is_python_constant():
        values = left.as_python_constant(), right.as_python_constant()
        if _are_told_by_value(*values):
            forbid("identity", f"`is` between two of type {type(values[0]).__name__}, which guards compare by value")


def _are_told_by_value(one, other) -> bool:
    if type(one) is not type(other) or type(one) is bool or not isinstance(one, _VALUES):
        return False
    return not all(type(v) is int and v in _SMALL_INTS for v in (one, other))


def _is_number(variable) -> bool:
    if not variable.is_python_constant():
        return type(variable).__name__ == "SymNodeVariable"
    return type(variable.as_python_constant()) in (int, float)


def _refuse_nan(item) -> None:
    if item.is_python_constant():
        value = item.as_python_constant()
        if isinstance(value, (float, complex)) and value != value:
            forbid("identity", "a search for a NaN, which is found by identity")


@patch("id()", gone_when="Dynamo guards every object whose address it folds", trials=trials.addresses)
def addresses(changes) -> None:
    """`id(o)` of an object that came from outside is guarded by Dynamo only for some kinds."""
    from ..names import (
        BuiltinVariable,
        GuardBuilder,
        UserDefinedClassVariable,
        UserDefinedObjectVariable,
        install_guard,
    )

    def call_id(self, tx, *args):
        value = args[0].realize() if args and hasattr(args[0], "realize") else None
        if isinstance(value, (UserDefinedClassVariable, UserDefinedObjectVariable)) and value.source is not None:
            return  # Dynamo's own guard
        if getattr(value, "source", None) is None or value.is_tensor():
            forbid("identity", "id() of an object that no guard holds fast")
        install_guard(value.source.make_guard(GuardBuilder.ID_MATCH))

    changes.in_front(BuiltinVariable, "call_id", call_id)
    # Dynamo remembers bound handlers by types: those of other compiles have not come past the above.
    changes.replace(BuiltinVariable, "call_function_handler_cache", lambda original: {})


PATCHES = (comparisons, addresses)
