"""Arithmetic of bf16 for Triton's interpreter, which keeps bf16 as 16-bit integers and would calculate with those."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np


def widened(bits: Any) -> Any:
    """float32 values of bf16 bits."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def rounded(values: Any) -> Any:
    """bf16 bits of float32 values, to nearest, ties to even."""
    shape, values = np.shape(values), np.ascontiguousarray(values, np.float32)
    bits = values.view(np.uint32)
    up = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return np.where(np.isnan(values), np.uint32(0x7FC0), (bits + up) >> np.uint32(16)).astype(np.uint16).reshape(shape)


def replacements() -> list[tuple[Any, str, Any]]:
    """(class, name, value): methods of the interpreter's builder that know of bf16."""
    import triton.language as tl
    from triton._C.libtriton import ir as _ir
    from triton.runtime.interpreter import InterpreterBuilder, ReduceOps, TensorHandle

    patched = ("binary_op", "unary_op", "cast_impl", "create_fma", "create_dot", "create_atomic_rmw")
    plain = {name: getattr(InterpreterBuilder, name) for name in patched}
    plain_sum = ReduceOps.sum

    def is_bf16(handle: Any) -> bool:
        return handle.dtype.scalar == tl.bfloat16

    def wide(handle: Any) -> Any:
        return TensorHandle(widened(handle.data), tl.float32) if is_bf16(handle) else handle

    def narrow(data: Any) -> Any:
        return TensorHandle(rounded(data), tl.bfloat16)

    def get_bf16(self: Any, value: float) -> Any:
        return narrow(np.array([value], np.float32))

    def binary_op(self: Any, lhs: Any, rhs: Any, op: Any) -> Any:
        """Comparisons give booleans, which the interpreter would label with the operands' type."""
        if is_bf16(lhs):
            result = np.asarray(op(wide(lhs).data, wide(rhs).data))
            return TensorHandle(result, tl.int1) if result.dtype == np.bool_ else narrow(result)
        handle = plain["binary_op"](self, lhs, rhs, op)
        return TensorHandle(handle.data, tl.int1) if handle.data.dtype == np.bool_ else handle

    def unary_op(self: Any, arg: Any, op: Any) -> Any:
        return narrow(np.asarray(op(wide(arg).data))) if is_bf16(arg) else plain["unary_op"](self, arg, op)

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        if not is_bf16(z):
            return plain["create_fma"](self, x, y, z)
        return narrow(np.asarray(wide(x).data * wide(y).data + wide(z).data))

    def create_dot(self: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        return plain["create_dot"](self, wide(a), wide(b), d, *rest)

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        if dst_type.scalar != tl.bfloat16:
            return plain["cast_impl"](self, wide(src), dst_type)
        return TensorHandle(src.data, tl.bfloat16) if is_bf16(src) else narrow(np.asarray(src.data, np.float32))

    def create_atomic_rmw(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        if not is_bf16(value) or operation != _ir.ATOMIC_OP.FADD:
            return plain["create_atomic_rmw"](self, operation, pointers, value, mask, *rest)
        return TensorHandle(_added(pointers.data, value.data, mask.data), tl.bfloat16)

    def sum_(self: Any, input: Any) -> Any:
        if not is_bf16(input.handle):
            return plain_sum(self, input)
        total = np.sum(widened(input.handle.data), axis=self.axis, keepdims=self.keep_dims)
        return self.to_tensor(rounded(total), input.dtype)

    methods = (get_bf16, binary_op, unary_op, cast_impl, create_fma, create_dot, create_atomic_rmw)
    return [*((InterpreterBuilder, f.__name__, f) for f in methods), (ReduceOps, "sum", sum_)]


def _added(addresses: Any, values: Any, mask: Any) -> Any:
    """Adds at addresses, one after the other. Returns what was there before each."""
    old = np.zeros(addresses.shape, np.uint16)
    for at in zip(*np.nonzero(np.broadcast_to(mask, addresses.shape)), strict=True):
        place = ctypes.c_uint16.from_address(int(addresses[at]))
        old[at] = place.value
        place.value = int(rounded(widened(old[at]) + widened(values[at])))
    return old
