"""What a class was like at capture. Dynamo reads attributes of classes that it matches by identity, or as the type of
an argument, without a guard on them; a class whose attributes are other objects than they were must miss."""

from __future__ import annotations

import weakref

from . import _rt

#: Written by the interpreter or by abc for its own book-keeping.
_NOISE = frozenset(("__doc__", "__dict__", "__weakref__", "__abstractmethods__", "_abc_impl", "__annotations__"))
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
_known: weakref.WeakKeyDictionary[type, ClassFacts] = weakref.WeakKeyDictionary()


class ClassFacts:
    """Called with the class: whether it, its bases and its metaclass still have the attributes that they had, object by
    object. The version tag of a class changes with any of them, so callers ask only when it did."""

    __slots__ = ("bases", "meta", "spaces")

    def __init__(self, kind: type) -> None:
        self.bases, self.meta = kind.__mro__, type(kind)
        self.spaces = [(base, _space(base)) for base in (*kind.__mro__, *self.meta.__mro__) if not _is_immutable(base)]

    def __call__(self, kind: type) -> bool:
        if kind.__mro__ != self.bases or type(kind) is not self.meta:
            return False
        return all(_same(_space(base), space) for base, space in self.spaces)

    def __repr__(self) -> str:
        return "its attributes"


def facts_of(kind: type) -> ClassFacts | None:
    """None for classes that cannot change."""
    if all(map(_is_immutable, (*kind.__mro__, *type(kind).__mro__))):
        return None
    facts = _known.get(kind)
    if facts is None or not facts(kind):
        facts = _known[kind] = ClassFacts(kind)
    return facts


def _is_immutable(kind: type) -> bool:
    return bool(kind.__flags__ & _IMMUTABLE)


def _space(kind: type) -> dict:
    return {name: value for name, value in _rt.dict_of(kind).items() if name not in _NOISE}


def _same(now: dict, then: dict) -> bool:
    return len(now) == len(then) and all(now.get(name, _MISSING) is value for name, value in then.items())


_MISSING = object()
