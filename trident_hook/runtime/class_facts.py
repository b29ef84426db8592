"""What a class was like at capture. Dynamo reads attributes of classes that it matches by identity, or as the type of
an argument, without a guard on them; a class whose attributes are other objects than they were must miss.

Not every attribute: one that no traced code names cannot have been read, unless by Python itself (`__names__`), by a base
class that is not the user's (an override of what `nn.Module` or `dict` defines), or under a name made up at run time."""

from __future__ import annotations

import sys
import weakref

from .. import _rt
from ..misses import safe_text

#: Written by the interpreter, by abc or by copyreg for their own book-keeping.
_NOISE = frozenset(
    ("__doc__", "__dict__", "__weakref__", "__abstractmethods__", "_abc_impl", "__annotations__", "__slotnames__")
)
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
_known: weakref.WeakKeyDictionary[type, list[ClassFacts]] = weakref.WeakKeyDictionary()


class ClassFacts:
    """Called with the class: whether it, its bases and its metaclass still have the attributes that they had, object by
    object. The version tag of a class changes with any of them, so callers ask only when it did.
    `names`: those that traced code uses; None for all."""

    __slots__ = ("bases", "meta", "names", "spaces")

    def __init__(self, kind: type, names: frozenset[str] | None = None) -> None:
        self.bases, self.meta = kind.__mro__, type(kind)
        line = _line_of(kind)
        self.names = None if names is None else names.union(*(vars(base) for base in line if not _is_users(base)))
        self.spaces = [(base, self._space(base, _is_users(base))) for base in line if not _is_immutable(base)]

    def __call__(self, kind: type) -> bool:
        if kind.__mro__ != self.bases or type(kind) is not self.meta:
            return False
        return all(self._same(_rt.dict_of(base), space) for base, space in self.spaces)

    def change(self, kind: type) -> tuple | None:
        """(name, then, now) of the first attribute that is another one, for people. Slower than asking whether."""
        if kind.__mro__ != self.bases or type(kind) is not self.meta:
            return "__mro__", self.bases, kind.__mro__
        for base, then in self.spaces:
            now = _rt.dict_of(base)
            for name in (*then, *(name for name in now if name not in _NOISE and self._may_be_read(name))):
                pair = then.get(name, safe_text.MISSING), now.get(name, safe_text.MISSING)
                if pair[0] is not pair[1]:
                    return f"{base.__name__}.{name}", *pair
        return None

    def __repr__(self) -> str:
        return "its attributes"

    def _space(self, kind: type, named_only: bool) -> dict:
        """What is compared: of classes that are not the user's everything, since not all of their code is traced."""
        space = _rt.dict_of(kind).items()
        return {n: value for n, value in space if n not in _NOISE and (not named_only or self._may_be_read(n))}

    def _same(self, now: dict, then: dict) -> bool:
        if any(now.get(name, _MISSING) is not value for name, value in then.items()):
            return False
        return not any(name not in then and name not in _NOISE and self._may_be_read(name) for name in now)

    def _may_be_read(self, name: str) -> bool:
        return self.names is None or name[:1] == "_" or name in self.names


def facts_of(kind: type, names: frozenset[str] | None = None) -> ClassFacts | None:
    """None for classes that cannot change."""
    if all(map(_is_immutable, _line_of(kind))):
        return None
    facts = ClassFacts(kind, names)
    known = _known.setdefault(kind, [])
    for other in known:
        if other.names == facts.names and other(kind):
            return other
    known[:] = [*(other for other in known if other(kind)), facts]
    return facts


def _line_of(kind: type) -> tuple[type, ...]:
    """Where attributes of a class are looked up: its bases, and those of its metaclass."""
    meta: type = type(kind)
    return kind.__mro__ + meta.__mro__


def _is_immutable(kind: type) -> bool:
    return bool(kind.__flags__ & _IMMUTABLE)


def _is_users(kind: type) -> bool:
    package = (kind.__module__ or "").split(".")[0] if isinstance(kind.__module__, str) else ""
    return package not in ("torch", "triton", "builtins") and package not in sys.stdlib_module_names


_MISSING = object()
