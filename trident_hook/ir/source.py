"""Sources: how a value is reached from the call (a local, a global, an object known at capture), step by step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .objects import describe

#: What may stand at the start of a source, and the steps that may follow. The second field of a step is its key.
ROOTS = ("local", "global", "object", "none")
STEPS = (
    "attr",  # getattr(value, key)
    "generic_dict",  # the instance or module __dict__ of the value
    "space",  # the same where somebody has asked the instance for it, else nothing
    "dict_item",  # value[key] for an exact or sub-classed dict
    "tuple_item",  # value[key] for a tuple
    "list_item",  # value[key] for a list
    "type",  # type(value)
    "type_dict",  # value.__dict__ of a type
    "type_mro",  # value.__mro__
    "code",  # function.__code__
    "closure",  # function.__closure__
    "defaults",  # function.__defaults__
    "kwdefaults",  # function.__kwdefaults__
    "dict_key_at",  # the key at a position of a dict
    "dict_value_at",  # the value at a position of a dict
    "item",  # value[key] of any other container
    "call",  # value()
    "apply",  # function(value): Dynamo's own accessor, written in Python
)


@dataclass(frozen=True)
class Source:
    """A root and the steps from it. `text` is Dynamo's own name for it, used in comments and messages.

    Keys of steps are compared with ``==``; a key that is an object is given as an index into the specialization's
    object table by the code generator, not here."""

    root: tuple
    steps: tuple = ()
    text: str = ""

    def then(self, step: str, key=None, text: str = "") -> Source:
        assert step in STEPS, step
        return Source(self.root, self.steps + ((step, key),), text)

    @cached_property
    def key(self) -> tuple:
        """Identity of the path, whatever its text says."""
        return (self.root, tuple((s, type(k), _hashable(k)) for s, k in self.steps))

    @property
    def is_input(self) -> bool:
        """True if the path starts at an argument or a free variable of the call."""
        return self.root[0] == "local"

    def __str__(self) -> str:
        """As Python would write it; the same in every process."""
        root = self.root
        text = {"local": lambda: f"L[{root[1]!r}]", "global": lambda: "G", "object": lambda: describe(root[1].value),
                "none": lambda: "frame"}[root[0]]()  # fmt: skip
        for step, key in self.steps:
            text = _STEP_TEXT[step](text, key)
        return text


_STEP_TEXT = {
    "attr": lambda base, key: f"{base}.{key}",
    "generic_dict": lambda base, key: f"{base}.__dict__",
    "space": lambda base, key: f"{base}.__dict__",
    "type_dict": lambda base, key: f"{base}.__dict__",
    "dict_item": lambda base, key: f"{base}[{key!r}]",
    "tuple_item": lambda base, key: f"{base}[{key}]",
    "list_item": lambda base, key: f"{base}[{key}]",
    "type": lambda base, key: f"type({base})",
    "type_mro": lambda base, key: f"{base}.__mro__",
    "code": lambda base, key: f"{base}.__code__",
    "closure": lambda base, key: f"{base}.__closure__",
    "defaults": lambda base, key: f"{base}.__defaults__",
    "kwdefaults": lambda base, key: f"{base}.__kwdefaults__",
    "dict_key_at": lambda base, key: f"list({base})[{key}]",
    "dict_value_at": lambda base, key: f"list({base}.values())[{key}]",
    "item": lambda base, key: f"{base}[{key!r}]",
    "call": lambda base, key: f"{base}()",
    "apply": lambda base, key: f"accessor({base})",
}


def _hashable(key):
    try:
        hash(key)
    except TypeError:
        return id(key)
    return key
