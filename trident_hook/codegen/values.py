"""How generated code reads values: a source becomes a C variable, read once per function."""

from __future__ import annotations

import builtins
import contextlib
import re
from collections.abc import Callable
from typing import Any, ClassVar

from ..errors import Unsupported
from ..ir import recipe as r
from ..ir.kinds import RootKind, StepKind
from ..ir.source import Source
from .writer import Lines, Tables

#: Statements that read the last step of a source: (reader, name of the variable, base, source, statement that leaves).
Read = Callable[[Any, str, str, Source, str], None]


class Reader:
    """Reads sources inside one generated function. `fail()` gives the statement that leaves the function when a value
    cannot be read; borrowed references stay valid because each is reached through an object that is kept alive by the
    call, by `obj`, or by `hold`."""

    def __init__(
        self, out: Lines, tables: Tables, arguments: tuple[Any, ...], free: tuple[Any, ...], fail: Any
    ) -> None:
        self.out, self.tables, self.fail = out, tables, fail
        self.arguments, self.free = arguments, free
        self.declared: list[str] = []
        self.known: dict[tuple[Any, ...], str] = {}
        self.tensors: dict[tuple[Any, ...], str] = {}
        self.ints: dict[tuple[Any, ...], str] = {}
        self.floats: dict[tuple[Any, ...], str] = {}
        self.finite: set[tuple[Any, ...]] = set()  # sources that a guard has found to be finite floats
        self.held = 0

    @contextlib.contextmanager
    def scope(self) -> Any:
        """What is read in a block that may be left early, or not be entered, is not known behind it."""
        before = dict(self.known), dict(self.tensors), dict(self.ints), dict(self.floats)
        yield
        self.known, self.tensors, self.ints, self.floats = before

    # -- objects ---------------------------------------------------------------------------------------------------
    def object(self, source: Source) -> str:
        name = self.known.get(source.key)
        if name is not None:
            return name
        if source.steps:
            base = self.object(Source(source.root, source.steps[:-1]))
            name = self._step(base, source)
        else:
            name = self._root(source)
        self.known[source.key] = name
        return name

    def _root(self, source: Source) -> str:
        kind = source.root[0]
        if kind == RootKind.OBJECT:
            return self.tables.object(source.root[1])
        if kind == RootKind.GLOBAL:
            name = self._new("PyObject*", "globals")
            self.out(f"{name} = PyFunction_GetGlobals(c.func)")
            return name
        if kind != RootKind.LOCAL:
            raise Unsupported("source", str(source))
        local = source.root[1]
        if local in self.arguments:
            name = self._new("PyObject*", local)
            self.out(f"{name} = c.locals[{self.arguments.index(local)}]")
        elif local in self.free:
            name = self._new("PyObject*", local)
            self.out(f"{name} = PyCell_GET(PyTuple_GET_ITEM(PyFunction_GetClosure(c.func), {self.free.index(local)}))")
        else:
            raise Unsupported("source", f"the local {local!r} is neither an argument nor a free variable")
        self.out(f"if {name} == NULL: {self.fail()}")
        return name

    def _step(self, base: str, source: Source) -> str:
        """The last step of `source`, from `base` on."""
        step, key = source.steps[-1]
        name, fail = self._new("PyObject*", _hint(key) or step), self.fail()
        read = self.reads[step]
        if read is None:
            raise Unsupported("source", f"{step} in {source}")
        read(self, name, base, source, fail)
        return name

    def _attr(self, name: str, base: str, source: Source, fail: str) -> None:
        hold = self._hold()
        self.out(f"if rt.attr_find({base}, {self._key(source)}, &{hold}) != 1: {self._clear(fail)}")
        self.out(f"{name} = {hold}")

    def _stored_attr(self, name: str, base: str, source: Source, fail: str) -> None:
        self.out(f"{name} = rt.attr_stored({base}, {self._key(source)})")
        self.out(f"if {name} == NULL: {fail}")

    def _dict(self, name: str, base: str, source: Source, fail: str) -> None:
        self.out(f"{name} = rt.dict_of({base})")
        self.out(f"if {name} == NULL: {fail}")

    def _space(self, name: str, base: str, source: Source, fail: str) -> None:
        self.out(f"{name} = rt.space_of({base})")

    def _dict_item(self, name: str, base: str, source: Source, fail: str) -> None:
        self.out(f"if not PyDict_Check({base}): {fail}")
        self.out(f"{name} = PyDict_GetItemWithError({base}, {self._key(source)})")
        self.out(f"if {name} == NULL: {self._clear(fail)}")

    def _sequence_item(self, name: str, base: str, source: Source, fail: str) -> None:
        step, key = source.steps[-1]
        kind = "PyTuple" if step == StepKind.TUPLE_ITEM else "PyList"
        if not isinstance(key, int) or key < 0:
            raise Unsupported("source", str(source))
        self.out(f"if not {kind}_Check({base}) or {kind}_GET_SIZE({base}) <= {key}: {fail}")
        self.out(f"{name} = {kind}_GET_ITEM({base}, {key})")

    def _type(self, name: str, base: str, source: Source, fail: str) -> None:
        self.out(f"{name} = <PyObject*>Py_TYPE({base})")

    def _mro(self, name: str, base: str, source: Source, fail: str) -> None:
        self.out(f"{name} = (<PyTypeObject*>{base}).tp_mro")
        self.out(f"if {name} == NULL: {fail}")

    def _of_function(self, name: str, base: str, source: Source, fail: str) -> None:
        self.out(f"if not PyFunction_Check({base}): {fail}")
        self.out(f"{name} = PyFunction_Get{_GETTERS[source.steps[-1][0]]}({base})")
        self.out(f"if {name} == NULL: {name} = Py_None")

    def _called(self, name: str, base: str, source: Source, fail: str) -> None:
        hold, step = self._hold(), source.steps[-1][0]
        argument = "" if step == StepKind.CALL else self._key(source)
        self.out(f"{name} = {hold} = {_CALLS[step].format(base, argument)}")
        self.out(f"if {name} == NULL: {self._clear(fail)}")

    def _dict_at(self, name: str, base: str, source: Source, fail: str) -> None:
        step, index = source.steps[-1]
        position, key, value = self._new("Py_ssize_t", "pos"), self._new("PyObject*", "k"), self._new("PyObject*", "v")
        self.out(f"if not PyDict_Check({base}) or PyDict_Size({base}) <= {index}: {fail}")
        self.out(f"{position} = 0")
        for _ in range(index + 1):
            self.out(f"PyDict_Next({base}, &{position}, &{key}, &{value})")
        self.out(f"{name} = {key if step == StepKind.DICT_KEY_AT else value}")

    def _key(self, source: Source) -> str:
        return self.tables.object(source.steps[-1][1])

    #: How each kind of step is read; a reader that cannot read some has a table of its own.
    reads: ClassVar[dict[StepKind, Read | None]] = {
        StepKind.ATTR: _attr,
        StepKind.GENERIC_DICT: _dict,
        StepKind.SPACE: _space,
        StepKind.DICT_ITEM: _dict_item,
        StepKind.TUPLE_ITEM: _sequence_item,
        StepKind.LIST_ITEM: _sequence_item,
        StepKind.TYPE: _type,
        StepKind.TYPE_DICT: _dict,
        StepKind.TYPE_MRO: _mro,
        StepKind.CODE: _of_function,
        StepKind.CLOSURE: _of_function,
        StepKind.DEFAULTS: _of_function,
        StepKind.KWDEFAULTS: _of_function,
        StepKind.DICT_KEY_AT: _dict_at,
        StepKind.DICT_VALUE_AT: _dict_at,
        StepKind.ITEM: _called,
        StepKind.CALL: _called,
        StepKind.APPLY: _called,
    }

    # -- tensors and ints ------------------------------------------------------------------------------------------
    def tensor(self, source: Source) -> str:
        """Name of a tdh_tensor that holds the read of the tensor at `source`. The type must have been guarded."""
        name = self.tensors.get(source.key)
        if name is None:
            value = self.object(source)
            name = self.tensors[source.key] = self._new("tdh_tensor", "t_" + value.split("[")[0])
            self.out(f"if rt.tensor_read({value}, &{name}) != 0: {self.fail()}")
        return name

    def int(self, source: Source) -> str:
        name = self.ints.get(source.key)
        if name is None:
            value = self.object(source)
            name = self.ints[source.key] = self._new("int64_t", "i_" + value.split("[")[0])
            self.out(f"if not tdh_int_read({value}, &{name}): {self.fail()}")
        return name

    def float(self, source: Source) -> str:
        """A float that was traced as a symbol, which is finite."""
        if source.key not in self.finite:
            raise Unsupported("float", f"no guard asks whether {source} is finite")
        name = self.floats.get(source.key)
        if name is None:
            value = self.object(source)
            name = self.floats[source.key] = self._new("double", "d_" + value.split("[")[0])
            self.out(f"{name} = PyFloat_AS_DOUBLE({value})")
        return name

    # -- recipe expressions ----------------------------------------------------------------------------------------
    def source_of(self, expr: Any) -> Source | None:
        """The source that a recipe expression reads, if it is a path; items are matched with what guards read."""
        if isinstance(expr, r.Arg):
            return Source((RootKind.LOCAL, expr.name), (), expr.name)
        if isinstance(expr, r.Global):
            return Source((RootKind.GLOBAL,), ((StepKind.DICT_ITEM, expr.name),), expr.name)
        if isinstance(expr, r.Attr):
            base = self.source_of(expr.owner)
            return base and base.then(StepKind.ATTR, expr.name, str(expr))
        if isinstance(expr, r.Item) and isinstance(expr.key, r.Const):
            base = self.source_of(expr.container)
            if base is None:
                return None
            for step in (StepKind.TUPLE_ITEM, StepKind.LIST_ITEM, StepKind.DICT_ITEM):
                candidate = base.then(step, expr.key.value, str(expr))
                if candidate.key in self.known:
                    return candidate
            if isinstance(expr.key.value, str):  # a dict: the read checks that it is one
                return base.then(StepKind.DICT_ITEM, expr.key.value, str(expr))
        return None

    def value(self, expr: Any) -> str:
        """The object of a recipe expression that is a path. Raises Unsupported for another."""
        source = self.source_of(expr)
        if source is None:
            raise Unsupported("source", str(expr))
        return self.object(source)

    def array(self, length: builtins.int) -> str:
        """Name of a new array of objects."""
        name = f"ids_{len(self.declared)}"
        self.declared.append(f"PyObject* {name}[{length}]")
        return name

    # -- bookkeeping -----------------------------------------------------------------------------------------------
    def _hold(self) -> str:
        self.held += 1
        return f"hold[{self.held - 1}]"

    def _clear(self, fail: str) -> str:
        return f"PyErr_Clear(); {fail}"

    def _new(self, type_: str, hint: str) -> str:
        base = re.sub(r"\W", "_", hint)[:24] or "v"
        name, n = f"v_{base}", 1
        taken = {d.split()[-1] for d in self.declared}
        while name in taken:
            n += 1
            name = f"v_{base}_{n}"
        self.declared.append(f"{type_} {name}")
        return name


class StoredReader(Reader):
    """Reads what is stored only, from any call: no Python code runs, and nothing has to be held."""

    reads: ClassVar[dict[StepKind, Read | None]] = {
        **Reader.reads,
        StepKind.ATTR: Reader._stored_attr,
        StepKind.ITEM: None,
        StepKind.CALL: None,
        StepKind.APPLY: None,
    }


#: Functions of CPython's behind PyFunction_Get.
_GETTERS = {
    StepKind.CODE: "Code",
    StepKind.CLOSURE: "Closure",
    StepKind.DEFAULTS: "Defaults",
    StepKind.KWDEFAULTS: "KwDefaults",
}
#: Steps that run Python code, of the value {0} and the key {1}.
_CALLS = {
    StepKind.ITEM: "PyObject_GetItem({0}, {1})",
    StepKind.CALL: "PyObject_CallNoArgs({0})",
    StepKind.APPLY: "PyObject_CallOneArg({1}, {0})",
}


def _hint(key: Any) -> str:
    return key if isinstance(key, str) else ""
