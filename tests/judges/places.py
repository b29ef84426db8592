"""Where a state is different from another: slots of a subject, each with the values that it may hold."""

from __future__ import annotations

import contextlib
import dataclasses
import types
from collections.abc import Callable

MISSING = object()


class Place:
    """Puts a value somewhere for the time of one call. `apply` returns what takes it away again, or None."""

    def apply(self, fn, value, bound: dict) -> Callable[[], None] | None:
        raise NotImplementedError


class Argument(Place):
    """A named argument of the call."""

    def __init__(self, name: str) -> None:
        self.name = name

    def apply(self, fn, value, bound):
        if value is not MISSING:
            bound[self.name] = value


class Rest(Place):
    """The positional arguments behind the named ones."""

    def apply(self, fn, value, bound):
        bound["*"] = tuple(value)


class Keywords(Place):
    """Keyword arguments, in the order of the dict."""

    def apply(self, fn, value, bound):
        bound["**"] = dict(value)


class Attribute(Place):
    """An attribute of an object (a module, a class, an instance, a cell, the function); `owner` may be a function of
    the called function. MISSING deletes it."""

    def __init__(self, owner, name: str) -> None:
        self.owner, self.name = owner, name

    def apply(self, fn, value, bound):
        owner = self.owner(fn) if isinstance(self.owner, types.FunctionType) else self.owner
        own = self.name in vars(owner) if hasattr(owner, "__dict__") and self.name[:2] != "__" else True
        before = getattr(owner, self.name, MISSING) if own else MISSING
        if isinstance(owner, type) and own:
            before = vars(owner).get(self.name, before)
        if before is value:
            return None  # even this would change a class's version
        _set(owner, self.name, value)
        return lambda: _set(owner, self.name, before)


class Entry(Place):
    """An item of a container, or a name of a module's globals. MISSING deletes it."""

    def __init__(self, container, key) -> None:
        self.container, self.key = container, key

    def apply(self, fn, value, bound):
        container, key = self.container, self.key
        before = container.get(key, MISSING) if isinstance(container, dict) else container[key]
        if before is value:
            return None
        _put(container, key, value)
        return lambda: _put(container, key, before)


class State(Place):
    """Torch state: the value is a function that returns a context manager."""

    def apply(self, fn, value, bound):
        stack = contextlib.ExitStack()
        stack.enter_context(value())
        return stack.close


def _set(owner, name, value) -> None:
    if value is MISSING:
        with contextlib.suppress(AttributeError):
            delattr(owner, name)
    else:
        setattr(owner, name, value)


def _put(container, key, value) -> None:
    if value is MISSING:
        container.pop(key, None)
    else:
        container[key] = value


@dataclasses.dataclass
class Slot:
    """`values[0]` is the ordinary one. A value is made anew for each of the two calls of a state: by a function without
    parameters, or by one of `made`: what was made for the earlier slots, by name."""

    name: str
    place: Place
    values: list[Callable]

    def make(self, index: int, made: dict):
        maker = self.values[index]
        code = getattr(maker, "__code__", None)
        return maker(made) if code is not None and code.co_varnames[:1] == ("made",) else maker()


@dataclasses.dataclass
class Subject:
    """A function and all that its answer may depend on. `effects()` returns what it may have changed besides its
    arguments, as plain values; `launches`: it runs kernels; `decoy`: it looks like a function whose guards are weaker, and is
    here for the judge of its hits: what it misses is counted apart."""

    fn: Callable
    slots: list[Slot]
    effects: Callable[[], object] | None = None
    reset: Callable[[], None] | None = None
    launches: bool = False
    dynamic: bool = False  # captured with symbolic shapes from the start
    decoy: bool = False

    @property
    def name(self) -> str:
        return self.fn.__name__

    @property
    def place(self) -> str:
        return f"{self.fn.__module__.split('.')[-1]}.{self.name}"


SUBJECTS: list[Subject] = []


def subject(*slots: Slot, **options):
    """Decorator: makes a Subject of a function."""

    def register(fn):
        SUBJECTS.append(Subject(fn, list(slots), **options))
        return fn

    return register


def argument(name: str, *values) -> Slot:
    return Slot(name, Argument(name), list(values))


def constants(*values) -> list[Callable]:
    """Values that both calls share."""
    return [lambda value=value: value for value in values]
