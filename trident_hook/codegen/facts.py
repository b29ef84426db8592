"""What a specialization needs to find in a call before it can hold, as plain numbers and objects that are cheap to read:
the questions that the dispatcher may ask (see dispatch_code.py).

A fact is read without running Python code and without changing anything, from any call, whatever its arguments are.
Which specialization is asked first is all that follows from it: its guards are then checked in full, so a fact that is
missing here, or too narrow, costs time and never an answer."""

from __future__ import annotations

import enum
import itertools
import struct
from dataclasses import dataclass
from functools import cached_property

from ..ir import recipe as r
from ..ir.guard import Guard
from ..ir.objects import ObjectKey
from ..ir.program import Launch
from ..ir.source import Source
from ..ir.specialization import Specialization
from . import numbers as torch_numbers

#: Steps that can be read so. An attribute only where it is stored as it is; a key of a dict only if it is a plain one.
_STEPS = ("tuple_item", "list_item", "attr", "generic_dict", "dict_item", "type", "type_dict", "code", "closure",
          "defaults", "kwdefaults")  # fmt: skip
_KEYS = (str, int, bool, type(None))
_MOST_PAIRS = 16  # of tensors that are told to be distinct
_TENSOR_NUMBERS = ("ndim", "dtype", "device_type", "device_index", "requires_grad")
#: Characters of a string that may be looked at.
_CHARACTERS = 48

#: Nanoseconds that asking costs, roughly, once the value that it is about has been read.
COST = {"state": 0, "is": 1, "class": 1, "int": 2, "float": 2, "length": 2, "text_length": 2, "character": 2,
        "number": 1, "keys": 3, "size": 2, "stride": 2, "aligned": 8, "same": 1, "contains": 12}  # fmt: skip
#: For each step to a value that has not been read yet.
STEP_COST = {"attr": 20, "dict_item": 12, "generic_dict": 6}
#: What reading a tensor costs, which all facts of it share.
TENSOR_COST = 10
ABOUT_TENSORS = ("number", "keys", "size", "stride", "aligned")


@dataclass(frozen=True)
class Fact:
    """A question. Its answer is an int; an ObjectKey for "is" and "class"."""

    kind: str
    source: Source | None = None
    detail: object = None  # the word of the state, the field, the dimension, the position, the key or another source

    @cached_property
    def key(self) -> tuple:
        detail = self.detail.key if isinstance(self.detail, Source) else self.detail
        return (self.kind, self.source and self.source.key, detail)

    def __str__(self) -> str:
        texts = {
            "state": f"word {self.detail} of the torch state",
            "is": f"which object {self.source} is",
            "class": f"type({self.source})",
            "int": f"{self.source}",
            "float": f"the bits of {self.source}",
            "length": f"len({self.source})",
            "text_length": f"len({self.source})",
            "character": f"{self.source}[{self.detail}]",
            "number": f"{self.source}: {self.detail}",
            "keys": f"{self.source}: dispatch keys",
            "same": f"{self.source} is {self.detail}",
            "contains": f"{self.detail} in {self.source}",
            "size": f"{self.source}.size({self.detail})",
            "stride": f"{self.source}.stride({self.detail})",
            "aligned": f"{self.source}: pointer divisible by 16",
        }
        return texts[self.kind]


def facts_of(spec: Specialization) -> dict[tuple, tuple[Fact, object]]:
    """Fact.key -> (fact, answer), in the order in which the guards stand. Collected once: a module is built many times."""
    known = vars(spec).get("_facts")
    if known is None:
        known = vars(spec)["_facts"] = _collected(spec)
    return known


def _collected(spec: Specialization) -> dict[tuple, tuple[Fact, object]]:
    found: dict[tuple, tuple[Fact, object]] = {}

    def note(kind: str, source: Source | None, answer, detail=None) -> None:
        fact = Fact(kind, source, detail)
        found.setdefault(fact.key, (fact, answer))

    for index, word in enumerate(spec.state):
        note("state", None, word, index)
    for guard in spec.guards:
        if all(map(_is_readable, guard.sources)):
            _of_guard(guard, note)
    _of_launches(spec, note)
    return found


