"""How generated code reads values: a source becomes a C variable, read once per function."""

from __future__ import annotations

import contextlib
import re

from ..errors import Unsupported
from ..ir import recipe as r
from ..ir.source import Source
from .writer import Lines, Tables


class Reader:
    """Reads sources inside one generated function. `fail()` gives the statement that leaves the function when a value
    cannot be read; borrowed references stay valid because each is reached through an object that is kept alive by the
    call, by `obj`, or by `hold`."""

    def __init__(self, out: Lines, tables: Tables, arguments: tuple, free: tuple, fail) -> None:
        self.out, self.tables, self.fail = out, tables, fail
        self.arguments, self.free = arguments, free
        self.declared: list[str] = []
        self.known: dict[tuple, str] = {}
        self.tensors: dict[tuple, str] = {}
        self.ints: dict[tuple, str] = {}
        self.floats: dict[tuple, str] = {}
        self.finite: set[tuple] = set()  # sources that a guard has found to be finite floats
        self.held = 0

    @contextlib.contextmanager
    def scope(self):
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
            name = self._step(base, *source.steps[-1], source)
        else:
            name = self._root(source)
        self.known[source.key] = name
        return name

    def _root(self, source: Source) -> str:
        kind = source.root[0]
        if kind == "object":
            return self.tables.object(source.root[1])
        if kind == "global":
            name = self._new("PyObject*", "globals")
            self.out(f"{name} = PyFunction_GetGlobals(c.func)")
            return name
        if kind != "local":
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

    def _step(self, base: str, step: str, key, source: Source) -> str:
        name = self._new("PyObject*", _hint(key) or step)
        out, fail = self.out, self.fail()
        if step == "attr":
            hold = self._hold()
            out(f"if rt.attr_find({base}, {self.tables.object(key)}, &{hold}) != 1: {self._clear(fail)}")
            out(f"{name} = {hold}")
        elif step in ("generic_dict", "type_dict"):
            out(f"{name} = rt.dict_of({base})")
            out(f"if {name} == NULL: {fail}")
        elif step == "space":
            out(f"{name} = rt.space_of({base})")
        elif step == "dict_item":
            out(f"if not PyDict_Check({base}): {fail}")
            out(f"{name} = PyDict_GetItemWithError({base}, {self.tables.object(key)})")
            out(f"if {name} == NULL: {self._clear(fail)}")
        elif step in ("tuple_item", "list_item"):
            kind = "PyTuple" if step == "tuple_item" else "PyList"
            if not isinstance(key, int) or key < 0:
                raise Unsupported("source", str(source))
            out(f"if not {kind}_Check({base}) or {kind}_GET_SIZE({base}) <= {key}: {fail}")
            out(f"{name} = {kind}_GET_ITEM({base}, {key})")
        elif step == "type":
            out(f"{name} = <PyObject*>Py_TYPE({base})")
        elif step == "type_mro":
            out(f"{name} = (<PyTypeObject*>{base}).tp_mro")
            out(f"if {name} == NULL: {fail}")
        elif step in ("code", "closure", "defaults", "kwdefaults"):
            getter = {"code": "Code", "closure": "Closure", "defaults": "Defaults", "kwdefaults": "KwDefaults"}[step]
            out(f"if not PyFunction_Check({base}): {fail}")
            out(f"{name} = PyFunction_Get{getter}({base})")
            out(f"if {name} == NULL: {name} = Py_None")
        elif step in ("item", "call", "apply"):
            hold = self._hold()
            call = {"item": "PyObject_GetItem({0}, {1})", "call": "PyObject_CallNoArgs({0})",
                    "apply": "PyObject_CallOneArg({1}, {0})"}[step]  # fmt: skip
            argument = "" if step == "call" else self.tables.object(key)
            out(f"{name} = {hold} = {call.format(base, argument)}")
            out(f"if {name} == NULL: {self._clear(fail)}")
        elif step in ("dict_key_at", "dict_value_at"):
            self._dict_at(name, base, step, key, fail)
        else:
            raise Unsupported("source", f"{step} in {source}")
        return name

    def _dict_at(self, name: str, base: str, step: str, index: int, fail: str) -> None:
        position, key, value = self._new("Py_ssize_t", "pos"), self._new("PyObject*", "k"), self._new("PyObject*", "v")
        self.out(f"if not PyDict_Check({base}) or PyDict_Size({base}) <= {index}: {fail}")
        self.out(f"{position} = 0")
        for _ in range(index + 1):
            self.out(f"PyDict_Next({base}, &{position}, &{key}, &{value})")
        self.out(f"{name} = {key if step == 'dict_key_at' else value}")

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
    def source_of(self, expr) -> Source | None:
        """The source that a recipe expression reads, if it is a path; items are matched with what guards read."""
        if isinstance(expr, r.Arg):
            return Source(("local", expr.name), (), expr.name)
        if isinstance(expr, r.Global):
            return Source(("global",), (("dict_item", expr.name),), expr.name)
        if isinstance(expr, r.Attr):
            base = self.source_of(expr.owner)
            return base and base.then("attr", expr.name, str(expr))
        if isinstance(expr, r.Item) and isinstance(expr.key, r.Const):
            base = self.source_of(expr.container)
            if base is None:
                return None
            for step in ("tuple_item", "list_item", "dict_item"):
                candidate = base.then(step, expr.key.value, str(expr))
                if candidate.key in self.known:
                    return candidate
            if isinstance(expr.key.value, str):  # a dict: the read checks that it is one
                return base.then("dict_item", expr.key.value, str(expr))
        return None

    def array(self, length: int) -> str:
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

    def _step(self, base: str, step: str, key, source: Source) -> str:
        if step != "attr":
            return super()._step(base, step, key, source)
        name = self._new("PyObject*", _hint(key) or step)
        self.out(f"{name} = rt.attr_stored({base}, {self.tables.object(key)})")
        self.out(f"if {name} == NULL: {self.fail()}")
        return name


def _hint(key) -> str:
    return key if isinstance(key, str) else ""
