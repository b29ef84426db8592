"""A function with a kernel of its own, for tests that count binaries and their loads."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

import trident_hook

from .routes import twin


@triton.jit
def add_number(x, y, n, NUMBER: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + NUMBER, mask=i < n)


def adding(number: int):
    """A function whose binary is no other test's."""

    def add(x):
        y = torch.empty_like(x)
        add_number[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), NUMBER=number, BLOCK=128)
        return y

    return trident_hook.jit(twin(add))
