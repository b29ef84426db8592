"""Small functions that launch kernels, for the tests of the slice. Written as users write them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

SCALE = 2.0


@triton.jit
def shift_kernel(x, y, a, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y + offsets, tl.load(x + offsets, mask=mask) + a, mask=mask)


@triton.jit
def stretch_kernel(x, y, a, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y + offsets, tl.load(x + offsets, mask=mask) * a, mask=mask)


kernel = shift_kernel


def shift(x, a):
    """x + a: the second argument reaches the kernel."""
    y = torch.empty_like(x)
    shift_kernel[(triton.cdiv(x.numel(), 64),)](x, y, a, x.numel(), BLOCK=64)
    return y


def shift_(x, a):
    """In place; returns its argument."""
    shift_kernel[(triton.cdiv(x.numel(), 64),)](x, x, a, x.numel(), BLOCK=64)
    return x


def combine(x, other):
    """Reads two tensors, which may be the same."""
    y = torch.empty_like(x)
    shift_kernel[(triton.cdiv(x.numel(), 64),)](x, y, 3, x.numel(), BLOCK=64)
    return y + other


def scaled(x):
    """Depends on a global number."""
    y = torch.empty_like(x)
    stretch_kernel[(triton.cdiv(x.numel(), 64),)](x, y, SCALE, x.numel(), BLOCK=64)
    return y


def through_global(x):
    """Depends on a global kernel."""
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](x, y, 3, x.numel(), BLOCK=64)
    return y


def with_default(x, a=5, *, b=7):
    y = torch.empty_like(x)
    shift_kernel[(triton.cdiv(x.numel(), 64),)](x, y, a, x.numel(), BLOCK=64)
    return y * b


def closing_over(a):
    def shifted(x):
        y = torch.empty_like(x)
        shift_kernel[(triton.cdiv(x.numel(), 64),)](x, y, a, x.numel(), BLOCK=64)
        return y

    def change(value):
        nonlocal a
        a = value

    return shifted, change


def failing(x, other):
    """Launches, then adds what may not have a fitting shape."""
    y = torch.empty_like(x)
    shift_kernel[(triton.cdiv(x.numel(), 64),)](x, y, 3, x.numel(), BLOCK=64)
    return torch.index_select(y, 0, other)


def aten_only(x, weight):
    """No launch: operators, views, an in-place addition."""
    h = (x @ weight).relu()
    h.add_(1.0)
    return h.sum(dim=-1), h[:, 0]


def chosen(x, mode, amount):
    """What is told apart by a string, the class and the value of a number, and the tensor."""
    return x * amount if mode == "scale" else x + amount


def breaking(x):
    """Dynamo has to break the graph in the middle."""
    y = torch.empty_like(x)
    shift_kernel[(triton.cdiv(x.numel(), 64),)](x, y, 3, x.numel(), BLOCK=64)
    torch._dynamo.graph_break()
    return y + 1
