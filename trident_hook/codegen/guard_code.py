"""Guards as statements: each leaves its function with a miss when it does not hold."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from typing import Any

from ..capture.guards.translate import local_name
from ..errors import Unsupported
from ..ir.guard import Guard
from ..ir.kinds import GuardKind, RootKind, StepKind
from ..ir.source import Source
from . import intexpr
from .values import Reader
from .writer import literal

_FEW = 4  # objects that are compared pair by pair: six comparisons


class GuardWriter:
    """Writes guards into one function. `scalar_type(dtype)` and `device_type(name)` give PyTorch's numbers."""

    def __init__(self, reader: Reader, torch_numbers: Any) -> None:
        self.reader, self.out, self.tables = reader, reader.out, reader.tables
        self.numbers = torch_numbers

    def write(self, guard: Guard) -> None:
        self.out.comment(str(guard))
        write = WRITERS[guard.kind]
        if write is None:
            raise Unsupported("guard", f"{guard.kind}: {guard}")
        write(self, guard)

    def _fail_unless(self, condition: str) -> None:
        self.out(f"if not ({condition}): {self.reader.fail()}")

    def _fail_if(self, condition: str) -> None:
        self.out(f"if {condition}: {self.reader.fail()}")

    # -- values ----------------------------------------------------------------------------------------------------
    def _tensor(self, guard: Guard) -> None:
        facts, numbers = guard.arg, self.numbers
        value = self.reader.object(guard.source)
        self._fail_unless(f"<PyObject*>Py_TYPE({value}) == {self.tables.object(facts.type_)}")
        t = self.reader.tensor(guard.source)
        index = -1 if facts.device_index is None else facts.device_index
        self._fail_unless(
            f"{t}.dtype == {numbers.scalar_type(facts.dtype)} and {t}.device_type == "
            f"{numbers.device_type(facts.device_type)} and {t}.device_index == {index} and "
            f"{t}.requires_grad == {int(facts.requires_grad)} and {t}.ndim == {len(facts.sizes)}"
        )
        self._fail_unless(f"rt.keys_apply({t}.keys, st) == {facts.keys:#x}ULL")
        for field, numbers_ in (("sizes", facts.sizes), ("strides", facts.strides)):
            terms = [f"{t}.{field}[{d}] == {literal(n)}" for d, n in enumerate(numbers_) if n is not None]
            if terms:
                self._fail_unless(" and ".join(terms))

    def _type(self, guard: Guard) -> None:
        value = self.reader.object(guard.source)
        self._fail_unless(f"<PyObject*>Py_TYPE({value}) == {self.tables.object(guard.arg)}")

    def _id(self, guard: Guard) -> None:
        self._fail_unless(f"{self.reader.object(guard.source)} == {self.tables.object(guard.arg)}")

    def _equals(self, guard: Guard) -> None:
        value, want = self.reader.object(guard.source), guard.arg.value
        if type(want) is int and -(2**63) < want < 2**63:
            self._fail_unless(f"tdh_int_is({value}, {literal(want)})")
        elif type(want) is float:
            self._fail_unless(f"tdh_float_is({value}, PyFloat_AS_DOUBLE({self.tables.object(guard.arg)}))")
        else:
            self._fail_unless(f"tdh_equals({value}, {self.tables.object(guard.arg)})")

    def _members(self, guard: Guard) -> None:
        self._fail_unless(f"tdh_same_members({self.reader.object(guard.source)}, {self.tables.object(guard.arg)})")

    def _none(self, guard: Guard) -> None:
        self._fail_unless(f"{self.reader.object(guard.source)} == Py_None")

    def _not_none(self, guard: Guard) -> None:
        self._fail_unless(f"{self.reader.object(guard.source)} != Py_None")

    def _true(self, guard: Guard) -> None:
        self._fail_unless(f"{self.reader.object(guard.source)} == Py_True")

    def _false(self, guard: Guard) -> None:
        self._fail_unless(f"{self.reader.object(guard.source)} == Py_False")

    def _finite(self, guard: Guard) -> None:
        self._fail_unless(f"tdh_float_is_finite({self.reader.object(guard.source)})")
        self.reader.finite.add(guard.source.key)

    def _nan(self, guard: Guard) -> None:
        self._fail_unless(f"tdh_equals({self.reader.object(guard.source)}, {self.tables.object(guard.arg)})")

    # -- containers ------------------------------------------------------------------------------------------------
    def _length(self, guard: Guard) -> None:
        value = self.reader.object(guard.source)
        self.out(f"if PyObject_Size({value}) != {guard.arg}: PyErr_Clear(); {self.reader.fail()}")

    def _dict_length(self, guard: Guard) -> None:
        value = self.reader.object(guard.source)
        self._fail_unless(f"PyDict_Check({value}) and PyDict_Size({value}) == {guard.arg}")

    def _dict_contains(self, guard: Guard) -> None:
        wanted, key = guard.arg
        value = self.reader.object(guard.source)
        contains = f"PyDict_Contains({value}, {self.tables.object(key)}) != {int(wanted)}"
        self._fail_unless(f"PyDict_Check({value})")
        self.out(f"if {contains}: PyErr_Clear(); {self.reader.fail()}")

    def _no_attr(self, guard: Guard) -> None:
        value = self.reader.object(guard.source)
        hold = self.reader._hold()
        self.out(f"if rt.attr_find({value}, {self.tables.object(guard.arg)}, &{hold}) != 0: PyErr_Clear(); "
                 f"{self.reader.fail()}")  # fmt: skip

    def _plain_context(self, guard: Guard) -> None:
        """Before its saved tensors are read: that could run the program's code."""
        value = self.reader.object(guard.source)
        self.out(f"if not _residual({self.tables.object(guard.arg)}, {value}): return TDH_BYPASS")

    # -- relations -------------------------------------------------------------------------------------------------
    def _distinct(self, guard: Guard) -> None:
        values = list(dict.fromkeys(self.reader.object(source) for source in guard.arg))
        may_be_missing = any(step == StepKind.SPACE for source in guard.arg for step, _ in source.steps)
        if len(values) > _FEW or may_be_missing:
            self._fail_unless(f"rt.all_distinct({self._array(values)}, {len(values)})")
            return
        for first, second in itertools.combinations(values, 2):
            self._fail_if(f"{first} == {second}")

    def write_not_of_env(self, guard: Guard, plan: int | None) -> None:
        """Behind the check of the plan's guards, which notes what the objects of the environment are."""
        self.out.comment(str(guard))
        values = list(dict.fromkeys(self.reader.object(source) for source in guard.arg))
        self._fail_if(f"rt.env_has(plan[{plan}], {self._array(values)}, {len(values)})")

    def _array(self, values: list[str]) -> str:
        """A C array of these objects."""
        name = self.reader.array(len(values))
        for index, value in enumerate(values):
            self.out(f"{name}[{index}] = {value}")
        return name

    def _same(self, guard: Guard) -> None:
        self._fail_unless(f"{self.reader.object(guard.source)} == {self.reader.object(guard.arg)}")

    def _shape(self, guard: Guard) -> None:
        sources = dict(guard.arg.sources)
        condition = intexpr.from_python(guard.arg.text, lambda node: self._resolve(node, sources))
        self._fail_unless(condition)
        self._fail_if("ovf")

    def _class_facts(self, guard: Guard) -> None:
        """Asked again only when the version of the class or of its metaclass has changed: never for most calls that evaluate
        this at all."""
        value, facts = self.reader.object(guard.source), self.tables.object(guard.arg)
        known, now = f"version[{self.tables.version(guard.arg)}]", f"tdh_class_version({value})"
        with self.out.block(f"if {known} == 0 or {known} != {now}:"):
            self._fail_unless(f"_residual({facts}, {value})")
            self.out(f"{known} = {now}")

    def _residual(self, guard: Guard) -> None:
        value = self.reader.object(guard.source)
        leaf, tree = guard.arg
        self.tables.object(tree)  # kept alive by the module
        self._fail_unless(f"_residual({self.tables.object(leaf)}, {value})")

    # -- leaves of shape expressions ---------------------------------------------------------------------------------
    def _resolve(self, node: ast.AST, sources: dict[Any, Any]) -> str | None:
        """C expression of `L['x'].size()[0]`, `L['x'].stride()[0]`, `L['x'].storage_offset()`, `L['n']`."""

        def source_of(part: ast.AST) -> Source | None:
            return sources.get(ast.unparse(part)) or source_of_ast(part)

        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call) and ast.unparse(node) not in sources:
            call, index = node.value, node.slice
            if isinstance(call.func, ast.Attribute) and isinstance(index, ast.Constant) and not call.args:
                field = {"size": "sizes", "stride": "strides"}.get(call.func.attr)
                source = source_of(call.func.value)
                if field and source is not None:
                    return f"{self.reader.tensor(source)}.{field}[{index.value!r}]"
            return None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            source = source_of(node.func.value)
            if node.func.attr == "storage_offset" and source is not None:
                return f"{self.reader.tensor(source)}.storage_offset"
            return None
        source = source_of(node)
        return None if source is None else self.reader.int(source)


