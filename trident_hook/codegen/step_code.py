"""Environment guards and ambient conditions as a table of steps: see tdh_step in ext/abi/tdh_rt.h, gone through by
ext/guard/recheck.cpp. A call asks them only after something they depend on has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import Unsupported
from ..ir.condition import Condition
from ..ir.guard import Guard
from ..ir.kinds import ConditionKind, GuardKind, RootKind, StepKind
from ..ir.objects import ObjectKey
from ..ir.source import Source
from .writer import Lines, Tables, c_comment

#: Step of a source -> (its read, what its key is: an object of the module, a number, or nothing); None for what no plan can watch,
#: and for a namespace that may not be there.
READS: dict[StepKind, tuple[str, str | None] | None] = {
    StepKind.ATTR: ("ATTR", "object"),
    StepKind.GENERIC_DICT: ("DICT", None),
    StepKind.SPACE: None,
    StepKind.DICT_ITEM: ("DICT_ITEM", "object"),
    StepKind.TUPLE_ITEM: ("TUPLE_ITEM", "number"),
    StepKind.LIST_ITEM: None,
    StepKind.TYPE: ("TYPE", None),
    StepKind.TYPE_DICT: ("DICT", None),
    StepKind.TYPE_MRO: ("MRO", None),
    StepKind.CODE: ("CODE", None),
    StepKind.CLOSURE: ("CLOSURE", None),
    StepKind.DEFAULTS: ("DEFAULTS", None),
    StepKind.KWDEFAULTS: ("KWDEFAULTS", None),
    StepKind.DICT_KEY_AT: ("KEY_AT", "number"),
    StepKind.DICT_VALUE_AT: ("VALUE_AT", "number"),
    StepKind.ITEM: None,
    StepKind.CALL: None,
    StepKind.APPLY: None,
}


class StepWriter:
    """Steps, guard by guard. What one guard has read the next ones use: all are asked, in order, or none."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.known: dict[tuple[Any, ...], int] = {}  # path -> operand
        self.values = self.count = self._number = 0
        self._line: list[str] = []
        self._lines: list[str] = []

    # -- guards ----------------------------------------------------------------------------------------------------
    def guard(self, number: int, guard: Guard) -> None:
        """One that `Guard.is_watched`; `number` is the check's answer when it does not hold."""
        self._number = number
        write = STEPS.get(guard.kind)
        if write is None:
            raise Unsupported("guard", f"{guard.kind} among environment guards: {guard}")
        write(self, guard)
        self._end(str(guard))

    def ambient(self, number: int, condition: Condition) -> None:
        self._number = number
        CONDITIONS[condition.kind](self, condition.source)
        self._end(condition.text)

    def _is(self, guard: Guard) -> None:
        self._step("ASK_IS", self._read(guard.source), self._object(guard.arg))

    def _equals(self, guard: Guard) -> None:
        self._step("ASK_EQUALS", self._read(guard.source), self._object(guard.arg))

    def _default_device(self, guard: Guard) -> None:
        self._step("ASK_EQUALS", self._read(default_device_source()), self._object(guard.arg))

    def _type(self, guard: Guard) -> None:
        self._step("ASK_TYPE", self._read(guard.source), self._object(guard.arg))

    def _constant(self, guard: Guard) -> None:
        what, constant = _CONSTANTS[guard.kind]
        self._step(f"ASK_{what}", self._read(guard.source), self._object(constant))

    def _same(self, guard: Guard) -> None:
        self._step("ASK_IS", self._read(guard.source), self._read(guard.arg))

    def _dict_contains(self, guard: Guard) -> None:
        wanted, key = guard.arg
        self._step("ASK_CONTAINS", self._read(guard.source), self._object(key), int(wanted))

    def _dict_length(self, guard: Guard) -> None:
        self._step("ASK_DICT_LENGTH", self._read(guard.source), 0, guard.arg)

    def _class_facts(self, guard: Guard) -> None:
        facts = self._object(guard.arg)
        self._step("ASK_CLASS_FACTS", self._read(guard.source), facts, self.tables.version(guard.arg))

    def _env_distinct(self, guard: Guard) -> None:
        for source in guard.arg:
            self._step("ASK_NOTED", self._read(source))
        self._step("ASK_APART")

    def _empty_list(self, source: Source) -> None:
        self._step("ASK_EMPTY_LIST", self._read(source))

    def _not_eager(self, source: Source) -> None:
        stance = self._read(source.then(StepKind.ATTR, "stance"))
        self._step("ASK_DIFFERS", stance, self._object(ObjectKey("force_eager")))

    # -- operands --------------------------------------------------------------------------------------------------
    def _object(self, value: Any) -> int:
        return -1 - self.tables.index(value)

    def _read(self, source: Source) -> int:
        operand = self.known.get(source.key)
        if operand is None:
            operand = self._object(source.root[1]) if source.root[0] == RootKind.OBJECT and not source.steps else None
            if operand is None:
                self._read_step(source)
                operand = self.values
                self.values += 1
            self.known[source.key] = operand
        return operand

    def _read_step(self, source: Source) -> None:
        if not source.steps:
            if source.root[0] != RootKind.GLOBAL:
                raise Unsupported("source", str(source))
            return self._step("READ_GLOBALS")
        step, key = source.steps[-1]
        base = self._read(Source(source.root, source.steps[:-1]))
        read = READS[step]
        if read is None:
            raise Unsupported("source", f"{step} in {source}")
        what, operand = read
        if operand == "number" and (type(key) is not int or not 0 <= key < 2**31):
            raise Unsupported("source", str(source))
        with_, n = self._object(key) if operand == "object" else 0, key if operand == "number" else 0
        return self._step(f"READ_{what}", base, with_, n)

    # -- text ------------------------------------------------------------------------------------------------------
    def _step(self, what: str, of: int = 0, with_: int = 0, n: int = 0) -> None:
        self._line.append(f"{{TDH_{what}, {self._number}, {of}, {with_}, {n}}}")
        self.count += 1

    def _end(self, text: str) -> None:
        """A guard's steps are one line, under its text."""
        self._lines += [c_comment(self._number, text), ", ".join(self._line) + ","]
        self._line = []

    def write(self, out: Lines, name: str, of: str, linkage: str) -> None:
        with out.block("cdef extern from *:"):
            out('"""')
            out(f"/* Asked again when something they depend on has changed: {of}. {{what, guard, of, with, n}} */")
            out(f"{linkage} const tdh_step {name}[] = {{")
            for line in self._lines or ["{0}"]:
                out(f"  {line}")
            out("};")
            out('"""')
            out(f"const tdh_step {name}[]")