def _is_readable(source: Source) -> bool:
    if source.root[0] not in ("local", "global", "object"):
        return False
    return all(step in _STEPS and (step != "dict_item" or type(key) in _KEYS) for step, key in source.steps)


def _of_guard(guard: Guard, note) -> None:
    source, arg = guard.source, guard.arg
    if guard.kind == "tensor":
        _of_tensor(source, arg, note)
    elif guard.kind == "type":
        note("class", source, arg)
    elif guard.kind == "id":
        note("is", source, arg)
    elif guard.kind in ("none", "true", "false"):
        _of_constant(source, {"none": None, "true": True, "false": False}[guard.kind], note)
    elif guard.kind in ("equals", "nan"):
        _of_constant(source, arg.value, note)
    elif guard.kind == "finite":
        note("class", source, ObjectKey(float))
    elif guard.kind == "members":
        note("class", source, ObjectKey(type(arg.value)))
    elif guard.kind in ("length", "dict_length"):
        note("length", source, arg)
    elif guard.kind == "same":
        _of_pair(source, arg, 1, note)
    elif guard.kind == "distinct":
        for one, other in itertools.islice(itertools.combinations(filter(_is_readable, arg), 2), _MOST_PAIRS):
            _of_pair(one, other, 0, note)
    elif guard.kind == "dict_contains":
        wanted, key = arg
        if isinstance(key, ObjectKey) and type(key.value) in _KEYS:
            note("contains", source, int(wanted), key)


def _of_pair(one: Source, other: Source, answer: int, note) -> None:
    """Whether two values are one object."""
    one, other = sorted((one, other), key=str)
    note("same", one, answer, other)


def _of_tensor(source: Source, facts, note) -> None:
    note("class", source, ObjectKey(facts.type_))
    index = -1 if facts.device_index is None else facts.device_index
    numbers = (len(facts.sizes), torch_numbers.scalar_type(facts.dtype),
               torch_numbers.device_type(facts.device_type), index, int(facts.requires_grad))  # fmt: skip
    for field, number in zip(_TENSOR_NUMBERS, numbers, strict=True):
        note("number", source, number, field)
    note("keys", source, facts.keys)
    for kind, values in (("size", facts.sizes), ("stride", facts.strides)):
        for dim, value in enumerate(values):
            if value is not None:
                note(kind, source, value, dim)


def _of_constant(source: Source, value, note) -> None:
    """Of a guard that asks for this value and its exact type."""
    note("class", source, ObjectKey(type(value)))
    if type(value) is int:
        if -(2**63) <= value < 2**63:
            note("int", source, value)
    elif type(value) is float:
        note("float", source, struct.unpack("<Q", struct.pack("<d", value))[0])
    elif type(value) in (str, bytes):
        note("text_length", source, len(value))
        for position, character in enumerate(value[:_CHARACTERS]):
            note("character", source, character if isinstance(character, int) else ord(character), position)
    elif value is None or isinstance(value, (bool, type, enum.Enum)) or _is_singleton(value):
        note("is", source, ObjectKey(value))
    elif type(value) in (tuple, list, dict):
        note("length", source, len(value))


def _is_singleton(value) -> bool:
    """Of a class of PyTorch with one object per value."""
    return type(value).__module__ == "torch" and type(value).__name__ in ("dtype", "layout", "memory_format")


def _of_launches(spec: Specialization, note) -> None:
    arguments = {i.name: i.expr for i in spec.program.inputs if i.meta is not None and isinstance(i.expr, r.Arg)}
    for op in spec.program.ops:
        for param in op.params if isinstance(op, Launch) else ():
            if param.tensor and param.divisible is not None and param.value in arguments:
                name = arguments[param.value].name
                note("aligned", Source(("local", name), (), name), int(param.divisible))
