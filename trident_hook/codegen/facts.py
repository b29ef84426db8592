"""What a specialization needs to find in a call before it can hold, as plain numbers and objects that are cheap to read:
the questions that the dispatcher may ask (see dispatch_code.py).

A fact is read without running Python code and without changing anything, from any call, whatever its arguments are.
Which specialization is asked first is all that follows from it: its guards are then checked in full, so a fact that is
missing here, or too narrow, costs time and never an answer."""

from __future__ import annotations

import enum
import itertools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..ir import recipe as r
from ..ir.guard import Guard
from ..ir.kinds import GuardKind, RootKind, StepKind
from ..ir.objects import ObjectKey
from ..ir.program import Launch
from ..ir.source import Source
from ..ir.specialization import Specialization
from . import numbers as torch_numbers


class FactKind(enum.StrEnum):
    """What may be asked."""

    STATE = "state"
    IS = "is"
    CLASS = "class"
    INT = "int"
    FLOAT = "float"
    LENGTH = "length"
    TEXT_LENGTH = "text_length"
    CHARACTER = "character"
    NUMBER = "number"
    KEYS = "keys"
    SIZE = "size"
    STRIDE = "stride"
    ALIGNED = "aligned"
    SAME = "same"
    CONTAINS = "contains"


#: Steps that can be read so, with what each costs (in nanoseconds, as below) where its value has not been read yet; None for the
#: others. An attribute only where it is stored as it is; a key of a dict only if it is a plain one.
STEP_COST: dict[StepKind, int | None] = {
    StepKind.ATTR: 20,
    StepKind.GENERIC_DICT: 6,
    StepKind.SPACE: None,
    StepKind.DICT_ITEM: 12,
    StepKind.TUPLE_ITEM: 1,
    StepKind.LIST_ITEM: 1,
    StepKind.TYPE: 1,
    StepKind.TYPE_DICT: 1,
    StepKind.TYPE_MRO: None,
    StepKind.CODE: 1,
    StepKind.CLOSURE: 1,
    StepKind.DEFAULTS: 1,
    StepKind.KWDEFAULTS: 1,
    StepKind.DICT_KEY_AT: None,
    StepKind.DICT_VALUE_AT: None,
    StepKind.ITEM: None,
    StepKind.CALL: None,
    StepKind.APPLY: None,
}
_KEYS = (str, int, bool, type(None))
_MOST_PAIRS = 16  # of tensors that are told to be distinct
_TENSOR_NUMBERS = ("ndim", "dtype", "device_type", "device_index", "requires_grad")
#: Characters of a string that may be looked at.
_CHARACTERS = 48
#: note(kind, source, answer, detail=None)
Note = Callable[..., None]

#: Nanoseconds that asking costs, roughly, once the value that it is about has been read.
COST: dict[FactKind, int] = {
    FactKind.STATE: 0,
    FactKind.IS: 1,
    FactKind.CLASS: 1,
    FactKind.INT: 2,
    FactKind.FLOAT: 2,
    FactKind.LENGTH: 2,
    FactKind.TEXT_LENGTH: 2,
    FactKind.CHARACTER: 2,
    FactKind.NUMBER: 1,
    FactKind.KEYS: 3,
    FactKind.SIZE: 2,
    FactKind.STRIDE: 2,
    FactKind.ALIGNED: 8,
    FactKind.SAME: 1,
    FactKind.CONTAINS: 12,
}
#: What reading a tensor costs, which all facts of it share.
TENSOR_COST = 10
ABOUT_TENSORS = (FactKind.NUMBER, FactKind.KEYS, FactKind.SIZE, FactKind.STRIDE, FactKind.ALIGNED)


@dataclass(frozen=True)
class Fact:
    """A question. Its answer is an int; an ObjectKey for "is" and "class"."""

    kind: FactKind
    source: Any = None  # a Source, but for the state
    detail: Any = None  # the word of the state, the field, the dimension, the position, the key or another source

    @cached_property
    def key(self) -> tuple[Any, ...]:
        detail = self.detail.key if isinstance(self.detail, Source) else self.detail
        return (self.kind, self.source and self.source.key, detail)

    def __str__(self) -> str:
        return WORDS[self.kind](self)


