"""Float arguments that change: from the second value on Dynamo passes a float into its graph as a 0-d double tensor and
reads it back, which makes it a symbol. Here it becomes a C double that is read from the argument in each call.

Only where the program just passes it on: to a kernel, an operator, or its caller. Arithmetic and comparisons of such a
float would be PyTorch's symbolic ones, which reorder and fold (`a + 0.0` is `a` there, also for -0.0), and know neither
infinity nor NaN. A capture that made any is refused, and the function's floats are constants from then on
(`Learning.fixed_floats`). Folding leaves nothing in the graph, so every symbol that Dynamo makes is looked at."""

from __future__ import annotations

import ast

import torch

from ...dynamo.patches.float_symbols import has_float, is_number_input
from ...errors import Unsupported
from ...ir import recipe as r

_MAKERS = (torch.tensor, torch._refs.tensor, torch.as_tensor, torch.asarray)
_ITEMS = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)


def argument_of(expr):
    """The recipe expression of the float behind a graph argument that is a float as a tensor; else None."""
    if isinstance(expr, r.Call) and isinstance(expr.func, r.Const) and len(expr.args) == 1 and not expr.kwnames:
        return expr.args[0] if expr.func.value is torch._as_tensor_fullprec else None
    return None


def refuse_as_tensors(graph) -> None:
    """Of Dynamo's own graph. A number of NumPy's is a tensor there for good, which a kernel would be given as a pointer. And
    torch.tensor of a symbol is an operator that refuses what is too large for its dtype, where torch.tensor gives infinity."""
    for node in graph.nodes:
        given = node.kwargs.get("kwargs") if node.op == "call_function" else None
        for name, value in given.items() if isinstance(given, dict) else ():
            if isinstance(value, torch.fx.Node) and is_number_input(value):
                raise Unsupported("launch", f"{name!r} is a number of NumPy's")
        if node.target in _MAKERS and any(has_float(n.meta.get("example_value")) for n in node.all_input_nodes):
            raise Unsupported("float", "torch.tensor of a float that changes")


def symbol_of(node):
    """Of a placeholder of the normalised graph that is a float as a tensor: the symbol that stands for the float."""
    symbols = set()
    for user in node.users:
        value = user.meta.get("val")
        if user.target not in _ITEMS or not isinstance(value, torch.SymFloat):
            raise Unsupported("float", f"{node.name}, a float that changes, is used as a tensor by {user.name}")
        if not value.node.expr.is_Symbol:
            raise Unsupported("float", f"tracing took {node.name}, a float that changes, for {value.node.expr}")
        symbols.add(value.node.expr)
    if len(symbols) != 1:
        raise Unsupported("float", f"{node.name}, a float that changes, has {len(symbols)} symbols")
    return symbols.pop()


# -- guards ------------------------------------------------------------------------------------------------------------


def float_of_guard(text: str) -> ast.AST | None:
    """The source in `S == ___as_tensor(S).item()` and in `not math.isnan(___as_tensor(S).item())`, which Dynamo adds for
    every such float; from PyTorch 2.14 on it is `not math.isnan(S)` alone. They hold for every finite one."""
    tree = ast.parse(text, mode="eval").body
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and isinstance(tree.ops[0], ast.Eq):
        source = _read_back(tree.comparators[0])
        if source is not None and ast.unparse(source) == ast.unparse(tree.left):
            return source
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not) and isinstance(tree.operand, ast.Call):
        call = tree.operand
        if ast.unparse(call.func) == "math.isnan" and len(call.args) == 1:
            read = _read_back(call.args[0])
            return read if read is not None or isinstance(call.args[0], ast.Call) else call.args[0]
    return None


def _read_back(tree: ast.AST) -> ast.AST | None:
    """S of `___as_tensor(S).item()`"""
    if (
        isinstance(tree, ast.Call)
        and isinstance(tree.func, ast.Attribute)
        and tree.func.attr == "item"
        and not tree.args
    ):
        inner = tree.func.value
        if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "___as_tensor" and len(inner.args) == 1:
            return inner.args[0]
    return None


def refuse_compared(text: str, sources: set[str]) -> None:
    """A guard on the value of a float that changes, one of `sources` by name."""
    names = {"___as_tensor", *(ast.unparse(ast.parse(name, mode="eval")) for name in sources)}
    for node in ast.walk(ast.parse(text, mode="eval")):
        if isinstance(node, ast.expr) and ast.unparse(node) in names:
            raise Unsupported("float", f"the program's path depends on a float that changes: {text}")
