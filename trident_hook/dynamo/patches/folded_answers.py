"""Answers that Dynamo makes constants of the trace without a guard on what they were read from: guarded here where that can be done,
else refused. docs/dynamo_folds.md lists all places of that kind."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

from .. import remembered_calls
from ..refusal import forbid
from . import trials_of_values as trials
from .registry import patch

#: Of a tensor: what it was made by, or who else looks at it. Of one that requires no grad the first have one answer.
_OF_GRADIENTS = frozenset(("is_leaf", "grad_fn", "retains_grad", "output_nr", "_grad_fn"))
_OF_HISTORY = frozenset(("_base", "_backward_hooks", "_post_accumulate_grad_hooks", "_version", "name", "names"))
_METHODS = frozenset(("_is_view", "untyped_storage", "storage", "_typed_storage", "detach_", "retain_grad"))
_NAMES = frozenset(("__name__", "__qualname__", "__module__", "__doc__"))


@patch(
    "attributes of tensors",
    gone_when="Dynamo guards what it reads of a tensor's history, or leaves it to the graph",
    trials=trials.tensors,
)
def tensors(changes) -> None:
    """`is_leaf`, `grad_fn`, `_base`, hooks, the size of the storage, and what `detach_()` changes."""
    from ..names import TensorVariable

    def var_getattr(self, tx, name):
        if name in _OF_HISTORY or (name in _OF_GRADIENTS and self.requires_grad is not False):
            forbid("folded", f"{name} of a tensor")

    def call_method(self, tx, name, args, kwargs):
        if name in _METHODS:
            forbid("folded", f"{name}() of a tensor")

    changes.in_front(TensorVariable, "reads an attribute", var_getattr)
    changes.in_front(TensorVariable, "calls a method", call_method)


@patch(
    "state of the process",
    gone_when="Dynamo guards it, or breaks the graph",
    trials=trials.process,
)
def process(changes) -> None:
    """Whether torch.distributed is initialized, and the limit of recursion."""
    import torch

    from ..names import PolyfilledFunctionVariable, TorchInGraphFunctionVariable

    folded = [getattr(torch.distributed, name, None) for name in ("is_initialized", "get_rank", "get_world_size")]

    def call_function(self, tx, args, kwargs):
        if any(self.value is function for function in folded if function is not None):
            _guard_process_group()
            if torch.distributed.is_initialized() and (args or kwargs):
                forbid("folded", f"{self.value.__name__} of a process group")

    def call_polyfilled(self, tx, args, kwargs):
        if self.fn is sys.getrecursionlimit:
            forbid("folded", "the limit of recursion")

    changes.in_front(TorchInGraphFunctionVariable, "is called", call_function)
    changes.in_front(PolyfilledFunctionVariable, "is called", call_polyfilled)


def _guard_process_group() -> None:
    """On the default group: rank and size belong to it."""
    from torch.distributed import distributed_c10d

    from ..names import AttrSource, GuardBuilder, ImportSource, install_guard

    source: Any = ImportSource("torch")
    for name in ("distributed", "distributed_c10d", "_world", "_default_pg"):
        source = AttrSource(source, name)
    builder = GuardBuilder.NONE_MATCH if distributed_c10d._world._default_pg is None else GuardBuilder.ID_MATCH
    install_guard(source.make_guard(builder))


@patch(
    "isinstance() by code",
    gone_when="Dynamo traces __instancecheck__ and __subclasshook__, and guards registrations",
    trials=trials.classes,
)
def classes(changes) -> None:
    """Abstract classes, protocols and metaclasses decide by code and by tables of their own."""
    from ..names import BuiltinVariable

    def call_isinstance(self, tx, value, kinds):
        try:
            kind = value.python_type()
        except NotImplementedError:
            return
        _refuse_by_code(kind, kinds, "isinstance")

    def call_issubclass(self, tx, value, kinds):
        if value.is_python_constant() and isinstance(value.as_python_constant(), type):
            _refuse_by_code(value.as_python_constant(), kinds, "issubclass")

    changes.in_front(BuiltinVariable, "call_isinstance", call_isinstance)
    changes.in_front(BuiltinVariable, "call_issubclass", call_issubclass)


def _refuse_by_code(kind: type, kinds, question: str) -> None:
    if not kinds.is_python_constant():
        return
    for other in _flat(kinds.as_python_constant()):
        by_code = isinstance(other, type) and not _is_plain(type(other))
        if by_code and not (_is_libraries(other) and _is_libraries(kind)) and other not in kind.__mro__:
            forbid("folded", f"{question} of {other.__name__}, which decides by code")


def _flat(kinds) -> list:
    if isinstance(kinds, (tuple, types.UnionType)):
        members = kinds if isinstance(kinds, tuple) else kinds.__args__
        return [one for member in members for one in _flat(member)]
    return [kinds]


def _is_plain(meta: type) -> bool:
    names = ("__instancecheck__", "__subclasscheck__")
    return all(getattr(meta, name) is getattr(type, name) for name in names)


def _is_libraries(kind: type) -> bool:
    package = (kind.__module__ or "").split(".")[0]
    return package in ("torch", "triton", "builtins") or package in sys.stdlib_module_names


@patch(
    "names of functions and classes",
    gone_when="Dynamo guards them",
    trials=trials.names,
)
def names(changes) -> None:
    """`f.__name__` may be set, and setting that of a class tells nobody."""
    from ..names import (
        AttrSource,
        BuiltinVariable,
        GuardBuilder,
        UserDefinedClassVariable,
        UserFunctionVariable,
        install_guard,
    )

    def guard(source, value, name) -> None:
        if name in _NAMES and source is not None and isinstance(getattr(value, name, None), str):
            install_guard(AttrSource(source, name).make_guard(GuardBuilder.EQUALS_MATCH))

    def call_getattr(self, tx, owner, name, default=None):
        owner = owner.realize() if hasattr(owner, "realize") else owner
        if name.is_python_constant() and isinstance(owner, UserFunctionVariable):
            guard(owner.source, owner.fn, name.as_python_constant())
        elif name.is_python_constant() and isinstance(owner, UserDefinedClassVariable):
            guard(owner.source, owner.value, name.as_python_constant())

    changes.in_front(BuiltinVariable, "call_getattr", call_getattr)


@patch("texts of objects", gone_when="Dynamo traces __str__ and __repr__, and guards names", trials=trials.texts)
def texts(changes) -> None:
    """`str()` and `repr()` of functions and classes have names in them, and often an address; those of an object whose class leaves them
    to `object` are made once, by the program's own `__repr__` if it has one."""
    from ..names import (
        BuiltinVariable,
        ConstDictVariable,
        UserDefinedClassVariable,
        UserDefinedObjectVariable,
        UserFunctionVariable,
    )

    def refuse(variable, methods) -> None:
        variable = variable.realize() if hasattr(variable, "realize") else variable
        if isinstance(variable, (UserFunctionVariable, UserDefinedClassVariable)):
            forbid("folded", "the text of a function or class")
        if isinstance(variable, ConstDictVariable) and not variable.is_python_constant():
            forbid("folded", "the text of a dict or set")
        kind = type(variable.value) if isinstance(variable, UserDefinedObjectVariable) else None
        if kind is not None and any(getattr(kind, name) is getattr(object, name) for name in methods):
            forbid("folded", f"the text of a {kind.__name__}, which `object` makes")

    def call_function(self, tx, args, kwargs):
        for value in (*args, *kwargs.values()) if _is_text(self.fn) else ():
            refuse(value, _TEXTS[self.fn])

    changes.in_front(BuiltinVariable, "call_str", lambda self, tx, arg: refuse(arg, ("__str__",)))
    changes.in_front(BuiltinVariable, "call_repr", lambda self, tx, arg: refuse(arg, ("__repr__",)))
    changes.in_front(BuiltinVariable, "call_function", call_function)


