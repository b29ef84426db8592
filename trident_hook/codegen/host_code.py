"""The host program as statements inside a one-pass `while True:` block: `break` leaves it with an error, and every
owned handle that is still set is released behind it."""

from __future__ import annotations

import builtins
import math
import struct
from typing import Any

from ..errors import Unsupported
from ..ir.kinds import CheckKind
from ..ir.program import (
    GRAD_MODE,
    Alloc,
    Check,
    ConstArg,
    HostProgram,
    IntArg,
    IntListArg,
    Launch,
    NumberArg,
    OpCall,
    Param,
    TensorArg,
    TensorListArg,
)
from . import intexpr
from .values import Reader
from .writer import identifier, literal, plain_text

_MAP = "unsigned char[128]"  # TDH_MAP_BYTES
_LEAVE = "status = TDH_BYPASS; break"  # before the first effect: the plain function runs instead
#: An exception before the first effect: the plain function raises it, and its handlers run. An interrupt is raised.
_RETREAT = "status = TDH_BYPASS if tdh_error_left() else TDH_ERROR; break"
_INT_TYPES = {"i1": "int8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "u1": "uint8_t",
              "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t"}  # fmt: skip
_INT_RANGES = {"i8": (-(2**7), 2**7 - 1), "i16": (-(2**15), 2**15 - 1), "i32": (-(2**31), 2**31 - 1),
               "u8": (0, 2**8 - 1), "u16": (0, 2**16 - 1), "u32": (0, 2**32 - 1), "u64": (0, 2**63 - 1)}  # fmt: skip


def _failed(op: Alloc | OpCall) -> str:
    return _RETREAT if op.may_leave else "break"


