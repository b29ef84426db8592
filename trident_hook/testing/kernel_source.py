"""A kernel's source as Triton's compiler reads it, rewritten so that Python running it does the same.

Python decides `and`, `or`, `not`, `min` and `max` by the truth of its operands, and a loop over plain numbers gives plain
numbers. The compiler takes the first three, and the two functions, element by element, evaluates both sides unless a
constant decides, and has a tensor for a loop's variable. Triton's own interpreter only makes assignments yield tensors.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_AND, _OR, _NOT = "compiled_and", "compiled_or", "compiled_not"


def rewritten(source: str) -> ast.Module:
    """The definition of a kernel without decorators, annotations of parameters and defaults, ready to be compiled."""
    from triton.runtime import interpreter

    tree = ast.parse(source)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    definition.returns = None
    spec = definition.args
    for argument in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]:
        argument.annotation = None
    spec.defaults, spec.kw_defaults = [], [None] * len(spec.kwonlyargs)
    tree = interpreter.ASTTransformer().visit(_AsCompiled().visit(tree))
    return ast.fix_missing_locations(tree)


def helpers() -> dict[str, Any]:
    """The names that rewritten source uses."""
    return {_AND: _compiled_and, _OR: _compiled_or, _NOT: _compiled_not}


#: Functions of Python that mean something else in a kernel, unless its module has its own of that name.
def functions() -> dict[str, Callable[..., Any]]:
    return {"range": tensor_range, "min": _smallest, "max": _largest}


class _AsCompiled(ast.NodeTransformer):
    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Operands become functions: one that a constant makes needless is not evaluated."""
        self.generic_visit(node)
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        operands: list[ast.expr] = [ast.Lambda(args=nothing, body=value) for value in node.values]
        return _call(_AND if isinstance(node.op, ast.And) else _OR, operands, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call(_NOT, [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """`x += y` is an assignment: what is assigned is a tensor."""
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        old = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        value = ast.copy_location(ast.BinOp(old, node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """An assertion is one of the device: nothing, unless a kernel is compiled for debugging."""
        return ast.copy_location(ast.Pass(), node)


def _call(name: str, arguments: list[ast.expr], node: ast.expr) -> ast.Call:
    return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), arguments, []), node)


def _plain(value: Any) -> Any:
    from triton.language import constexpr

    return value.value if isinstance(value, constexpr) else value


def _is_tensor(value: Any) -> bool:
    import triton.language as tl

    return isinstance(value, tl.tensor)


def _joined(method: str, decisive: bool, operands: tuple[Callable[[], Any], ...]) -> Any:
    tensors, value = [], None
    for operand in operands:
        value = operand()
        if _is_tensor(value):
            tensors.append(value)
        elif bool(_plain(value)) is decisive:
            return value
    if not tensors:
        return value
    while len(tensors) > 1:
        right = tensors.pop()
        tensors.append(getattr(tensors.pop(), method)(right))
    return tensors[0]


def _compiled_and(*operands: Callable[[], Any]) -> Any:
    return _joined("logical_and", False, operands)


def _compiled_or(*operands: Callable[[], Any]) -> Any:
    return _joined("logical_or", True, operands)


def _compiled_not(value: Any) -> Any:
    return value.__not__() if _is_tensor(value) else not _plain(value)


def _smallest(*values: Any) -> Any:
    import triton.language as tl

    return _of_all(values, builtins.min, tl.minimum)


def _largest(*values: Any) -> Any:
    import triton.language as tl

    return _of_all(values, builtins.max, tl.maximum)


def _of_all(values: tuple[Any, ...], plain: Callable[..., Any], of_two: Callable[..., Any]) -> Any:
    if not any(map(_is_tensor, values)):
        return plain(*map(_plain, values))
    result = values[0]
    for value in values[1:]:
        result = of_two(result, value)
    return result


def tensor_range(arg1: Any, arg2: Any = None, step: Any = None, **_: Any) -> Iterator[Any]:
    """`range` and `tl.range` of a kernel: the variable is a tensor of the widest type among the bounds, int32 at least."""
    import triton.language as tl
    from triton.runtime import interpreter

    bounds = [_plain(bound) for bound in ((0, arg1) if arg2 is None else (arg1, arg2))]
    bounds.append(1 if step is None else _plain(step))
    kinds = [bound.dtype for bound in bounds if _is_tensor(bound)]
    if any(not _is_tensor(bound) and not -(2**31) <= bound < 2**31 for bound in bounds):
        kinds.append(tl.int64)
    kind = builtins.max([tl.int32, *kinds], key=lambda dtype: (dtype.primitive_bitwidth, dtype.is_int_unsigned()))
    np_dtype = interpreter._get_np_dtype(kind)
    for value in range(*map(int, bounds)):
        yield tl.tensor(interpreter.TensorHandle(np.array([value], np_dtype), kind), kind)