def _is_text(function) -> bool:
    return any(function is each for each in _TEXTS)


#: What makes texts -> the methods that it may ask.
_TEXTS = {
    str: ("__str__",),
    format: ("__str__",),
    repr: ("__repr__",),
    ascii: ("__repr__",),
    str.format: ("__str__", "__repr__"),
}


@patch(
    "functools.lru_cache",
    gone_when="Dynamo asks the cache, and guards the answer",
    trials=trials.remembered,
)
def remembered(changes) -> None:
    """Dynamo traces the function behind the cache; the program has what the cache holds. So the cache is asked, as in a plain call,
    and its answer is asked again by a guard. Where that cannot be (tensors as arguments, answers that may change), it is refused."""
    from ..names import ConstantVariable, GuardBuilder, SourcelessBuilder, WrapperUserFunctionVariable, install_guard

    def call_function(self, tx, args, kwargs):
        wrapper = self.wrapper_obj
        if not isinstance(wrapper, functools._lru_cache_wrapper) or _is_of_torch(wrapper):
            return None
        given = [*self.self_args(), *args]
        if not all(map(_is_known, (*given, *kwargs.values()))):
            forbid("folded", f"{wrapper.__name__}() remembers its answers, and is given what is no constant")
        values = tuple(v.as_python_constant() for v in given)
        named = {name: v.as_python_constant() for name, v in kwargs.items()}
        try:
            answer = remembered_calls.call(wrapper, values, named)
        except Exception as error:
            forbid("folded", f"{wrapper.__name__}() remembers its answers, and raised {type(error).__name__}")
        if self.source is not None:
            install_guard(self.source.make_guard(GuardBuilder.ID_MATCH))
        if ConstantVariable.is_literal(answer) and _is_fixed(answer):
            return SourcelessBuilder.create(tx, answer)
        if isinstance(answer, (type, types.FunctionType)):
            return SourcelessBuilder.create(tx, answer)
        return forbid("folded", f"{wrapper.__name__}() remembers a {type(answer).__name__}, which may change")

    changes.in_front(WrapperUserFunctionVariable, "is called", call_function)


