"""From the normalised graph to a `HostProgram`: what is lowered natively, and what calls PyTorch's operator."""

from __future__ import annotations

import operator

import torch

from ..errors import Unsupported
from ..ir.program import (
    Alloc,
    ConstArg,
    HostProgram,
    Input,
    IntArg,
    IntListArg,
    OpCall,
    TensorArg,
    TensorListArg,
    TensorMeta,
)
from . import launches

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
    "aten::swap_tensors", "inductor::resize_storage_bytes_", "fsdp::copy_", "aten::data",
}  # fmt: skip


class ProgramBuilder:
    """Builds the program of one normalised graph. `sites` maps launch nodes to their recorded sites."""

    def __init__(self, traced, recipe) -> None:
        self.traced, self.recipe = traced, recipe
        self.samples: dict[str, object] = {}
        self.symbols: dict = {}

    def build(self, sites: dict, samples: dict) -> HostProgram:
        self.samples = samples
        inputs = self._inputs()
        ops = []
        for node in self.traced.graph.nodes:
            if node.op == "call_function":
                op = self._op(node, sites)
                if op is not None:
                    ops.append(op)
            elif node.op == "get_attr":
                raise Unsupported("graph-constant", f"the graph holds the constant {node.target}")
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
            if isinstance(value, torch.Tensor):
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

    # -- operations ------------------------------------------------------------------------------------------------
    def _op(self, node, sites: dict):
        if node in sites:
            return launches.launch_op(sites[node], self._expr, lambda n: self.samples[n.name])
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            if isinstance(node.meta.get("val"), (torch.SymInt, int)) and target.namespace == "aten" and not node.users:
                return None
            if target._schema.name in ("aten::sym_size", "aten::sym_stride", "aten::sym_numel") or _is_backed(node):
                return None
            name = target._schema.name + ("." + target._schema.overload_name if target._schema.overload_name else "")
            if name in _ALLOCATIONS and _plain_allocation(node):
                meta = tensor_meta(node.meta["val"])
                return Alloc(node.name, meta, _node_text(node))
            return self._call(node, target)
        if getattr(target, "__module__", "") in ("_operator", "math", "torch") or _is_symbolic(node):
            if _is_symbolic(node):
                return None  # int arithmetic: every use reads the sympy expression of the node
        if target is operator.getitem:
            return None
        raise Unsupported("graph-node", f"{getattr(target, '__name__', target)}")

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
        return OpCall(schema.name, schema.overload_name, tuple(args), outs, text=_node_text(node))

    def _outs(self, node, schema) -> tuple:
        value = node.meta.get("val")
        if not schema.returns:
            return ()
        if isinstance(value, torch.Tensor):
            return (node.name,)
        if isinstance(value, (tuple, list)):
            if not all(isinstance(v, torch.Tensor) for v in value):
                raise Unsupported("operator", f"{schema.name} returns values that are not tensors")
            names = [None] * len(value)
            for user in node.users:
                if user.target is not operator.getitem:
                    raise Unsupported("operator", f"the list returned by {schema.name} is used as a whole")
                names[user.args[1]] = user.name
            return tuple(n or f"{node.name}_unused_{i}" for i, n in enumerate(names))
        raise Unsupported("operator", f"{schema.name} returns {type(value).__name__}")

    def _arg(self, value, op: str):
        if isinstance(value, torch.fx.Node):
            if isinstance(value.meta.get("val"), torch.Tensor):
                return TensorArg(value.name)
            return IntArg(self._expr(value))
        if isinstance(value, (list, tuple)):
            items = list(value)
            if any(isinstance(v, torch.fx.Node) for v in items):
                tensors = [isinstance(v, torch.fx.Node) and isinstance(v.meta.get("val"), torch.Tensor) for v in items]
                if any(tensors):
                    if not all(t or v is None for t, v in zip(tensors, items, strict=True)):
                        raise Unsupported("operator", f"{op}: a list of tensors and other values")
                    return TensorListArg(tuple(v.name if v is not None else None for v in items))
                return IntListArg(tuple(self._expr(v) for v in items))
        return ConstArg(value)

    def _expr(self, value):
        """A tensor's name, or an int expression."""
        if not isinstance(value, torch.fx.Node):
            if isinstance(value, torch.SymInt):
                return checked(value.node.expr)
            if isinstance(value, int):
                return int(value)
            raise Unsupported("graph-value", f"{type(value).__name__}")
        meta = value.meta.get("val")
        if isinstance(meta, torch.Tensor):
            return value.name
        if isinstance(meta, torch.SymInt):
            return checked(meta.node.expr)
        if isinstance(meta, int) and not isinstance(meta, bool):
            return meta
        raise Unsupported("graph-value", f"{value.name} is a {type(meta).__name__}")

    def _output(self, value):
        if value is None:
            return ConstArg(None)
        if isinstance(value, torch.fx.Node):
            return self._expr(value)
        if isinstance(value, (bool, float, str)):
            return ConstArg(value)
        return self._expr(value)


def checked(expr):
    """A sympy expression without data-dependent symbols; a plain int if it is constant."""
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    if expr.is_Integer:
        return int(expr)
    for symbol in expr.free_symbols:
        if symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)):
            raise Unsupported("data-dependent", f"a size that is only known when the program runs ({symbol})")
    return expr


def tensor_meta(value) -> TensorMeta:
    """Facts of a fake tensor."""
    if value.layout is not torch.strided or type(value).__name__ not in ("FakeTensor", "Tensor", "Parameter"):
        raise Unsupported("tensor", f"{type(value).__name__} with layout {value.layout}")

    def number(n):
        return checked(n.node.expr) if isinstance(n, torch.SymInt) else int(n)

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
    if node.kwargs.get("pin_memory") or value.layout is not torch.strided or value.device.type not in ("cuda", "cpu"):
        return False
    return type(value).__name__ == "FakeTensor" and not value.requires_grad


def _is_symbolic(node) -> bool:
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymBool, int))


def _is_backed(node) -> bool:
    """An operator that only computed an int which the symbols of the capture already give."""
    value = node.meta.get("val")
    if not isinstance(value, torch.SymInt):
        return False
    checked(value.node.expr)
    return True


def _node_text(node) -> str:
    return f"{node.name} = {_call_text(node)}"


def _call_text(node) -> str:
    args = [str(a) for a in node.args] + [f"{k}={v}" for k, v in node.kwargs.items() if v is not None]
    return f"{node.target}({', '.join(args)})"
