"""From the normalised graph to a `HostProgram`: what is lowered natively, and what calls PyTorch's operator."""

from __future__ import annotations

import dataclasses
import operator

import torch

from ...errors import Unsupported
from ...ir.program import (
    GRAD_MODE,
    Alloc,
    ConstArg,
    HostProgram,
    Input,
    IntArg,
    IntListArg,
    NumberArg,
    OpCall,
    TensorArg,
    TensorListArg,
    TensorMeta,
)
from ...runtime.trusted_kernels import allocations_are_replaced
from . import failing, float_inputs, hook_nodes, launches
from .data_dependent import Numbers

#: Allocations whose result is fully described by the traced sizes, strides, dtype and device.
_ALLOCATIONS = {
    "aten::empty.memory_format",
    "aten::empty_strided",
    "aten::empty_like",
    "aten::new_empty",
    "aten::new_empty_strided",
}


#: Operators after which a data pointer that was read before no longer holds.
_MOVES_STORAGE = {
    "aten::resize_", "aten::resize_as_", "aten::set_", "aten::set_data", "aten::resize_as_sparse_", "aten::_resize_output_",
    "aten::swap_tensors", "inductor::resize_storage_bytes_", "fsdp::copy_",
}  # fmt: skip


class ProgramBuilder:
    """Builds the program of one normalised graph. `sites` maps launch nodes to their recorded sites."""

    def __init__(self, traced, recipe) -> None:
        self.traced, self.recipe = traced, recipe
        self.samples: dict[str, object] = {}
        self._is_trial = False
        self.symbols: dict = {}
        self.constants: dict = {}  # get_attr node -> its tensor, where every use only copies it
        self.floats: set = set()  # placeholders of float arguments that are symbols
        self.names: dict[str, str] = {}  # a further getitem of the same result -> the first one's name
        self.numbers = Numbers(traced.graph)

    def check(self, sites: dict) -> None:
        """Refuses what `build` would, before anything has run: all but the launches is built as it will be then."""
        self._is_trial = True
        self.build(sites, {})

    def build(self, sites: dict, samples: dict) -> HostProgram:
        """Raises Unsupported for what a specialization cannot have."""
        self.samples = samples
        inputs = self._inputs()
        self.numbers.given = self.symbols
        ops = []
        changed = False  # by an operation before
        for node in self.traced.graph.nodes:
            if not self._is_trial and hook_nodes.is_left_out(node, sites):
                continue
            if node.op == "call_function":
                op = self._op(node, sites)
                changed = changed or node in sites or failing.changes(node)
                if op is not None:
                    can_leave = isinstance(op, (Alloc, OpCall)) and not changed
                    ops.append(dataclasses.replace(op, may_leave=True) if can_leave else op)
                    ops += self.numbers.checks_of(op)
                self.numbers.passed(node, node in sites)
            elif node.op == "get_attr":
                op = self._constant(node)
                if op is not None:
                    ops.append(op)
            elif node.op not in ("placeholder", "output"):
                raise Unsupported("graph-node", f"{node.op} {node.target}")
        (returned,) = next(n for n in self.traced.graph.nodes if n.op == "output").args
        outputs = tuple(self._output(value) for value in returned)
        return HostProgram(tuple(inputs), tuple(ops), outputs, self.symbols)

    # -- inputs and symbols ----------------------------------------------------------------------------------------
    def _inputs(self) -> list[Input]:
        nodes = [n for n in self.traced.graph.nodes if n.op == "placeholder"]
        if len(nodes) != len(self.recipe.graph_args):
            raise Unsupported("graph-inputs", f"{len(nodes)} inputs, {len(self.recipe.graph_args)} arguments")
        inputs = []
        for index, (node, expr) in enumerate(zip(nodes, self.recipe.graph_args, strict=True)):
            value = node.meta.get("val")
            inner = float_inputs.argument_of(expr)
            if inner is not None:
                symbol = float_inputs.symbol_of(node)
                self.symbols[symbol] = ("input", index, 0)
                self.floats.add(node)
                inputs.append(Input(node.name, inner, None, symbol, "float"))
            elif isinstance(value, torch.Tensor):
                inputs.append(Input(node.name, expr, tensor_meta(value)))
            elif isinstance(value, torch.SymInt):
                symbol = value.node.expr
                if getattr(symbol, "is_Symbol", False):
                    self.symbols.setdefault(symbol, ("input", index, 0))
                inputs.append(Input(node.name, expr, None, symbol))
            else:
                raise Unsupported("graph-input", f"{node.name} is a {type(value).__name__}")
        for index, node in enumerate(nodes):
            value = node.meta["val"]
            if isinstance(value, torch.Tensor):
                for kind, numbers in (("size", value.size()), ("stride", value.stride())):
                    for dim, number in enumerate(numbers):
                        self._bind(number, (kind, index, dim))
        return inputs

    def _bind(self, number, place: tuple) -> None:
        if isinstance(number, torch.SymInt) and getattr(number.node.expr, "is_Symbol", False):
            self.symbols.setdefault(number.node.expr, place)

    # -- constants -------------------------------------------------------------------------------------------------
    def _constant(self, node) -> OpCall | None:
        """A tensor that tracing made out of Python numbers. Eager makes it anew in every call, so it is copied: by the
        graph itself (lift_fresh_copy), else here."""
        value = node.meta.get("constant")
        if not isinstance(value, torch.Tensor):
            raise Unsupported("graph-constant", f"the graph holds {node.target}, a {type(value).__name__}")
        if node.meta["captured"]:
            raise Unsupported("graph-constant", f"the graph holds {node.target}, a tensor of the program")
        if type(value) is not torch.Tensor or value.requires_grad or value.layout is not torch.strided:
            raise Unsupported("graph-constant", f"the graph holds {node.target}, which is no plain tensor")
        if all(user.target is torch.ops.aten.lift_fresh_copy.default for user in node.users):
            self.constants[node] = value
            return None
        same = [n for n in node.graph.nodes if n.op == "get_attr" and n.meta.get("constant") is value]
        if len(same) > 1:
            raise Unsupported("graph-constant", f"the graph reads {node.target} in several places")
        return OpCall(
            "aten::lift_fresh_copy", "", (ConstArg(value),), (node.name,), text=f"{node.name} = a copy of {node.target}"
        )

    # -- operations ------------------------------------------------------------------------------------------------
    def _op(self, node, sites: dict):
        if node in sites and self._is_trial:
            return self._try_launch(sites[node])
        if node in sites:
            launch = launches.launch_op(sites[node], self._settled, lambda n: self.samples[n.name])
            return dataclasses.replace(launch, may_miss=not self.numbers.has_effect)
        target = node.target
        if target is torch._C._set_grad_enabled:
            before = self.traced.meta["trident_hook_grad_mode"]
            return OpCall(*GRAD_MODE, (ConstArg(bool(node.args[0])), ConstArg(before)), (), text=_node_text(node))
        if isinstance(target, torch._ops.HigherOrderOperator):
            raise Unsupported("higher-order", f"{target.name()} holds functions of its own")
        if isinstance(target, torch._ops.OpOverload):
            if node.args and node.args[0] in self.floats:
                return None  # `symbol_of` has seen that it only reads the float
            if isinstance(node.meta.get("val"), (torch.SymInt, int)) and target.namespace == "aten" and not node.users:
                return None
            if target is torch.ops.aten._assert_scalar.default:
                return self.numbers.assertion(node)
            if target._schema.name in ("aten::sym_size", "aten::sym_stride", "aten::sym_numel"):
                return None
            if isinstance(node.meta.get("val"), torch.SymInt) and not self.numbers.binds(node):
                self.numbers.refuse_remembered(node)
                self._checked(node.meta["val"].node.expr)
                return None  # it only computed an int which the symbols of the capture already give
            name = target._schema.name + ("." + target._schema.overload_name if target._schema.overload_name else "")
            if name in _ALLOCATIONS and _plain_allocation(node):
                meta = tensor_meta(node.meta["val"], self._checked)
                return Alloc(node.name, meta, _node_text(node))
            return self._call(node, target)
        if _is_symbolic(node):
            return None  # arithmetic of sizes: every use reads the sympy expression of the node, or is refused
        if target is operator.getitem:
            return None
        raise Unsupported("graph-node", f"{getattr(target, '__name__', target)}")

    def _try_launch(self, site) -> None:
        """What a launch is given must be a tensor or a number that the program has."""
        for value in (*site.arguments.values(), *(dim for grid in site.grids for dim in grid)):
            if isinstance(value, torch.fx.Node):
                self._settled(value)

    def _call(self, node, overload) -> OpCall:
        schema = overload._schema
        if schema.name in _MOVES_STORAGE:
            raise Unsupported("operator", f"{schema.name} gives a tensor another storage")
        args = []
        for index, argument in enumerate(schema.arguments):
            if argument.name in node.kwargs:
                value = node.kwargs[argument.name]
            elif not argument.kwarg_only and index < len(node.args):
                value = node.args[index]
            elif argument.has_default_value():
                value = argument.default_value
            else:
                raise Unsupported("operator", f"{schema.name}: argument {argument.name} is missing")
            args.append(self._arg(value, schema.name))
        outs = self._outs(node, schema)
        numbers = tuple(a.type.str() for a in schema.returns if "Tensor" not in a.type.str())
        binds = self.numbers.bind(node)
        if not binds and torch.Tag.dynamic_output_shape in overload.tags:
            self.numbers.refuse_remembered(node)
        return OpCall(schema.name, schema.overload_name, tuple(args), outs, numbers, _node_text(node), binds)

    def _outs(self, node, schema) -> tuple:
        value = node.meta.get("val")
        if not schema.returns:
            return ()
        if isinstance(value, torch.Tensor):
            return (node.name,)
        if isinstance(value, (tuple, list)):
            return self._several(node, value, schema)
        if node.users and not self.numbers.binds(node):
            raise Unsupported("operator", f"{schema.name} returns {type(value).__name__}")
        return ()

    def _several(self, node, values, schema) -> tuple:
        """Names of the tensors among several results. Results of other kinds may only be used where their value follows
        from the symbols of the capture."""
        places = _flat_results(values)
        names = {
            place: f"{node.name}_{'_'.join(map(str, place))}"
            for place, v in places
            if v is None or isinstance(v, torch.Tensor)
        }
        self._name_items(node, (), names, set())
        return tuple(names[place] for place, _ in places if place in names)

    def _name_items(self, node, place: tuple, names: dict, seen: set) -> None:
        """The first getitem of a result gives it its name; others mean the same."""
        for user in node.users:
            if user.target is not operator.getitem or not isinstance(user.args[1], int) or user.args[0] is not node:
                continue  # a use as a whole: `_arg` spells it out
            at = (*place, user.args[1])
            if at not in names:
                self._name_items(user, at, names, seen)
            elif at in seen:
                self.names[user.name] = names[at]
            else:
                seen.add(at)
                names[at] = user.name

    def _name(self, node) -> str:
        return self.names.get(node.name, node.name)

    def _arg(self, value, op: str):
        if isinstance(value, torch.fx.Node):
            if value in self.constants:
                return ConstArg(self.constants[value])
            meta = value.meta.get("val")
            if isinstance(meta, torch.Tensor):
                return TensorArg(self._name(value))
            if isinstance(meta, bool):
                return ConstArg(meta)
            if isinstance(meta, (list, tuple)):
                return self._whole(value, meta, op)
            return self._number(value) or IntArg(self._expr(value))
        if isinstance(value, (list, tuple)):
            items = list(value)
            if any(isinstance(v, torch.fx.Node) for v in items):
                tensors = [isinstance(v, torch.fx.Node) and isinstance(v.meta.get("val"), torch.Tensor) for v in items]
                if any(tensors):
                    if not all(t or v is None for t, v in zip(tensors, items, strict=True)):
                        raise Unsupported("operator", f"{op}: a list of tensors and other values")
                    return TensorListArg(tuple(self._name(v) if v is not None else None for v in items))
                return IntListArg(tuple(self._expr(v) for v in items))
        return ConstArg(value)

    def _whole(self, node, values, op: str) -> TensorListArg:
        """A list that an operator returned, given to another one."""
        if not all(isinstance(v, torch.Tensor) for v in values):
            raise Unsupported("operator", f"{op} takes a list that {node.name} returned, not all of it tensors")
        names = [f"{node.name}_{i}" for i in range(len(values))]
        for user in reversed(node.users):
            if user.target is operator.getitem and isinstance(user.args[1], int):
                names[user.args[1]] = self._name(user)
        return TensorListArg(tuple(names))

    def _expr(self, value):
        """A tensor's name, or an int expression."""
        if not isinstance(value, torch.fx.Node):
            if isinstance(value, torch.SymInt):
                return self._checked(value.node.expr)
            if isinstance(value, int):
                return int(value)
            raise Unsupported("graph-value", f"{type(value).__name__}")
        meta = value.meta.get("val")
        if isinstance(meta, torch.Tensor):
            return self._name(value)
        if isinstance(meta, torch.SymInt):
            return self._checked(meta.node.expr)
        if isinstance(meta, int) and not isinstance(meta, bool):
            return meta
        raise Unsupported("graph-value", f"{value.name} is a {type(meta).__name__}")

    def _number(self, node) -> NumberArg | None:
        """Of a float or bool that was read. One that was computed is refused by `_expr`."""
        if node.args and node.args[0] in self.floats:
            return NumberArg(node.meta["val"].node.expr, "float")
        return self.numbers.argument(node)

    def _settled(self, value):
        """What a launch is given: a tensor's name, an int expression, or a float that changes or was read from the data."""
        if isinstance(value, torch.fx.Node) and isinstance(value.meta.get("val"), torch.SymFloat):
            return self._number(value) or self._expr(value)
        return self._expr(value)

    def _checked(self, expr):
        return checked(expr, self.numbers.known(expr))

    def _output(self, value):
        if value is None:
            return ConstArg(None)
        if isinstance(value, torch.fx.Node):
            return self._number(value) or self._expr(value)
        if isinstance(value, (bool, float, str)):
            return ConstArg(value)
        return self._expr(value)


