"""Arms the plan of a set of environment guards: what they depend on is watched or pinned, so that a call need not
evaluate them. Called by a generated module after something changed, before it evaluates the guards again.

How each step of a guard's source is protected (see ext/guard/watch.cpp):
  a key of a dict, a module's attribute    dict watcher on (dict, key)
  an attribute of a class                  type watcher
  an attribute of an instance              its type and its __dict__ pinned, (__dict__, key) and the type watched
  code, closure, defaults of a function    pinned
  an item of a tuple                       needs nothing: tuples do not change
Anything else makes the plan unwatchable: its guards are evaluated on every call."""

from __future__ import annotations

import time
import types
from collections.abc import Callable
from typing import Any

from .. import _compat, _rt
from ..ir.kinds import Matter, RootKind, StepKind
from ..ir.source import Source

_FUNCTION_PINS = {
    StepKind.CODE: (_rt.PIN_CODE, "__code__"),
    StepKind.CLOSURE: (_rt.PIN_CLOSURE, "__closure__"),
    StepKind.DEFAULTS: (_rt.PIN_DEFAULTS, "__defaults__"),
    StepKind.KWDEFAULTS: (_rt.PIN_KWDEFAULTS, "__kwdefaults__"),
}
_MISSING = object()
_ANY = None  # as a watched key: every change of the dict
#: Armed so often, each time soon after the last, a plan protects something that changes all the time: evaluating its
#: guards is cheaper. (A change now and then is normal: torch.fx patches nn.Module while it traces.)
_MOST_ARMINGS = 64
_SOON = 1.0  # seconds


class _Unwatchable(Exception):
    pass


class Environment:
    """The plan of one set of guards. `wanted` has one (source, what of its value matters) per guard: a Matter, or
    (Matter.CONTAINS, key)."""

    def __init__(self, wanted: list[tuple[Source, object]]) -> None:
        self.wanted = wanted
        self.plan = _rt.env_plan()
        self.armings = 0
        self.armed_at = 0.0
        if not _compat.HAS_WATCHERS:
            _rt.env_unwatchable(self.plan)

    def __call__(self, function) -> None:
        """`function` is the one that is called: its globals are where global sources start."""
        now = time.monotonic()
        self.armings = self.armings + 1 if now - self.armed_at < _SOON else 1
        self.armed_at = now
        walk = _Walk(function)
        try:
            if self.armings > _MOST_ARMINGS:
                raise _Unwatchable
            for source, matters in self.wanted:
                walk.value_of(source, matters)
        except _Unwatchable:
            _rt.env_unwatchable(self.plan)
            return
        except (AttributeError, KeyError, IndexError, TypeError):
            return  # the path is gone, so the guards will not hold
        _rt.env_arm(self.plan, tuple(walk.pins.values()), tuple(walk.keys.values()), tuple(walk.types.values()))