#: A question in words, for the comments of generated code.
WORDS: dict[FactKind, Callable[[Fact], str]] = {
    FactKind.STATE: lambda f: f"word {f.detail} of the torch state",
    FactKind.IS: lambda f: f"which object {f.source} is",
    FactKind.CLASS: lambda f: f"type({f.source})",
    FactKind.INT: lambda f: f"{f.source}",
    FactKind.FLOAT: lambda f: f"the bits of {f.source}",
    FactKind.LENGTH: lambda f: f"len({f.source})",
    FactKind.TEXT_LENGTH: lambda f: f"len({f.source})",
    FactKind.CHARACTER: lambda f: f"{f.source}[{f.detail}]",
    FactKind.NUMBER: lambda f: f"{f.source}: {f.detail}",
    FactKind.KEYS: lambda f: f"{f.source}: dispatch keys",
    FactKind.SAME: lambda f: f"{f.source} is {f.detail}",
    FactKind.CONTAINS: lambda f: f"{f.detail} in {f.source}",
    FactKind.SIZE: lambda f: f"{f.source}.size({f.detail})",
    FactKind.STRIDE: lambda f: f"{f.source}.stride({f.detail})",
    FactKind.ALIGNED: lambda f: f"{f.source}: pointer divisible by 16",
}


def facts_of(spec: Specialization) -> dict[tuple[Any, ...], tuple[Fact, object]]:
    """Fact.key -> (fact, answer), in the order in which the guards stand. Collected once: a module is built many times."""
    known = vars(spec).get("_facts")
    if known is None:
        known = vars(spec)["_facts"] = _collected(spec)
    return known


def _collected(spec: Specialization) -> dict[tuple[Any, ...], tuple[Fact, object]]:
    found: dict[tuple[Any, ...], tuple[Fact, object]] = {}

    def note(kind: FactKind, source: Source | None, answer: Any, detail: Any = None) -> None:
        fact = Fact(kind, source, detail)
        found.setdefault(fact.key, (fact, answer))

    for index, word in enumerate(spec.state):
        note(FactKind.STATE, None, word, index)
    for guard in spec.guards:
        if all(map(_is_readable, guard.sources)):
            _of_guard(guard, note)
    _of_launches(spec, note)
    return found


def _is_readable(source: Source) -> bool:
    if source.root[0] == RootKind.NONE:
        return False
    return all(
        STEP_COST[step] is not None and (step != StepKind.DICT_ITEM or type(key) in _KEYS) for step, key in source.steps
    )


def _of_guard(guard: Guard, note: Note) -> None:
    OF_GUARDS[guard.kind](guard, note)


def _of_tensor_guard(guard: Guard, note: Note) -> None:
    _of_tensor(guard.source, guard.arg, note)


def _of_type(guard: Guard, note: Note) -> None:
    note(FactKind.CLASS, guard.source, guard.arg)


def _of_id(guard: Guard, note: Note) -> None:
    note(FactKind.IS, guard.source, guard.arg)


def _of_singleton(guard: Guard, note: Note) -> None:
    _of_constant(guard.source, _SINGLETONS[guard.kind], note)


def _of_equals(guard: Guard, note: Note) -> None:
    _of_constant(guard.source, guard.arg.value, note)


def _of_finite(guard: Guard, note: Note) -> None:
    note(FactKind.CLASS, guard.source, ObjectKey(float))


def _of_members(guard: Guard, note: Note) -> None:
    note(FactKind.CLASS, guard.source, ObjectKey(type(guard.arg.value)))


def _of_length(guard: Guard, note: Note) -> None:
    note(FactKind.LENGTH, guard.source, guard.arg)


def _of_same(guard: Guard, note: Note) -> None:
    _of_pair(guard.source, guard.arg, 1, note)


def _of_distinct(guard: Guard, note: Note) -> None:
    pairs = itertools.combinations(filter(_is_readable, guard.arg), 2)
    for one, other in itertools.islice(pairs, _MOST_PAIRS):
        _of_pair(one, other, 0, note)


def _of_dict_contains(guard: Guard, note: Note) -> None:
    wanted, key = guard.arg
    if isinstance(key, ObjectKey) and type(key.value) in _KEYS:
        note(FactKind.CONTAINS, guard.source, int(wanted), key)