def _flat_results(values, place: tuple = ()) -> list:
    """((index, ...), value) of every result, those inside a returned list one by one."""
    found = []
    for index, value in enumerate(values):
        if isinstance(value, (list, tuple)):
            found += _flat_results(value, (*place, index))
        else:
            found.append(((*place, index), value))
    return found


def checked(expr, known=frozenset()):
    """A sympy expression without data-dependent symbols other than `known`; a plain int if it is constant."""
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    if expr.is_Integer:
        return int(expr)
    for symbol in expr.free_symbols - known:
        if symbol_is_type(symbol, SymT.FLOAT):
            raise Unsupported("float", f"a size or number is computed from a float that changes ({symbol})")
        if symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)):
            raise Unsupported("data-dependent", f"a size that is only known when the program runs ({symbol})")
    return expr


def tensor_meta(value, check=checked) -> TensorMeta:
    """Facts of a fake tensor. `check(expr)` refuses the sizes that cannot be told."""
    if value.layout is not torch.strided or type(value).__name__ not in ("FakeTensor", "Tensor", "Parameter"):
        raise Unsupported("tensor", f"{type(value).__name__} with layout {value.layout}")

    def number(n):
        return check(n.node.expr) if isinstance(n, torch.SymInt) else int(n)

    return TensorMeta(
        tuple(map(number, value.size())),
        tuple(map(number, value.stride())),
        value.dtype,
        value.device.type,
        value.device.index,
        value.requires_grad,
    )


def _plain_allocation(node) -> bool:
    value = node.meta["val"]
    if allocations_are_replaced():
        return False
    if node.kwargs.get("pin_memory") or value.layout is not torch.strided or value.device.type not in ("cuda", "cpu"):
        return False
    return type(value).__name__ == "FakeTensor" and not value.requires_grad


def _is_symbolic(node) -> bool:
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool, int))


def _node_text(node) -> str:
    return f"{node.name} = {_call_text(node)}"


def _call_text(node) -> str:
    args = [str(a) for a in node.args] + [f"{k}={v}" for k, v in node.kwargs.items() if v is not None]
    return f"{node.target}({', '.join(args)})"