class HostWriter:
    def __init__(self, reader: Reader, program: HostProgram, torch_numbers: Any) -> None:
        self.reader, self.out, self.tables, self.program = reader, reader.out, reader.tables, program
        self.numbers = torch_numbers
        self.handles: dict[str, str] = {}  # tensor name -> C expression of its handle
        self.owned: list[str] = []  # C variables of owned handles
        self.pointers: dict[str, str] = {}  # tensor name -> C variable with its data pointer, read before any effect
        self.ints: dict[object, str] = {}  # expression -> C variable
        self.declared: list[str] = []
        self.max_params = self.max_ints = self.max_tensors = self.max_outs = 1
        self.maps: dict[Param, str] = {}  # of this launch: the variable that holds the tensor map
        self.late: list[Any] = []  # int expressions over what the program itself computes
        #: Of a launch (its index among the operations): conditions over such numbers, and what leaves the program where one fails.
        self.late_conditions: dict[int, list[tuple[Any, ...]]] = {}
        self.uses_launch = any(isinstance(op, Launch) for op in program.ops)
        self._last_use = self._liveness()

    # -- before the first effect -------------------------------------------------------------------------------------
    def bind_inputs(self) -> None:
        """Takes the graph's tensor inputs out of the call; misses where that fails."""
        for item in self.program.inputs:
            if item.meta is not None:
                source = self.reader.source_of(item.expr)
                if source is None:
                    raise Unsupported("graph-input", f"{item.name} = {item.expr}")
                self.handles[item.name] = f"{self.reader.tensor(source)}.impl"

    def bind_symbols(self) -> None:
        """One C variable per symbol and per int expression that the program uses; an overflow is a miss."""
        wanted: list[Any] = []
        late = {b.symbol for op in self.program.ops if isinstance(op, OpCall) for b in op.binds}
        for expr in self._int_expressions():
            (self.late if expr.free_symbols & late else wanted).append(expr)
        symbols = sorted({s for e in (*wanted, *self.late) for s in e.free_symbols} - late, key=str)
        for item in self.program.inputs:
            if item.meta is None and item.kind == "float":
                self.ints[item.symbol] = self._declare("double", f"s_{item.symbol}")
                self.out(f"{self.ints[item.symbol]} = {self._scalar_input(item)}")
        for symbol in symbols:
            place = self.program.symbols.get(symbol)
            if place is None:
                raise Unsupported("symbol", f"{symbol} is not bound by any input")
            name = self._declare("int64_t", f"s_{symbol}")
            self.out(f"{name} = {self._place(place)}")
            self.ints[symbol] = name
        for number, expr in enumerate(e for e in wanted if not e.is_Symbol):
            name = self._declare("int64_t", f"e_{number}")
            self.out(f"{name} = {intexpr.from_sympy(expr, self._symbol)}  # {plain_text(expr)}")
            self.ints[expr] = name
        if wanted:
            self.out(f"if ovf: {self.reader.fail()}")

    def preconditions(self, note: Any) -> None:
        """Of the launches: everything that is known before the first effect is checked here, as a miss. What depends on a number
        that the program itself reads is checked at the launch, see `_late_condition`.
        `note(text, what it is about)` opens a new guard number."""
        seen: set[str] = set()
        launches = [(index, op) for index, op in enumerate(self.program.ops) if isinstance(op, Launch)]
        for index, op in launches:
            if op.hooks is not None:
                self._require(note, seen, f"{op.kernel.name} has no pre-run hooks",
                              f"PyList_GET_SIZE({self.tables.object(op.hooks)}) == 0", (CheckKind.HOOKS, op.hooks))  # fmt: skip
            for relation, pairs in (("==", op.equal), ("!=", op.unequal)):
                for expr, value in pairs:
                    self._int_require(note, seen, index, expr, f"{op.kernel.name}: {expr} {relation} {value}",
                                      f"%s {relation} {literal(value)}")  # fmt: skip
            for param in op.params:
                if param.tensor and param.value in self._input_names():
                    if param.value not in self.pointers:
                        pointer = self.pointers[param.value] = self._declare("void*", f"p_{param.value}")
                        self.out(f"{pointer} = rt.data_ptr({self.handles[param.value]})")
                    if param.divisible is not None:
                        self._require(note, seen, f"{op.kernel.name}: {param.name} divisible by 16: {param.divisible}",
                                      _aligned(self.pointers[param.value], param), (CheckKind.POINTER, param))  # fmt: skip
                elif not (
                    param.tensor or param.value is None or isinstance(param.value, (int, float, bool, NumberArg))
                ):
                    self._int_precondition(note, seen, index, op, param)
        for index, op in launches:  # last: a call that lacks nothing else is one that may be learned without a build
            if op.keys:
                self._key_precondition(note, index, op)

    def _key_precondition(self, note: Any, index: int, op: Launch) -> None:
        # Those known today are no part of the source: the set grows.
        text = ", ".join(str(expr) for expr in op.keys)
        note(f"{op.kernel.name}: its tuner chose this config for ({text})", (CheckKind.KEY, op.keys))
        key = self._declare(f"int64_t[{len(op.keys)}]", "key")
        assert op.known is not None, "a launch whose config depends on keys"
        known = f"tdh_key_known({self.tables.object(op.known.packed)}, {key}, {len(op.keys)})"
        if any(expr in self.late for expr in op.keys):
            self._late_condition(index, lambda: self._filled(key, op.keys, known))
            return
        self._fill(key, op.keys)
        self.out(f"if not {known}: {self.reader.fail()}")

    def _filled(self, key: str, exprs: tuple[Any, ...], known: str) -> str:
        self._fill(key, exprs)
        return known

    def _fill(self, array: str, numbers: Any) -> None:
        for index, number in enumerate(numbers):
            self.out(f"{array}[{index}] = {self.int(number)}")

    def _int_precondition(self, note: Any, seen: Any, index: int, op: Launch, param: Param) -> None:
        # A u64 by value is at least 2^63, which no number that is read here can be: only an annotated one has a range.
        if param.type in _INT_RANGES and (param.declared or param.type != "u64"):
            low, high = _INT_RANGES[param.type]
            self._int_require(note, seen, index, param.value, f"{op.kernel.name}: {param.name} fits {param.type}",
                              f"{literal(low)} <= %s <= {literal(high)}")  # fmt: skip
        elif param.type in ("i64", "fp32", "fp64") and param.declared:
            pass
        elif param.type == "i64":
            self._int_require(note, seen, index, param.value, f"{op.kernel.name}: {param.name} needs 64 bits",
                              f"%s < {literal(-(2**31))} or %s > {literal(2**31 - 1)}")  # fmt: skip
        else:
            raise Unsupported("launch", f"symbolic argument {param.name!r} of type {param.type}")
        if param.divisible is not None:
            self._int_require(note, seen, index, param.value,
                              f"{op.kernel.name}: {param.name} divisible by 16: {param.divisible}",
                              f"(%s & 15 == 0) == {int(bool(param.divisible))}")  # fmt: skip

    def _int_require(self, note: Any, seen: set[Any], index: int, expr: Any, text: str, condition: str) -> None:
        """`condition` has %s where the number stands."""
        if expr not in self.late:
            self._require(note, seen, text, condition.replace("%s", self.int(expr)), (CheckKind.INT, expr))
        else:
            note(text, (CheckKind.INT, expr))
            self._late_condition(index, lambda: condition.replace("%s", self.int(expr)))

    def _late_condition(self, index: int, write: Any) -> None:
        """`write()` gives the condition once its numbers are known, which is before the launch. Where nothing was changed until
        then, a call that fails it is a miss like any other; behind an effect, Triton's own launcher makes the launch."""
        self.late_conditions.setdefault(index, []).append((write, self.reader.fail().removeprefix("return ")))

    def _require(self, note: Any, seen: set[Any], text: str, condition: str, about: tuple[Any, ...]) -> None:
        if condition not in seen:
            seen.add(condition)
            note(text, about)
            self.out(f"if not ({condition}): {self.reader.fail()}")

    # -- the program ---------------------------------------------------------------------------------------------------
    def write(self) -> None:
        first = next((i for i, op in enumerate(self.program.ops) if _sets_grad_mode(op)), len(self.program.ops))
        self._write(0, first)
        if first < len(self.program.ops):
            self._write_restoring(first)

    def _write(self, begin: int, end: int) -> None:
        for index in range(begin, end):
            op = self.program.ops[index]
            self.out.comment(str(op))
            if isinstance(op, Alloc):
                self._alloc(op)
            elif isinstance(op, OpCall):
                self._call(op)
            elif isinstance(op, Check):
                self.out(f"if not ({intexpr.from_sympy(op.condition, self._symbol)}) or ovf: {_LEAVE}")
            else:
                self._launch(index, op)
            self._release_dead(index)

    def _write_restoring(self, first: int) -> None:
        """The rest of the program, which changes the grad mode: an error on the way puts it back, as leaving
        `with torch.no_grad()` does."""
        done = self._declare("int", "done")
        before = self.program.ops[first].args[-1].value
        self.out(f"{done} = 0")
        with self.out.block("while True:"):
            self._write(first, len(self.program.ops))
            self.out(f"{done} = 1")
            self.out("break")
        site = self.tables.site(*GRAD_MODE, (("c", before), ("c", before)), 0)
        self.out(f"if not {done}: rt.op_call({site}, a, n, NULL, outs, NULL, NULL); break")

    def _alloc(self, op: Alloc) -> None:
        meta = op.meta
        handle = self._own(op.out)
        for index, number in enumerate((*meta.sizes, *meta.strides)):
            self.out(f"n[{index}] = {self.int(number)}")
        rank = len(meta.sizes)
        self.max_ints = max(self.max_ints, 2 * rank)
        index = -1 if meta.device_index is None else meta.device_index
        self.out(f"{handle} = rt.empty_strided({rank}, n, n + {rank}, {self.numbers.scalar_type(meta.dtype)}, "
                 f"{self.numbers.device_type(meta.device_type)}, {index})  # {plain_text(meta.dtype)}")  # fmt: skip
        self.out(f"if {handle} == NULL: {_failed(op)}")

    def _call(self, op: OpCall) -> None:
        template: list[tuple[Any, ...]] = []
        tensors: list[str] = []
        ints: list[Any] = []
        floats: list[Any] = []

        def int_slot(value: Any) -> tuple[Any, ...]:
            ints.append(value)
            return ("i", len(ints) - 1)

        for arg in op.args:
            if isinstance(arg, TensorArg):
                tensors.append(self.handles[arg.name])
                template.append(("t", len(tensors) - 1))
            elif isinstance(arg, IntArg):
                template.append(("c", arg.value) if isinstance(arg.value, int) else int_slot(arg.value))
            elif isinstance(arg, IntListArg):
                items = [("c", v) if isinstance(v, int) else int_slot(v) for v in arg.values]
                template.append(("il", items))
            elif isinstance(arg, NumberArg):
                numbers, tag = (floats, "d") if arg.kind == "float" else (ints, "b")
                numbers.append(arg.symbol)
                template.append((tag, len(numbers) - 1))
            elif isinstance(arg, TensorListArg):
                slots: list[builtins.int | None] = []
                for name in arg.names:
                    slots.append(None if name is None else len(tensors))
                    if name is not None:
                        tensors.append(self.handles[name])
                template.append(("tl", slots))
            else:
                template.append(("c", arg.value))
        self.max_tensors, self.max_ints = max(self.max_tensors, len(tensors)), max(self.max_ints, len(ints))
        self.max_outs = max(self.max_outs, len(op.outs))
        for index, handle in enumerate(tensors):
            self.out(f"a[{index}] = {handle}")
        for index, value in enumerate(ints):
            self.out(f"n[{index}] = {self.int(value)}")
        site = self.tables.site(op.op, op.overload, tuple(template), len(op.outs))
        doubles = self._declare(f"double[{len(floats)}]", "in_d") if floats else "NULL"
        for index, symbol in enumerate(floats):
            self.out(f"{doubles}[{index}] = {self.ints[symbol]}")
        results = self._number_results(op)
        self.out(f"if rt.op_call({site}, a, n, {doubles}, outs, {', '.join(results)}) != 0: {_failed(op)}")
        for index, name in enumerate(op.outs):
            if name in self._last_use or name in self._output_names():
                self.out(f"{self._own(name)} = outs[{index}]")
            else:
                self.out(f"rt.release(outs[{index}])")
        if op.binds:
            self._bind_late(op, *results)

    def _number_results(self, op: OpCall) -> tuple[str, str]:
        """Where results go that are no tensors."""
        count = len(op.number_outs)
        if not count:
            return "NULL", "NULL"
        return self._declare(f"int64_t[{count}]", "out_n"), self._declare(f"double[{count}]", "out_d")

    def _bind_late(self, op: OpCall, ints: str, doubles: str) -> None:
        """Numbers and sizes that the operation gave, and the expressions that can be computed now."""
        for bound in op.binds:
            type_ = "double" if bound.kind == "float" else "int64_t"
            name = self.ints[bound.symbol] = self._declare(type_, f"s_{bound.symbol}")
            if bound.kind == "size":
                tensor = self._declare("tdh_tensor", f"t_{op.outs[bound.index]}")
                self.out(f"if rt.handle_read({self.handles[op.outs[bound.index]]}, &{tensor}) != 0: {_LEAVE}")
                self.out(f"{name} = {tensor}.sizes[{bound.dim}]")
            else:
                self.out(f"{name} = {doubles if bound.kind == 'float' else ints}[0]")
        ready = [e for e in self.late if e not in self.ints and all(s in self.ints for s in e.free_symbols)]
        for expr in ready:
            name = self.ints[expr] = self._declare("int64_t", "e_late")
            self.out(f"{name} = {intexpr.from_sympy(expr, self._symbol)}  # {plain_text(expr)}")
        if ready:
            self.out(f"if ovf: {_LEAVE}")

    def _launch(self, index: int, op: Launch) -> None:
        kernel = self.tables.kernel(op.kernel)
        late = []  # alignment of tensors that the program itself made, numbers that it read
        for write, missed in self.late_conditions.get(index, ()):
            condition = f"({write()})"
            if op.may_miss:
                self.out(f"if not {condition}: status = {missed}; break")
            else:
                late.append(condition)
        for param in op.params:
            if param.tensor and param.value not in self.pointers:
                pointer = self.pointers[param.value] = self._declare("void*", f"p_{param.value}")
                self.out(f"{pointer} = rt.data_ptr({self.handles[param.value]})")
            if param.tensor and param.divisible is not None and param.value not in self._input_names():
                late.append(_aligned(self.pointers[param.value], param))
        late += [self._tensor_map(param) for param in op.params if param.map is not None]
        count = 0
        for param in op.params:
            self.out(f"params[{count}] = {self._param(param)}")
            count += 1
        scratch = self._declare("uintptr_t[2]", "scratch") if op.kernel.wants_scratch else None
        for kind, what in enumerate(("global", "profile")):
            self.out(f"params[{count + kind}] = {f'&{scratch}[{kind}]' if scratch else '&zero8'}  # {what} scratch")
        self.max_params = max(self.max_params, count + 2)
        grid = ", ".join(self.int(g) for g in op.grid)
        call = f"rt.launch(&{kernel}, &env, {grid}, params)"
        if scratch:
            call = f"rt.launch_scratch(&{kernel}, &env, {grid}, params, <void**>{scratch})"
        if late:
            self.out(f"status = {call} if {' and '.join(dict.fromkeys(late))} else 1")
        else:
            self.out(f"status = {call}")
        self.out("if status < 0: status = TDH_ERROR; break")
        with self.out.block("if status == 1:  # not this binary's launch: Triton's own launcher"):
            tensors = [self.handles[name] for name in op.fallback_tensors]
            for index, handle in enumerate(tensors):
                self.out(f"a[{index}] = {handle}")
            for index, value in enumerate(op.fallback_ints):
                is_float = isinstance(value, NumberArg)  # by its bits: see PythonLauncher
                self.out(
                    f"n[{index}] = {f'<int64_t>tdh_double_bits({self.int(value)})' if is_float else self.int(value)}"
                )
            self.max_tensors = max(self.max_tensors, len(tensors))
            self.max_ints = max(self.max_ints, len(op.fallback_ints))
            self.out("status = TDH_ERROR")
            self.out(f"if rt.launch_python({self.tables.object(op.fallback)}, a, {len(tensors)}, n, "
                     f"{len(op.fallback_ints)}) != 0: break")  # fmt: skip
        self.out("status = TDH_ERROR")

    def _tensor_map(self, param: Param) -> str:
        """The condition that the parameter's tensor map was made."""
        wanted, made = self._declare("tdh_tensor_map", f"m_{param.name}"), self._declare(_MAP, f"map_{param.name}")
        self.maps[param] = made
        shape = param.map
        assert shape is not None, "a parameter that a tensor map describes"
        self.out(f"{wanted}.address = {self.pointers[param.value]}")
        for field, values in (("sizes", shape.sizes), ("strides", shape.strides), ("box", shape.box)):
            for index, value in enumerate(values):
                self.out(f"{wanted}.{field}[{index}] = {self.int(value)}")
        for field in ("data_type", "swizzle", "element_size", "nan_fill"):
            self.out(f"{wanted}.{field} = {int(getattr(shape, field))}")
        self.out(f"{wanted}.rank = {len(shape.sizes)}")
        return f"rt.tensor_map(&{wanted}, {made}) == 0"

    def _param(self, param: Param) -> str:
        """Address of the parameter's value."""
        if param.map is not None:
            return self.maps[param]
        if param.tensor:
            return f"&{self.pointers[param.value]}"
        value = param.value
        if value is None:
            return "&zero8"
        if isinstance(value, (bool, int)) and param.type in _INT_TYPES:
            name = self._declare(_INT_TYPES[param.type], f"k_{param.name}")
            self.out(f"{name} = {_constant(int(value))}")
            return f"&{name}"
        if isinstance(value, (float, int)) and param.type in ("fp32", "fp64", "fp16", "bf16"):
            c_type, bits = _float_bits(param.type, float(value))
            name = self._declare(c_type, f"k_{param.name}")
            self.out(f"{name} = {bits:#x}  # {plain_text(f'{value!r} as {param.type}')}")
            return f"&{name}"
        if param.type in _INT_TYPES:
            name = self._declare(_INT_TYPES[param.type], f"k_{param.name}")
            self.out(f"{name} = <{_INT_TYPES[param.type]}>{self.int(value)}")
            return f"&{name}"
        if param.type in ("fp32", "fp64"):  # through a double, as Triton converts it
            c_type = {"fp32": "float", "fp64": "double"}[param.type]
            name = self._declare(c_type, f"k_{param.name}")
            self.out(f"{name} = <{c_type}><double>{self.int(value)}")
            return f"&{name}"
        raise Unsupported("launch", f"parameter {param.name!r} of type {param.type} given {type(value).__name__}")

    # -- helpers -------------------------------------------------------------------------------------------------------
    def int(self, expr: Any) -> str:
        """C expression of an int, or of a number that was read."""
        if isinstance(expr, NumberArg):
            return self.ints[expr.symbol]
        return literal(expr) if isinstance(expr, int) else self.ints[expr]

    def _symbol(self, symbol: Any) -> str:
        return self.ints[symbol]

    def _place(self, place: tuple[Any, ...]) -> str:
        kind, index, dim = place
        item = self.program.inputs[index]
        if kind == "input":
            return self._scalar_input(item)
        field = {"size": "sizes", "stride": "strides"}[kind]
        return f"{self.handles[item.name].removesuffix('.impl')}.{field}[{dim}]"

    def _scalar_input(self, item: Any) -> str:
        from ..ir import recipe as r

        expr = item.expr
        if isinstance(expr, (r.SizeOf, r.StrideOf, r.OffsetOf)):
            source = self.reader.source_of(expr.tensor)
            if source is not None:
                tensor = self.reader.tensor(source)
                if isinstance(expr, r.OffsetOf):
                    return f"{tensor}.storage_offset"
                return f"{tensor}.{'sizes' if isinstance(expr, r.SizeOf) else 'strides'}[{expr.dim}]"
        source = self.reader.source_of(expr)
        if source is None:
            raise Unsupported("graph-input", f"{item.name} = {expr}")
        return self.reader.float(source) if item.kind == "float" else self.reader.int(source)

    def _int_expressions(self) -> list[Any]:
        found = []
        for op in self.program.ops:
            if isinstance(op, Alloc):
                found += [*op.meta.sizes, *op.meta.strides]
            elif isinstance(op, OpCall):
                for arg in op.args:
                    if isinstance(arg, IntArg):
                        found.append(arg.value)
                    elif isinstance(arg, IntListArg):
                        found += arg.values
            elif isinstance(op, Launch):
                found += [*op.grid, *op.fallback_ints, *(e for e, _ in (*op.equal, *op.unequal)), *op.keys]
                found += [p.value for p in op.params if not p.tensor]
            elif isinstance(op, Check):  # its symbols; the relation itself is no int
                found += sorted(op.condition.free_symbols, key=str)
        found += [o for o in self.program.outputs if not isinstance(o, (str, ConstArg, NumberArg))]
        unique: dict[Any, Any] = {}
        for item in found:
            if not isinstance(item, (int, float, bool, str, NumberArg)) and item is not None:
                unique.setdefault(item, item)
        return list(unique)

    def _liveness(self) -> dict[str, builtins.int]:
        last: dict[str, builtins.int] = {}
        for index, op in enumerate(self.program.ops):
            for name in op.reads():
                last[name] = index
            for bound in getattr(op, "binds", ()):
                if bound.kind == "size":
                    last.setdefault(op.outs[bound.index], index)
        return last

    def _release_dead(self, index: builtins.int) -> None:
        outputs = self._output_names()
        for name, handle in list(self.handles.items()):
            if handle in self.owned and self._last_use.get(name, -1) == index and name not in outputs:
                self.out(f"rt.release({handle})")
                self.out(f"{handle} = NULL")

    def _output_names(self) -> set[str]:
        return {o for o in self.program.outputs if isinstance(o, str)}

    def _input_names(self) -> set[str]:
        return {i.name for i in self.program.inputs}

    def _own(self, name: str) -> str:
        handle = self._declare("void*", f"h_{name}")
        self.handles[name] = handle
        self.owned.append(handle)
        return handle

    def _declare(self, type_: str, name: str) -> str:
        taken = {d.split()[-1] for d in self.declared}
        name = identifier(name)
        unique, n = name, 1
        while unique in taken:
            n += 1
            unique = f"{name}_{n}"
        self.declared.append(f"{type_} {unique}")
        return unique


def _aligned(pointer: str, param: Param) -> str:
    return f"((<uintptr_t>{pointer}) & 15 == 0) == {int(bool(param.divisible))}"


def _constant(value: int) -> str:
    return f"{value:#x}ULL" if value >= 2**63 else literal(value)


def _sets_grad_mode(op: Any) -> bool:
    return isinstance(op, OpCall) and (op.op, op.overload) == GRAD_MODE


def _float_bits(type_: str, value: float) -> tuple[str, int]:
    """Bits of a float parameter as Triton's launcher passes it. bf16 is the upper half of the fp32 value, cut off."""
    if type_ == "fp64":
        return "uint64_t", struct.unpack("<Q", struct.pack("<d", value))[0]
    if type_ == "fp16":
        try:
            return "uint16_t", struct.unpack("<H", struct.pack("<e", value))[0]
        except OverflowError:
            raise Unsupported("launch", f"{value} does not fit fp16") from None
    try:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:  # too large: infinity, as in C
        bits = struct.unpack("<I", struct.pack("<f", math.copysign(math.inf, value)))[0]
    return ("uint32_t", bits) if type_ == "fp32" else ("uint16_t", bits >> 16)
