"""Functions that launch Triton kernels; on the simulated driver."""

from __future__ import annotations

import torch
import triton
from support import programs

from ..places import Attribute, Slot, argument, constants, subject
from ..values import kinds, layouts, ramp, same_as, scalar

# The kernels read as far as numel() says: layouts with gaps would make them read other tensors' memory.
DENSE = [0, 1, 2, 3, 9, 10, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23, 25]
X = argument("x", *(layouts(8, 8)[i] for i in DENSE), *kinds(8, 8)[:12], lambda: None)


@subject(X, scalar("a"), launches=True)
def shift(x, a):
    y = torch.empty_like(x)
    programs.shift_kernel[(triton.cdiv(x.numel(), 64),)](x, y, a, x.numel(), BLOCK=64)
    return y


@subject(X, scalar("a", 16), launches=True, dynamic=True)
def shift_any(x, a):
    y = torch.empty_like(x)
    programs.shift_kernel[(triton.cdiv(x.numel(), 64),)](x, y, a, x.numel(), BLOCK=64)
    return y


@subject(X, launches=True)
def shift_in_place(x):
    programs.shift_kernel[(triton.cdiv(x.numel(), 64),)](x, x, 3, x.numel(), BLOCK=64)
    return x


@subject(X, argument("other", lambda: ramp(8, 8), *same_as("x")), launches=True)
def launch_then_add(x, other):
    y = torch.empty_like(x)
    programs.shift_kernel[(triton.cdiv(x.numel(), 64),)](x, y, 3, x.numel(), BLOCK=64)
    return y + other


@subject(
    X,
    Slot("SCALE", Attribute(programs, "SCALE"), constants(2.0, 3.0, 2, True, -2.0, None)),
    Slot("kernel", Attribute(programs, "kernel"), constants(programs.shift_kernel, programs.stretch_kernel)),
    launches=True,
)
def launch_globals(x):
    y = torch.empty_like(x)
    programs.kernel[(triton.cdiv(x.numel(), 64),)](x, y, programs.SCALE, x.numel(), BLOCK=64)
    return y