def source_of_ast(node: ast.AST) -> Source | None:
    """`L['a'].b`, `L['a']` -> Source. Items of containers are not told apart here, so they are not resolved."""
    name = local_name(node)
    if name is not None:
        return Source((RootKind.LOCAL, name), (), f"L[{name!r}]")
    if isinstance(node, ast.Attribute):
        base = source_of_ast(node.value)
        return base and base.then(StepKind.ATTR, node.attr, f"{base.text}.{node.attr}")
    return None


#: How each kind is written as a statement; None for those that never are: what is always watched (the default device, `env_distinct`),
#: and `not_of_env`, which is written behind the check of its plan.
WRITERS: dict[GuardKind, Callable[[GuardWriter, Guard], None] | None] = {
    GuardKind.TENSOR: GuardWriter._tensor,
    GuardKind.TYPE: GuardWriter._type,
    GuardKind.ID: GuardWriter._id,
    GuardKind.EQUALS: GuardWriter._equals,
    GuardKind.MEMBERS: GuardWriter._members,
    GuardKind.NONE: GuardWriter._none,
    GuardKind.NOT_NONE: GuardWriter._not_none,
    GuardKind.TRUE: GuardWriter._true,
    GuardKind.FALSE: GuardWriter._false,
    GuardKind.FINITE: GuardWriter._finite,
    GuardKind.NAN: GuardWriter._nan,
    GuardKind.LENGTH: GuardWriter._length,
    GuardKind.DICT_LENGTH: GuardWriter._dict_length,
    GuardKind.DICT_CONTAINS: GuardWriter._dict_contains,
    GuardKind.NO_ATTR: GuardWriter._no_attr,
    GuardKind.DISTINCT: GuardWriter._distinct,
    GuardKind.ENV_DISTINCT: None,
    GuardKind.NOT_OF_ENV: None,
    GuardKind.SAME: GuardWriter._same,
    GuardKind.SHAPE: GuardWriter._shape,
    GuardKind.CLASS_FACTS: GuardWriter._class_facts,
    GuardKind.PLAIN_CONTEXT: GuardWriter._plain_context,
    GuardKind.DEFAULT_DEVICE: None,
    GuardKind.RESIDUAL: GuardWriter._residual,
}
