"""Sources: how a value is reached from the call (a local, a global, an object known at capture), step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .kinds import RootKind, StepKind
from .objects import describe


@dataclass(frozen=True)
class Source:
    """A root and the steps from it. `text` is Dynamo's own name for it, used in comments and messages.

    Keys of steps are compared with ``==``; a key that is an object is given as an index into the specialization's
    object table by the code generator, not here."""

    root: tuple[Any, ...]  # a RootKind; of a local its name, of an object its ObjectKey
    steps: tuple[tuple[StepKind, Any], ...] = ()
    text: str = ""

    def then(self, step: StepKind, key: Any = None, text: str = "") -> Source:
        return Source(self.root, (*self.steps, (StepKind(step), key)), text)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Identity of the path, whatever its text says."""
        return (self.root, tuple((s, type(k), _hashable(k)) for s, k in self.steps))

    @property
    def is_input(self) -> bool:
        """True if the path starts at an argument or a free variable of the call."""
        return bool(self.root[0] == RootKind.LOCAL)

    def __str__(self) -> str:
        """As Python would write it; the same in every process."""
        text = ROOT_TEXT[self.root[0]](self.root)
        for step, key in self.steps:
            text = STEP_TEXT[step](text, key)
        return text


ROOT_TEXT: dict[RootKind, Callable[[tuple[Any, ...]], str]] = {
    RootKind.LOCAL: lambda root: f"L[{root[1]!r}]",
    RootKind.GLOBAL: lambda root: "G",
    RootKind.OBJECT: lambda root: describe(root[1].value),
    RootKind.NONE: lambda root: "frame",
}

STEP_TEXT: dict[StepKind, Callable[[str, Any], str]] = {
    StepKind.ATTR: lambda base, key: f"{base}.{key}",
    StepKind.GENERIC_DICT: lambda base, key: f"{base}.__dict__",
    StepKind.SPACE: lambda base, key: f"{base}.__dict__",
    StepKind.TYPE_DICT: lambda base, key: f"{base}.__dict__",
    StepKind.DICT_ITEM: lambda base, key: f"{base}[{key!r}]",
    StepKind.TUPLE_ITEM: lambda base, key: f"{base}[{key}]",
    StepKind.LIST_ITEM: lambda base, key: f"{base}[{key}]",
    StepKind.TYPE: lambda base, key: f"type({base})",
    StepKind.TYPE_MRO: lambda base, key: f"{base}.__mro__",
    StepKind.CODE: lambda base, key: f"{base}.__code__",
    StepKind.CLOSURE: lambda base, key: f"{base}.__closure__",
    StepKind.DEFAULTS: lambda base, key: f"{base}.__defaults__",
    StepKind.KWDEFAULTS: lambda base, key: f"{base}.__kwdefaults__",
    StepKind.DICT_KEY_AT: lambda base, key: f"list({base})[{key}]",
    StepKind.DICT_VALUE_AT: lambda base, key: f"list({base}.values())[{key}]",
    StepKind.ITEM: lambda base, key: f"{base}[{key!r}]",
    StepKind.CALL: lambda base, key: f"{base}()",
    StepKind.APPLY: lambda base, key: f"accessor({base})",
}


def _hashable(key: Any) -> Any:
    try:
        hash(key)
    except TypeError:
        return id(key)
    return key