_CONSTANTS = {
    GuardKind.NONE: ("IS", None),
    GuardKind.NOT_NONE: ("IS_NOT", None),
    GuardKind.TRUE: ("IS", True),
    GuardKind.FALSE: ("IS", False),
}
#: How each kind that is watched is written; the others never come here.
STEPS: dict[GuardKind, Callable[[StepWriter, Guard], None]] = {
    GuardKind.ID: StepWriter._is,
    GuardKind.TYPE: StepWriter._type,
    GuardKind.EQUALS: StepWriter._equals,
    GuardKind.NAN: StepWriter._equals,
    GuardKind.DEFAULT_DEVICE: StepWriter._default_device,
    GuardKind.NONE: StepWriter._constant,
    GuardKind.NOT_NONE: StepWriter._constant,
    GuardKind.TRUE: StepWriter._constant,
    GuardKind.FALSE: StepWriter._constant,
    GuardKind.SAME: StepWriter._same,
    GuardKind.DICT_CONTAINS: StepWriter._dict_contains,
    GuardKind.DICT_LENGTH: StepWriter._dict_length,
    GuardKind.CLASS_FACTS: StepWriter._class_facts,
    GuardKind.ENV_DISTINCT: StepWriter._env_distinct,
}
#: Of what must hold for any call.
CONDITIONS: dict[ConditionKind, Callable[[StepWriter, Source], None]] = {
    ConditionKind.EMPTY_LIST: StepWriter._empty_list,
    ConditionKind.NOT_EAGER: StepWriter._not_eager,
}


def default_device_source() -> Source:
    import torch.utils._device as module

    return Source(
        (RootKind.OBJECT, ObjectKey(module)), ((StepKind.GENERIC_DICT, None), (StepKind.DICT_ITEM, "CURRENT_DEVICE"))
    )
