"""The return recipe as statements: builds `*result` from the graph's outputs, after the recipe's effects.

Runs inside the host program's `while True:` block. Every object made here is an owned reference in `r[...]` until it
is stored into a container or becomes the result; what is left is dropped behind the block."""

from __future__ import annotations

from typing import Any

from ..errors import Unsupported
from ..ir import recipe as r
from ..ir.program import ConstArg, NumberArg
from .host_code import HostWriter
from .values import Reader


class ReturnWriter:
    def __init__(self, reader: Reader, host: HostWriter) -> None:
        self.reader, self.host, self.out, self.tables = reader, host, reader.out, reader.tables
        self.slots = 0
        self._made: dict[object, str] = {}

    def write(self, recipe: r.ReturnRecipe) -> None:
        for effect in recipe.effects:
            self._effect(effect)
        value = self._new(recipe.result)
        self.out(f"result[0] = {value}")
        if value.startswith("r["):
            self.out(f"{value} = NULL")
        else:
            self.out(f"Py_INCREF({value})")
        self.out("status = TDH_HIT")

    # -- effects -----------------------------------------------------------------------------------------------------
    def _effect(self, effect: Any) -> None:
        self.out.comment(str(effect))
        if isinstance(effect, r.Evaluate):
            self._new(effect.expr)
            return
        if isinstance(effect, r.SetItem):
            call = (
                f"PyObject_SetItem({self._new(effect.container)}, {self._new(effect.key)}, {self._new(effect.value)})"
            )
        elif isinstance(effect, r.DelItem):
            call = f"PyObject_DelItem({self._new(effect.container)}, {self._new(effect.key)})"
        elif isinstance(effect, r.SetAttr):
            owner, value = self._new(effect.owner), self._new(effect.value)
            call = f"PyObject_SetAttr({owner}, {self.tables.object(effect.name)}, {value})"
        elif isinstance(effect, r.SetGlobal):
            value = self._new(effect.value)
            call = f"PyDict_SetItem(PyFunction_GetGlobals(c.func), {self.tables.object(effect.name)}, {value})"
        else:
            raise Unsupported("effect", str(effect))
        self.out(f"if {call} < 0: break")

    # -- values ------------------------------------------------------------------------------------------------------
    def _new(self, expr: Any) -> str:
        """C expression of the expression's object: an owned slot `r[i]`, or a borrowed reference."""
        if isinstance(expr, r.Const):
            return self._constant(expr.value)
        key: Any = ("out", expr.index) if isinstance(expr, r.Out) else id(expr)
        if isinstance(expr, r.Out):
            name = self.host.program.outputs[expr.index]
            key = ("tensor", name) if isinstance(name, str) else key
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._make(expr)
        return made

    def _constant(self, value: Any) -> str:
        singletons = {None: "Py_None", True: "Py_True", False: "Py_False"}
        if value is None or value is True or value is False:
            return singletons[value]
        return self.tables.object(value)

    def _make(self, expr: Any) -> str:
        if isinstance(expr, r.Arg):
            return self.reader.value(expr)
        if isinstance(expr, r.Global):
            return self._global(expr.name)
        if isinstance(expr, r.Out):
            return self._output(self.host.program.outputs[expr.index])
        if isinstance(expr, (r.Tuple, r.List)):
            return self._sequence(expr, "PyTuple" if isinstance(expr, r.Tuple) else "PyList")
        if isinstance(expr, r.Dict):
            pairs = [(self._new(k), self._new(v)) for k, v in expr.pairs]
            slot = self._slot("PyDict_New()")
            for key, value in pairs:
                self.out(f"if PyDict_SetItem({slot}, {key}, {value}) < 0: break")
            return slot
        if isinstance(expr, r.Set):
            items = [self._new(i) for i in expr.items]
            slot = self._slot("PySet_New(NULL)")
            for item in items:
                self.out(f"if PySet_Add({slot}, {item}) < 0: break")
            return slot
        if isinstance(expr, r.Slice):
            parts = [self._new(p) for p in expr.parts] + ["NULL"] * (3 - len(expr.parts))
            return self._slot(f"PySlice_New({', '.join(parts)})")
        if isinstance(expr, r.Size):
            import torch

            made = self._sequence(expr, "PyTuple")
            return self._slot(f"PyObject_CallOneArg({self.tables.object(torch.Size)}, {made})")
        if isinstance(expr, (r.SizeOf, r.StrideOf, r.OffsetOf)):
            return self._tensor_number(expr)
        if isinstance(expr, r.Attr):
            owner = self._new(expr.owner)
            return self._slot(f"PyObject_GetAttr({owner}, {self.tables.object(expr.name)})")
        if isinstance(expr, r.Item):
            container, key = self._new(expr.container), self._new(expr.key)
            return self._slot(f"PyObject_GetItem({container}, {key})")
        if isinstance(expr, r.Call):
            return self._call(expr)
        raise Unsupported("return-value", f"{type(expr).__name__}: {expr}")

    def _output(self, output: Any) -> str:
        if isinstance(output, ConstArg):
            return self._constant(output.value)
        if isinstance(output, NumberArg):
            number = self.host.ints[output.symbol]
            if output.kind == "float":
                return self._slot(f"PyFloat_FromDouble({number})")
            return self._slot(f"PyBool_FromLong({number})")
        if not isinstance(output, str):
            return self._slot(f"PyLong_FromLongLong({self.host.int(output)})")
        handle = self.host.handles[output]
        if handle in self.host.owned:
            slot = self._slot(f"rt.wrap({handle})", check=False)
            self.out(f"{handle} = NULL")
        else:
            self.out(f"rt.retain({handle})")
            slot = self._slot(f"rt.wrap({handle})", check=False)
        self.out(f"if {slot} == NULL: break")
        return slot

    def _global(self, name: str) -> str:
        """Looked up now, as the function's own code would: globals, then builtins."""
        slot, key = (
            self._slot(f"PyDict_GetItemWithError(PyFunction_GetGlobals(c.func), {self.tables.object(name)})", False),
            name,
        )
        import builtins

        with self.out.block(f"if {slot} == NULL and PyErr_Occurred() == NULL:"):
            self.out(
                f"{slot} = PyDict_GetItemWithError({self.tables.object(vars(builtins))}, {self.tables.object(key)})"
            )
        self.out(f"if {slot} == NULL: break")
        self.out(f"Py_INCREF({slot})")
        return slot

    def _sequence(self, expr: Any, kind: str) -> str:
        items = [self._new(item) for item in expr.items]
        slot = self._slot(f"{kind}_New({len(items)})")
        for index, item in enumerate(items):
            self.out(f"Py_INCREF({item})")
            self.out(f"{kind}_SET_ITEM({slot}, {index}, {item})")
        return slot

    def _tensor_number(self, expr: Any) -> str:
        source = self.reader.source_of(expr.tensor)
        if source is None or source.key not in self.reader.tensors:
            raise Unsupported("return-value", str(expr))
        tensor = self.reader.tensors[source.key]
        if isinstance(expr, r.OffsetOf):
            return self._slot(f"PyLong_FromLongLong({tensor}.storage_offset)")
        field = "sizes" if isinstance(expr, r.SizeOf) else "strides"
        return self._slot(f"PyLong_FromLongLong({tensor}.{field}[{expr.dim}])")

    def _call(self, expr: Any) -> str:
        function = self._new(expr.func)
        plain = len(expr.args) - len(expr.kwnames)
        args = self._sequence(r.Tuple(expr.args[:plain]), "PyTuple")
        keywords = "NULL"
        if expr.kwnames:
            pairs = tuple((r.Const(name), value) for name, value in zip(expr.kwnames, expr.args[plain:], strict=True))
            keywords = self._make(r.Dict(pairs))
        return self._slot(f"PyObject_Call({function}, {args}, {keywords})")

    def _slot(self, value: str, check: bool = True) -> str:
        slot = f"r[{self.slots}]"
        self.slots += 1
        self.out(f"{slot} = {value}")
        if check:
            self.out(f"if {slot} == NULL: break")
        return slot
