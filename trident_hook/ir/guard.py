"""Guards: what must hold for a specialization to be reused. One class, told apart by `kind`: see kinds.py."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .kinds import GUARDS, STEPS, DependsOn, GuardKind, Sources
from .source import Source


@dataclass(frozen=True)
class TensorFacts:
    """What a tensor guard compares. A size or stride of None is not compared (dynamic)."""

    type_: type
    keys: int  # raw dispatch key set after the thread's included and excluded sets
    dtype: Any  # torch.dtype
    device_type: str
    device_index: int | None
    requires_grad: bool
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]

    def __str__(self) -> str:
        device = self.device_type if self.device_index is None else f"{self.device_type}:{self.device_index}"
        sizes = ", ".join("?" if s is None else str(s) for s in self.sizes)
        strides = ", ".join("?" if s is None else str(s) for s in self.strides)
        grad = ", requires_grad" if self.requires_grad else ""
        return f"{self.type_.__name__}({self.dtype}, {device}, size=({sizes}), stride=({strides}){grad})"


@dataclass(frozen=True)
class ShapeText:
    """A Python expression over sizes, strides, offsets and ints, and the sources that it names."""

    text: str
    sources: tuple[tuple[str, Source], ...] = ()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Guard:
    kind: GuardKind
    source: Source
    arg: Any = None
    text: str = ""  # Dynamo's text of the guard, without the user's source line

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", GuardKind(self.kind))

    @cached_property
    def class_(self) -> str:
        """'input' or 'env': what the guard depends on. State guards are one comparison of words, made for every
        specialization: see `Specialization.state`."""
        depends_on = GUARDS[self.kind].depends_on
        if depends_on is DependsOn.ITS_SOURCES:
            return "input" if any(source.is_input for source in self.sources) else "env"
        return "env" if depends_on is DependsOn.ENVIRONMENT else "input"

    @property
    def sources(self) -> tuple[Source, ...]:
        which = GUARDS[self.kind].sources
        if which is Sources.MANY:
            found: tuple[Source, ...] = self.arg
            return found
        return (self.source, self.arg) if which is Sources.PAIR else (self.source,)

    @cached_property
    def is_watched(self) -> bool:
        """False for guards that a call evaluates: of its arguments, and of objects of the environment that change
        without telling anyone (a list, a tensor's metadata)."""
        if self.class_ != "env" or not GUARDS[self.kind].tells:
            return False
        if self.kind is GuardKind.EQUALS and not _is_fixed(self.arg.value):
            return False
        return all(STEPS[step].tells for source in self.sources for step, _ in source.steps)

    def __str__(self) -> str:
        return self._words

    @cached_property
    def _words(self) -> str:
        return WORDS[self.kind](self)


def _listed(sources: tuple[Source, ...]) -> str:
    return ", ".join(map(str, sources))


#: A guard in words, as comments and messages say it.
WORDS: dict[GuardKind, Callable[[Guard], str]] = {
    GuardKind.TENSOR: lambda g: f"{g.source} is {g.arg}",
    GuardKind.TYPE: lambda g: f"type({g.source}) is {g.arg}",
    GuardKind.ID: lambda g: f"{g.source} is {g.arg}",
    GuardKind.EQUALS: lambda g: f"{g.source} == {g.arg}",
    GuardKind.MEMBERS: lambda g: f"{g.source} == {g.arg}, in any order",
    GuardKind.NONE: lambda g: f"{g.source} is None",
    GuardKind.NOT_NONE: lambda g: f"{g.source} is not None",
    GuardKind.TRUE: lambda g: f"{g.source} is True",
    GuardKind.FALSE: lambda g: f"{g.source} is False",
    GuardKind.FINITE: lambda g: f"{g.source} is a finite float",
    GuardKind.NAN: lambda g: f"{g.source} is nan",
    GuardKind.LENGTH: lambda g: f"len({g.source}) == {g.arg}",
    GuardKind.DICT_LENGTH: lambda g: f"len({g.source}) == {g.arg}",
    GuardKind.DICT_CONTAINS: lambda g: f"{g.arg[1]!r} {'in' if g.arg[0] else 'not in'} {g.source}",
    GuardKind.NO_ATTR: lambda g: f"not hasattr({g.source}, {g.arg!r})",
    GuardKind.DISTINCT: lambda g: f"distinct objects: {_listed(g.arg)}",
    GuardKind.ENV_DISTINCT: lambda g: f"distinct objects: {_listed(g.arg)}",
    GuardKind.NOT_OF_ENV: lambda g: f"no object of the environment: {_listed(g.arg)}",
    GuardKind.SAME: lambda g: f"{g.source} is {g.arg}",
    GuardKind.SHAPE: lambda g: str(g.arg),
    GuardKind.CLASS_FACTS: lambda g: f"{g.source} has the attributes it had",
    GuardKind.PLAIN_CONTEXT: lambda g: f"the saved tensors of {g.source} may be read",
    GuardKind.DEFAULT_DEVICE: lambda g: f"the default device is {g.arg}",
    GuardKind.RESIDUAL: lambda g: f"{g.kind} of {g.source}: {g.text}",
}


def _is_fixed(value: Any) -> bool:
    """The value of a constant cannot change in place."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(_is_fixed, value))
    if isinstance(value, slice):
        return all(map(_is_fixed, (value.start, value.stop, value.step)))
    fixed = (int, float, complex, str, bytes, bool, type(None), type, range)
    return isinstance(value, fixed) or type(value).__module__ == "torch" or isinstance(value, enum.Enum)