class _Walk:
    def __init__(self, function) -> None:
        self.function = function
        self.pins: dict = {}
        self.keys: dict = {}
        self.types: dict = {}
        self._values: dict = {}

    def value_of(self, source: Source, matters: object) -> None:
        what, *key = matters if isinstance(matters, tuple) else (matters,)
        MATTERS[what](self, self._follow(source), *key)

    def _nothing_more(self, value) -> None:
        """To be where it is is all that is asked of it."""

    def _attributes(self, kind) -> None:
        self._watch_type(kind)
        if not type(kind).__flags__ & _IMMUTABLE_TYPE:
            self._watch_type(type(kind))

    def _keys(self, space) -> None:
        self._watch_key(space, _ANY)

    def _type_of(self, value) -> None:
        self._pin(_rt.PIN_TYPE, value, type(value))

    def _empty_list(self, value) -> None:
        if type(value) is not list:
            raise _Unwatchable
        self._pin(_rt.PIN_EMPTY_LIST, value, value)

    def _follow(self, source: Source):
        if source.key in self._values:
            return self._values[source.key]
        if source.steps:
            base = self._follow(Source(source.root, source.steps[:-1]))
            step, key = source.steps[-1]
            follow = STEPS[step]
            if follow is None:
                raise _Unwatchable
            value = follow(self, base, step, key)
        elif source.root[0] == RootKind.OBJECT:
            value = source.root[1].value
        elif source.root[0] == RootKind.GLOBAL:
            value = self.function.__globals__
        else:
            raise _Unwatchable
        self._values[source.key] = value
        return value

    # -- steps: the value behind one, whose place is watched or pinned from then on ------------------------------------
    def _dict_item(self, base, step: StepKind, key):
        self._watch_key(base, key)
        return base[key]

    def _attr(self, base, step: StepKind, name: str):
        return self._attribute(base, name)

    def _type(self, base, step: StepKind, key):
        self._type_of(base)
        return type(base)

    def _of_function(self, base, step: StepKind, key):
        if type(base) is not types.FunctionType:
            raise _Unwatchable
        kind, name = _FUNCTION_PINS[step]
        value = getattr(base, name)
        self._pin(kind, base, value)
        return value

    def _tuple_item(self, base, step: StepKind, key):
        return _of(tuple, base)[key]

    def _generic_dict(self, base, step: StepKind, key):
        if isinstance(base, types.ModuleType):
            return vars(base)  # a module keeps its dict for life
        return self._instance_dict(base)

    def _type_dict(self, base, step: StepKind, key):
        self._watch_type(_of(type, base))
        return _rt.dict_of(base)

    def _type_mro(self, base, step: StepKind, key):
        self._watch_type(_of(type, base))
        return base.__mro__

    def _dict_at(self, base, step: StepKind, key):
        self._watch_key(base, _ANY)
        return list(base if step == StepKind.DICT_KEY_AT else base.values())[key]

    def _attribute(self, base, name: str):
        if type(base) is types.ModuleType:
            self._watch_key(vars(base), name)
            return vars(base)[name]  # not found: a module's __getattr__ is not watched
        if isinstance(base, type):
            if type(base).__getattribute__ is not type.__getattribute__ or _class_attribute(base, name) is _MISSING:
                raise _Unwatchable
            if _is_data_descriptor(_class_attribute(type(base), name)):
                raise _Unwatchable
            value = getattr(base, name)
            self._watch_type(base)
            return value
        kind = type(base)
        if kind.__getattribute__ not in _PLAIN_READS:
            raise _Unwatchable
        self._pin(_rt.PIN_TYPE, base, kind)
        self._watch_type(kind)
        in_class = _class_attribute(kind, name)
        if _is_data_descriptor(in_class):
            raise _Unwatchable  # a data descriptor: its value comes from anywhere
        space = self._instance_dict(base)
        self._watch_key(space, name)
        if name in space:
            return space[name]
        if in_class is _MISSING or hasattr(type(in_class), "__get__"):
            raise _Unwatchable
        return in_class

    def _instance_dict(self, base):
        space = _rt.dict_of(base)
        if type(space) is not dict or isinstance(base, type):
            raise _Unwatchable
        if space and type(next(reversed(space))) is not str:
            raise _Unwatchable
        _rt.dict_settle(space)
        self._pin(_rt.PIN_DICT, base, space)
        return space

    def _pin(self, kind: int, base, expected) -> None:
        self.pins[(kind, id(base))] = (kind, base, expected)

    def _watch_key(self, space, key) -> None:
        if not isinstance(space, dict):
            raise _Unwatchable
        if type(key) is not str:
            key = _ANY  # the watcher compares strings only
        self.keys[(id(space), key)] = (space, key)

    def _watch_type(self, kind: type) -> None:
        """A watcher fires only while the type has a version tag: looking something up gives it one. Something that its
        metaclass does not answer for it, as it does `__doc__`."""
        getattr(kind, "__init__", None)
        if not _has_version(kind):
            raise _Unwatchable
        self.types[id(kind)] = kind


#: How each kind of step is followed; None for what tells nobody that it changes.
STEPS: dict[StepKind, Callable[[_Walk, Any, StepKind, Any], Any] | None] = {
    StepKind.ATTR: _Walk._attr,
    StepKind.GENERIC_DICT: _Walk._generic_dict,
    StepKind.SPACE: None,
    StepKind.DICT_ITEM: _Walk._dict_item,
    StepKind.TUPLE_ITEM: _Walk._tuple_item,
    StepKind.LIST_ITEM: None,
    StepKind.TYPE: _Walk._type,
    StepKind.TYPE_DICT: _Walk._type_dict,
    StepKind.TYPE_MRO: _Walk._type_mro,
    StepKind.CODE: _Walk._of_function,
    StepKind.CLOSURE: _Walk._of_function,
    StepKind.DEFAULTS: _Walk._of_function,
    StepKind.KWDEFAULTS: _Walk._of_function,
    StepKind.DICT_KEY_AT: _Walk._dict_at,
    StepKind.DICT_VALUE_AT: _Walk._dict_at,
    StepKind.ITEM: None,
    StepKind.CALL: None,
    StepKind.APPLY: None,
}
#: How what matters of a value is watched, its place apart.
MATTERS: dict[Matter, Callable[..., None]] = {
    Matter.IDENTITY: _Walk._nothing_more,
    Matter.TYPE: _Walk._type_of,
    Matter.ATTRIBUTES: _Walk._attributes,
    Matter.CONTAINS: _Walk._watch_key,
    Matter.KEYS: _Walk._keys,
    Matter.EMPTY_LIST: _Walk._empty_list,
}


def _of(kind: type, value):
    """The value, if it is of this type."""
    if not isinstance(value, kind):
        raise _Unwatchable
    return value


#: How attributes of an instance are read where nothing is computed; a namespace has the same C function under its own name.
_PLAIN_READS = (object.__getattribute__, types.SimpleNamespace.__getattribute__)
_IMMUTABLE_TYPE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
_VALID_VERSION_TAG = 1 << 19  # Py_TPFLAGS_VALID_VERSION_TAG


def _has_version(kind: type) -> bool:
    if _compat.VERSION_TAG_HAS_A_FLAG:
        return bool(kind.__flags__ & _VALID_VERSION_TAG)
    return _rt.type_version(kind) != 0


def _is_data_descriptor(value) -> bool:
    return value is not _MISSING and hasattr(type(value), "__set__")


def _class_attribute(kind: type, name: str):
    for base in kind.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return _MISSING
