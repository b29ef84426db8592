"""Functions under `functools.lru_cache` that a capture calls: what they answered, which is what the cache holds, not what their body
would give today. A hit calls them as the program does, and compares the answer."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ..ir.guard import Guard
from ..ir.kinds import GuardKind, RootKind, StepKind
from ..ir.objects import ObjectKey
from ..ir.source import Source

_capturing = threading.local()


@dataclass(frozen=True)
class RememberedCall:
    wrapper: object
    args: tuple
    kwargs: tuple  # of pairs
    answer: object

    def guard(self) -> Guard:
        args, kwargs = self.args, dict(self.kwargs)
        source = Source((RootKind.OBJECT, ObjectKey(self.wrapper))).then(
            StepKind.APPLY, ObjectKey(lambda fn: fn(*args, **kwargs))
        )
        kind = GuardKind.NONE if self.answer is None else GuardKind.EQUALS
        kind = GuardKind.ID if callable(self.answer) else kind
        return Guard(kind, source, None if self.answer is None else ObjectKey(self.answer), "a remembered answer")


def forget() -> None:
    """At the start of a capture."""
    _capturing.calls = {}


def call(wrapper, args: tuple, kwargs: dict):
    """The wrapper's answer, noted for the capture under way: a capture that begins anew asks once."""
    known = _capturing.__dict__.setdefault("calls", {})
    key = (id(wrapper), args, tuple(kwargs.items()), tuple(map(type, args)))
    if key not in known:
        known[key] = RememberedCall(wrapper, args, tuple(kwargs.items()), wrapper(*args, **kwargs))
    return known[key].answer


def guards() -> list[Guard]:
    return [remembered.guard() for remembered in _capturing.__dict__.get("calls", {}).values()]