def _is_known(variable) -> bool:
    return (
        variable.is_python_constant()
        or type(getattr(variable, "realize", lambda: variable)()).__name__ == "SymNodeVariable"
    )


def _is_fixed(value) -> bool:
    return (
        all(map(_is_fixed, value))
        if isinstance(value, (tuple, frozenset))
        else not isinstance(value, (list, set, dict))
    )


def _is_of_torch(wrapper) -> bool:
    return (getattr(wrapper, "__module__", None) or "").split(".")[0] in ("torch", "triton")


@patch(
    "whether a stream is recorded",
    gone_when="Dynamo answers `torch.cuda.is_current_stream_capturing()` and guards it",
    is_lesson=False,
)
def recorded_streams(changes) -> None:
    """Dynamo would put the question into its graph, and break where the answer is looked at. It is asked, and asked again by a guard.
    Where there is no driver it raises, as it does in the plain function."""
    import torch

    from ..names import ConstantVariable, TorchInGraphFunctionVariable, raise_observed_exception

    asked = torch.cuda.is_current_stream_capturing

    def call_function(self, tx, args, kwargs):
        if self.value is not asked or args or kwargs:
            return None
        answer = remembered_calls.call(_is_recorded, (asked,), {})
        if answer is None:
            raise_observed_exception(RuntimeError, tx, args=[_message_of(asked)])
        return ConstantVariable.create(answer)

    changes.in_front(TorchInGraphFunctionVariable, "is called", call_function)


def _is_recorded(asked) -> bool | None:
    """None: it raised."""
    try:
        return asked()
    except RuntimeError:
        return None


def _message_of(asked) -> str:
    try:
        asked()
    except RuntimeError as error:
        return str(error)
    return ""


PATCHES = (tensors, process, classes, names, texts, remembered, recorded_streams)
