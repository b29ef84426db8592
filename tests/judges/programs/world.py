"""What every program finds in its module: PyTorch, kernels, operators and small helpers. Both worlds share it."""

from __future__ import annotations

import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import math
import operator
import os
import sys
import types
import typing
import warnings
import weakref

import numpy
import torch
import torch.distributed
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn
from triton.runtime.jit import JITFunction

#: The module dict of the world whose call is under way: operators written in Python find their program's globals in it.
current: dict = {}


def ramp(*shape, dtype=torch.float32, start=0.0):
    """Numbers that are all different, and of both signs."""
    n = math.prod(shape)
    return (torch.arange(n, dtype=torch.float32) * 0.375 + start - n / 8).reshape(shape).to(dtype)


def leaf(*shape, **options):
    return ramp(*shape, **options).requires_grad_()


def positive(n):
    """A symmetric matrix that has a Cholesky factor; `-positive(n)` has none."""
    return torch.eye(n) * 3 + torch.ones(n, n) * 0.5


# -- kernels -----------------------------------------------------------------------------------------------------------


@triton.jit
def scale_kernel(x, y, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


@triton.jit
def times_kernel(x, y, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * FACTOR, mask=i < n)


@triton.jit
def stages_kernel(x, y, n, BLOCK: tl.constexpr = 64, num_stages: tl.constexpr = 2):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 0 + num_stages, mask=i < n)


@triton.jit
def strided_kernel(x, y, rows, cols, s0, s1, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    k = i < rows * cols
    tl.store(y + i, tl.load(x + (i // cols) * s0 + (i % cols) * s1, mask=k), mask=k)


# -- operators written in Python ----------------------------------------------------------------------------------------


@torch.library.custom_op("judge::note", mutates_args=())
def note(x: torch.Tensor) -> torch.Tensor:
    current.get("EVENTS", []).append("note")
    return x + 1


@note.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("judge::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * current.get("SCALE", 1)


@scaled.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("judge::rescale", mutates_args=())
def rescale(x: torch.Tensor) -> torch.Tensor:
    current["SCALE"] = current.get("SCALE", 1) + 1
    return x.clone()


@rescale.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("judge::checked", mutates_args=())
def checked(x: torch.Tensor) -> torch.Tensor:
    if x.numel() and float(x.flatten()[0]) > 50:
        raise ValueError("the first number is too large")
    return x * 2


@checked.register_fake
def _(x):
    return torch.empty_like(x)


# -- changes of the process ---------------------------------------------------------------------------------------------

RECURSION = sys.getrecursionlimit()
_run = JITFunction.run
_overrides: list = []


def replace_run(counter):
    """Launches are counted in the running world's list of that name."""

    def run(self, *args, **kwargs):
        current.get(counter, [0])[0] += 1
        return _run(self, *args, **kwargs)

    JITFunction.run = run


def put_run_back():
    JITFunction.run = _run


def override_empty():
    library = torch.library.Library("aten", "IMPL")
    library.impl("empty.memory_format", _sevens, "CPU")
    _overrides.append(library)


def _sevens(size, **options):
    return torch.from_numpy(numpy.full(size, 7.0, dtype="float32"))


def drop_override():
    while _overrides:
        _overrides.pop()._destroy()


def start_group():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)


def end_group():
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


NAMES = {name: value for name, value in globals().items() if not name.startswith("_") and name != "current"}
_USED_BY_PROGRAMS = (abc, collections, contextlib, copy, dataclasses, enum, functools, operator, types, typing, warnings,
                     weakref, F, nn, os)  # fmt: skip
