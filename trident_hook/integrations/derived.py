"""Classes derived from a launcher that is known: a library's own Autotuner or Heuristics. What such a class overrides decides
whether its launches are its base's, not what it is called."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator

from .adapter import Launcher

#: What a launch goes through, of Triton's launchers. Everything else of them is called while tuning, which stays theirs.
_OF_A_LAUNCH = ("run", "__getitem__", "__call__", "__getattribute__", "__getattr__")


class _Template:
    """Has a `run` that hands everything on, for its bytecode."""

    def run(self, *args, **kwargs):
        return super().run(*args, **kwargs)


def launchers_of(known: dict[type, Launcher]) -> dict[type, Launcher]:
    """`known`, and those derived from them that exist now. One that launches in a way of its own has a reason in `why_not`."""
    found = dict(known)
    for kind, launcher in known.items():
        for derived in _derived(kind):
            if derived not in found:
                found[derived] = dataclasses.replace(launcher, kind=derived, why_not=_why_not(launcher, derived))
    return found


def _derived(kind: type) -> Iterator[type]:
    derived: type
    for derived in kind.__subclasses__():
        yield derived
        yield from _derived(derived)


def _why_not(base: Launcher, kind: type):
    """The question of the base, behind the question whether the class launches as its base does."""
    between = kind.__mro__[: kind.__mro__.index(base.kind)]

    def why_not(launcher) -> str | None:
        for owner in between:
            for name in _OF_A_LAUNCH:
                if name in vars(owner) and not _hands_on(vars(owner)[name], name):
                    return f"{kind.__qualname__} has a {name}() of its own"
        if any(name in vars(launcher) for name in _OF_A_LAUNCH):
            return f"this {kind.__qualname__} has a method of its own"
        return base.why_not(launcher)

    return why_not


def _hands_on(method, name: str) -> bool:
    """Whether it does nothing but call the method that it overrides, with what it was given."""
    code, template = getattr(method, "__code__", None), _Template.run.__code__
    if name != "run" or code is None or getattr(method, "__kwdefaults__", None) or method.__defaults__:
        return False
    if (code.co_flags ^ template.co_flags) & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR):
        return False
    shape = ("co_code", "co_names", "co_freevars", "co_argcount", "co_kwonlyargcount", "co_exceptiontable")
    return all(getattr(code, field) == getattr(template, field) for field in shape)
