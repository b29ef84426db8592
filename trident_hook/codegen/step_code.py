"""Environment guards and ambient conditions as a table of steps: see tdh_step in ext/abi/tdh_rt.h, gone through by
ext/guard/recheck.cpp. A call asks them only after something they depend on has changed."""

from __future__ import annotations

from ..errors import Unsupported
from ..ir.condition import Condition
from ..ir.guard import Guard
from ..ir.objects import ObjectKey
from ..ir.source import Source
from .writer import Lines, Tables, c_comment

#: Step of a source -> (its read, what its key is: an object of the module, a number, or nothing).
_READS = {
    "attr": ("ATTR", "object"),
    "generic_dict": ("DICT", None),
    "type_dict": ("DICT", None),
    "dict_item": ("DICT_ITEM", "object"),
    "tuple_item": ("TUPLE_ITEM", "number"),
    "dict_key_at": ("KEY_AT", "number"),
    "dict_value_at": ("VALUE_AT", "number"),
    "type": ("TYPE", None),
    "type_mro": ("MRO", None),
    "code": ("CODE", None),
    "closure": ("CLOSURE", None),
    "defaults": ("DEFAULTS", None),
    "kwdefaults": ("KWDEFAULTS", None),
}
_ARGS = {"id": "IS", "type": "TYPE", "equals": "EQUALS", "nan": "EQUALS", "default_device": "EQUALS"}
_CONSTANTS = {"none": ("IS", None), "not_none": ("IS_NOT", None), "true": ("IS", True), "false": ("IS", False)}
#: Of guards that can be written as steps.
KINDS = frozenset((*_ARGS, *_CONSTANTS, "same", "dict_contains", "dict_length", "class_facts", "env_distinct"))


class StepWriter:
    """Steps, guard by guard. What one guard has read the next ones use: all are asked, in order, or none."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.known: dict[tuple, int] = {}  # path -> operand
        self.values = self.count = self._number = 0
        self._line: list[str] = []
        self._lines: list[str] = []

    # -- guards ----------------------------------------------------------------------------------------------------
    def guard(self, number: int, guard: Guard) -> None:
        """One that `Guard.is_watched`; `number` is the check's answer when it does not hold."""
        self._number = number
        if guard.kind in _CONSTANTS:
            what, constant = _CONSTANTS[guard.kind]
            self._step(f"ASK_{what}", self._read(guard.source), self._object(constant))
        elif guard.kind in _ARGS:
            source = default_device_source() if guard.kind == "default_device" else guard.source
            self._step(f"ASK_{_ARGS[guard.kind]}", self._read(source), self._object(guard.arg))
        elif guard.kind == "same":
            self._step("ASK_IS", self._read(guard.source), self._read(guard.arg))
        elif guard.kind == "dict_contains":
            wanted, key = guard.arg
            self._step("ASK_CONTAINS", self._read(guard.source), self._object(key), int(wanted))
        elif guard.kind == "dict_length":
            self._step("ASK_DICT_LENGTH", self._read(guard.source), 0, guard.arg)
        elif guard.kind == "class_facts":
            facts = self._object(guard.arg)
            self._step("ASK_CLASS_FACTS", self._read(guard.source), facts, self.tables.version(guard.arg))
        elif guard.kind == "env_distinct":
            for source in guard.arg:
                self._step("ASK_NOTED", self._read(source))
            self._step("ASK_APART")
        else:
            raise Unsupported("guard", f"{guard.kind} among environment guards: {guard}")
        self._end(str(guard))

    def ambient(self, number: int, condition: Condition) -> None:
        self._number = number
        if condition.kind == "empty_list":
            self._step("ASK_EMPTY_LIST", self._read(condition.source))
        else:
            stance = self._read(condition.source.then("attr", "stance"))
            self._step("ASK_DIFFERS", stance, self._object(ObjectKey("force_eager")))
        self._end(condition.text)

    # -- operands --------------------------------------------------------------------------------------------------
    def _object(self, value) -> int:
        return -1 - self.tables.index(value)

    def _read(self, source: Source) -> int:
        operand = self.known.get(source.key)
        if operand is None:
            operand = self._object(source.root[1]) if source.root[0] == "object" and not source.steps else None
            if operand is None:
                self._read_step(source)
                operand = self.values
                self.values += 1
            self.known[source.key] = operand
        return operand

    def _read_step(self, source: Source) -> None:
        if not source.steps:
            if source.root[0] != "global":
                raise Unsupported("source", str(source))
            return self._step("READ_GLOBALS")
        step, key = source.steps[-1]
        base = self._read(Source(source.root, source.steps[:-1]))
        if step not in _READS:
            raise Unsupported("source", f"{step} in {source}")
        what, operand = _READS[step]
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


def default_device_source() -> Source:
    import torch.utils._device as module

    return Source(("object", ObjectKey(module)), (("generic_dict", None), ("dict_item", "CURRENT_DEVICE")))