def _nothing(guard: Guard, note: Note) -> None:
    """Of kinds that tell specializations apart too seldom, or cost too much to ask."""


_SINGLETONS = {GuardKind.NONE: None, GuardKind.TRUE: True, GuardKind.FALSE: False}
OF_GUARDS: dict[GuardKind, Callable[[Guard, Note], None]] = {
    GuardKind.TENSOR: _of_tensor_guard,
    GuardKind.TYPE: _of_type,
    GuardKind.ID: _of_id,
    GuardKind.EQUALS: _of_equals,
    GuardKind.MEMBERS: _of_members,
    GuardKind.NONE: _of_singleton,
    GuardKind.NOT_NONE: _nothing,
    GuardKind.TRUE: _of_singleton,
    GuardKind.FALSE: _of_singleton,
    GuardKind.FINITE: _of_finite,
    GuardKind.NAN: _of_equals,
    GuardKind.LENGTH: _of_length,
    GuardKind.DICT_LENGTH: _of_length,
    GuardKind.DICT_CONTAINS: _of_dict_contains,
    GuardKind.NO_ATTR: _nothing,
    GuardKind.DISTINCT: _of_distinct,
    GuardKind.ENV_DISTINCT: _nothing,
    GuardKind.NOT_OF_ENV: _nothing,
    GuardKind.SAME: _of_same,
    GuardKind.SHAPE: _nothing,
    GuardKind.CLASS_FACTS: _nothing,
    GuardKind.PLAIN_CONTEXT: _nothing,
    GuardKind.DEFAULT_DEVICE: _nothing,
    GuardKind.RESIDUAL: _nothing,
}


def _of_pair(one: Source, other: Source, answer: int, note: Note) -> None:
    """Whether two values are one object."""
    one, other = sorted((one, other), key=str)
    note(FactKind.SAME, one, answer, other)


def _of_tensor(source: Source, facts: Any, note: Note) -> None:
    note(FactKind.CLASS, source, ObjectKey(facts.type_))
    index = -1 if facts.device_index is None else facts.device_index
    numbers = (len(facts.sizes), torch_numbers.scalar_type(facts.dtype),
               torch_numbers.device_type(facts.device_type), index, int(facts.requires_grad))  # fmt: skip
    for field, number in zip(_TENSOR_NUMBERS, numbers, strict=True):
        note(FactKind.NUMBER, source, number, field)
    note(FactKind.KEYS, source, facts.keys)
    for kind, values in ((FactKind.SIZE, facts.sizes), (FactKind.STRIDE, facts.strides)):
        for dim, value in enumerate(values):
            if value is not None:
                note(kind, source, value, dim)


def _of_constant(source: Source, value: Any, note: Note) -> None:
    """Of a guard that asks for this value and its exact type."""
    note(FactKind.CLASS, source, ObjectKey(type(value)))
    if type(value) is int:
        if -(2**63) <= value < 2**63:
            note(FactKind.INT, source, value)
    elif type(value) is float:
        note(FactKind.FLOAT, source, struct.unpack("<Q", struct.pack("<d", value))[0])
    elif type(value) in (str, bytes):
        note(FactKind.TEXT_LENGTH, source, len(value))
        for position, character in enumerate(value[:_CHARACTERS]):
            note(FactKind.CHARACTER, source, character if isinstance(character, int) else ord(character), position)
    elif value is None or isinstance(value, (bool, type, enum.Enum)) or _is_singleton(value):
        note(FactKind.IS, source, ObjectKey(value))
    elif type(value) in (tuple, list, dict):
        note(FactKind.LENGTH, source, len(value))


def _is_singleton(value: Any) -> bool:
    """Of a class of PyTorch with one object per value."""
    return type(value).__module__ == "torch" and type(value).__name__ in ("dtype", "layout", "memory_format")


def _of_launches(spec: Specialization, note: Note) -> None:
    arguments = {i.name: i.expr for i in spec.program.inputs if i.meta is not None and isinstance(i.expr, r.Arg)}
    for op in spec.program.ops:
        for param in op.params if isinstance(op, Launch) else ():
            if param.tensor and param.divisible is not None and param.value in arguments:
                name = arguments[param.value].name
                note(FactKind.ALIGNED, Source((RootKind.LOCAL, name), (), name), int(param.divisible))
