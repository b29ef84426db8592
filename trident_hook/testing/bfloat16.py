"""Arithmetic of bf16 for Triton's interpreter, which keeps bf16 as 16-bit integers and would calculate with those."""

from __future__ import annotations

from typing import Any

import numpy as np


def widened(bits: Any) -> Any:
    """float32 values of bf16 bits."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def rounded(values: Any) -> Any:
    """bf16 bits of float32 values, to nearest, ties to even."""
    values = np.ascontiguousarray(values, np.float32)
    bits = values.view(np.uint32)
    up = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.where(np.isnan(values), np.uint32(0x7FC0), (bits + up) >> np.uint32(16)).astype(np.uint16)


def replacements() -> list[tuple[Any, str, Any]]:
    """(class, name, value): methods of the interpreter's builder that know of bf16."""
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    plain = {name: getattr(InterpreterBuilder, name) for name in ("binary_op", "unary_op", "create_fma", "create_dot")}

    def is_bf16(handle: Any) -> bool:
        return handle.dtype.scalar == tl.bfloat16

    def wide(handle: Any) -> Any:
        return TensorHandle(widened(handle.data), tl.float32) if is_bf16(handle) else handle

    def narrow(data: Any) -> Any:
        """Comparisons give booleans, which the interpreter labels with the operands' type."""
        return TensorHandle(data if data.dtype == np.bool_ else rounded(data), tl.bfloat16)

    def get_bf16(self: Any, value: float) -> Any:
        return narrow(np.array([value], np.float32))

    def binary_op(self: Any, lhs: Any, rhs: Any, op: Any) -> Any:
        if not is_bf16(lhs):
            return plain["binary_op"](self, lhs, rhs, op)
        return narrow(np.asarray(op(wide(lhs).data, wide(rhs).data)))

    def unary_op(self: Any, arg: Any, op: Any) -> Any:
        return narrow(np.asarray(op(wide(arg).data))) if is_bf16(arg) else plain["unary_op"](self, arg, op)

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        if not is_bf16(z):
            return plain["create_fma"](self, x, y, z)
        return narrow(np.asarray(wide(x).data * wide(y).data + wide(z).data))

    def create_dot(self: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        return plain["create_dot"](self, wide(a), wide(b), d, *rest)

    return [(InterpreterBuilder, f.__name__, f) for f in (get_bf16, binary_op, unary_op, create_fma, create_dot)]
