"""Guards: what must hold for a specialization to be reused. One class, told apart by `kind`."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property

from .source import Source

#: Every kind that the code generator knows, with its arguments.
KINDS = {
    "tensor": "TensorFacts",
    "type": "the exact type (object)",
    "id": "the object itself",
    "equals": "a constant of the same exact type",
    "members": "a set of plain constants: an equal one of the same exact type, in whatever order",
    "none": "",
    "not_none": "",
    "true": "",
    "false": "",
    "finite": "a float that is neither infinite nor NaN, whatever its value",
    "nan": "the very NaN: sign and payload count",
    "length": "a length of a list or tuple (or another sized object)",
    "dict_length": "number of keys",
    "dict_contains": "(wanted: bool, key)",
    "no_attr": "attribute name that must be absent",
    "distinct": "sources: all must be distinct objects (source: the first)",
    "env_distinct": "sources of the environment: all must be distinct objects (source: the first)",
    "not_of_env": "sources of the call: none may be one of the objects of `env_distinct` (source: the first)",
    "same": "a source: both must be the same object",
    "shape": "ShapeText",
    "class_facts": "ClassFacts: the attributes that a class, its bases and its metaclass had",
    "plain_context": "_rt.context_is_plain: of a torch.autograd.Function; without it the call is a bypass",
    "default_device": "torch.utils._device.CURRENT_DEVICE",
    "residual": "(leaf guard, the tree that owns it): the leaf is called with the value",
}


@dataclass(frozen=True)
class TensorFacts:
    """What a tensor guard compares. A size or stride of None is not compared (dynamic)."""

    type_: type
    keys: int  # raw dispatch key set after the thread's included and excluded sets
    dtype: object  # torch.dtype
    device_type: str
    device_index: int | None
    requires_grad: bool
    sizes: tuple
    strides: tuple

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


#: Kinds whose answer can only change with something that `environment.py` watches or pins.
_WATCHED = frozenset(("id", "equals", "none", "not_none", "true", "false", "nan", "type", "class_facts", "same",
                      "dict_contains", "dict_length", "default_device", "env_distinct"))  # fmt: skip
UNWATCHED_STEPS = frozenset(("list_item", "item", "call", "apply"))


@dataclass(frozen=True)
class Guard:
    kind: str
    source: Source
    arg: object = None
    text: str = ""  # Dynamo's text of the guard, without the user's source line

    @cached_property
    def class_(self) -> str:
        """'input' or 'env': what the guard depends on. State guards are one comparison of words, made for every
        specialization: see `Specialization.state`. The default device is a module's global, so it is environment."""
        if self.kind == "default_device":
            return "env"
        if self.kind in ("distinct", "shape", "not_of_env"):
            return "input"
        return "input" if any(source.is_input for source in self.sources) else "env"

    @property
    def sources(self) -> tuple[Source, ...]:
        if self.kind in ("distinct", "env_distinct", "not_of_env"):
            return self.arg
        return (self.source, self.arg) if self.kind == "same" else (self.source,)

    @cached_property
    def is_watched(self) -> bool:
        """False for guards that a call evaluates: of its arguments, and of objects of the environment that change
        without telling anyone (a list, a tensor's metadata)."""
        if self.class_ != "env" or self.kind not in _WATCHED:
            return False
        if self.kind == "equals" and not _is_fixed(self.arg.value):
            return False
        return not any(step in UNWATCHED_STEPS for source in self.sources for step, _ in source.steps)

    def __str__(self) -> str:
        return self._words

    @cached_property
    def _words(self) -> str:
        source, arg = str(self.source), self.arg
        texts = {
            "tensor": lambda: f"{source} is {arg}",
            "type": lambda: f"type({source}) is {arg}",
            "id": lambda: f"{source} is {arg}",
            "equals": lambda: f"{source} == {arg}",
            "members": lambda: f"{source} == {arg}, in any order",
            "none": lambda: f"{source} is None",
            "not_none": lambda: f"{source} is not None",
            "true": lambda: f"{source} is True",
            "false": lambda: f"{source} is False",
            "finite": lambda: f"{source} is a finite float",
            "nan": lambda: f"{source} is nan",
            "length": lambda: f"len({source}) == {arg}",
            "dict_length": lambda: f"len({source}) == {arg}",
            "dict_contains": lambda: f"{arg[1]!r} {'in' if arg[0] else 'not in'} {source}",
            "no_attr": lambda: f"not hasattr({source}, {arg!r})",
            "distinct": lambda: "distinct objects: " + ", ".join(map(str, arg)),
            "env_distinct": lambda: "distinct objects: " + ", ".join(map(str, arg)),
            "not_of_env": lambda: f"no object of the environment: {', '.join(map(str, arg))}",
            "same": lambda: f"{source} is {arg}",
            "shape": lambda: str(arg),
            "class_facts": lambda: f"{source} has the attributes it had",
            "plain_context": lambda: f"the saved tensors of {source} may be read",
            "default_device": lambda: f"the default device is {arg}",
        }
        return texts.get(self.kind, lambda: f"{self.kind} of {source}: {self.text}")()


def _is_fixed(value) -> bool:
    """The value of a constant cannot change in place."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(_is_fixed, value))
    if isinstance(value, slice):
        return all(map(_is_fixed, (value.start, value.stop, value.step)))
    fixed = (int, float, complex, str, bytes, bool, type(None), type, range)
    return isinstance(value, fixed) or type(value).__module__ == "torch" or isinstance(value, enum.Enum)
