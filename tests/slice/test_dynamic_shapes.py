"""Dynamo's own policy: the first shape is taken as it is, the second makes the size that changed symbolic."""

from __future__ import annotations

import math

import pytest
import torch
import triton
from support import programs
from support.routes import counted, routed, warm

import trident_hook
from trident_hook.testing import workloads


def number(fn):
    return len(trident_hook.explain(fn).specializations)


def test_static_first_then_one_symbolic_for_many(through):
    fn = through(workloads.silu)
    warm(fn, torch.randn(48))
    assert number(fn) == 1
    warm(fn, torch.randn(64))
    assert number(fn) == 2
    with counted(fn) as added:
        for n in (16, 32, 64, 80, 128, 1024, 4096):
            routed(fn, torch.randn(n), via="scm", launches=1)
    assert added["misses"] == 0
    assert number(fn) == 2


def test_sizes_of_the_other_alignment_class(through):
    """n divisible by 16 or not are two binaries of Triton's, so two specializations, and no more."""
    fn = through(workloads.silu)
    for n in (48, 64, 50, 66):
        fn(torch.randn(n))
    many = number(fn)
    with counted(fn) as added:
        for n in (2, 3, 7, 16, 17, 100, 112, 1000):
            routed(fn, torch.randn(n), via="scm")
    assert added["misses"] == 0
    assert number(fn) == many <= 3


def test_sizes_one_and_zero_get_their_own(through):
    fn = through(workloads.silu)
    warm(fn, torch.randn(48))
    warm(fn, torch.randn(64))
    for n in (1, 0):
        routed(fn, torch.randn(n), via="dynamo")
        routed(fn, torch.randn(n), via="scm", launches=n)
    routed(fn, torch.randn(80), via="scm")
    routed(fn, torch.randn(48), via="scm")


def test_rms_norm_rows_become_symbolic(through):
    fn, weight = through(workloads.rms_norm), torch.randn(64)
    warm(fn, torch.randn(4, 64), weight, 1e-5)
    warm(fn, torch.randn(6, 64), weight, 1e-5)
    for rows in (2, 3, 5, 16, 31):
        routed(fn, torch.randn(rows, 64), weight, 1e-5, via="scm", launches=1)
    warm(fn, torch.randn(1, 64), weight, 1e-5)


def test_rms_norm_columns_change_the_constexpr(served):
    """BLOCK = next_power_of_2(N): sizes of one power share a binary, another power needs another."""
    fn = served(workloads.rms_norm)
    trident_hook.config.limit = 32
    for n in (48, 64, 40, 56, 128, 96):
        routed(fn, torch.randn(4, n), torch.randn(n), 1e-5, via=None)
        routed(fn, torch.randn(4, n), torch.randn(n), 1e-5, via="scm")
    for n in (48, 64, 40, 56, 128, 96):
        routed(fn, torch.randn(4, n), torch.randn(n), 1e-5, via="scm")


def test_masked_fill_shapes_and_broadcasts(served):
    fn = served(workloads.masked_fill)
    trident_hook.config.limit = 32
    for shape, mask in (
        ((4, 16), (16,)),
        ((6, 16), (16,)),
        ((8, 16), (8, 1)),
        ((2, 3, 5), (3, 1)),
        ((2, 3, 5), (2, 3, 5)),
    ):
        for _ in range(2):
            routed(fn, torch.randn(shape), torch.rand(mask) > 0.5, -1.0, via=None)
        routed(fn, torch.randn(shape), torch.rand(mask) > 0.5, -1.0, via="scm")


def test_sizes_that_must_be_equal(served):
    """x + y of symbolic sizes: the relation is guarded."""
    fn = served(add_or_broadcast)
    for n in (8, 12):
        warm(fn, torch.randn(n), torch.randn(n))
    routed(fn, torch.randn(20), torch.randn(20), via="scm")
    routed(fn, torch.randn(20), torch.randn(1), via="dynamo")
    for _ in range(3):
        routed(fn, torch.randn(20), torch.randn(21), via=None, raises=RuntimeError)
    routed(fn, torch.randn(9), torch.randn(9), via="scm")


def add_or_broadcast(x, y):
    return x + y


def test_branches_on_sizes(served):
    fn = served(branch_on_size)
    for n in (8, 12, 200, 300):
        routed(fn, torch.randn(n), via=None)
        routed(fn, torch.randn(n), via="scm")
    with counted(fn) as added:
        for n in (5, 99, 100, 101, 250):
            routed(fn, torch.randn(n), via="scm")
    assert added["hits"] == 5


def branch_on_size(x):
    y = torch.empty_like(x)
    programs.shift_kernel[(1,)](x, y, 3, x.shape[0], BLOCK=512)
    return y if x.shape[0] > 100 else y * 2


def test_size_arithmetic(served):
    fn = served(arithmetic)
    for n in (8, 12):
        routed(fn, torch.randn(n, 6), via="dynamo")
        routed(fn, torch.randn(n, 6), via="scm")
    for n in (9, 17, 50):
        routed(fn, torch.randn(n, 6), via="scm")
    routed(fn, torch.randn(2, 6), via="dynamo")  # n - 1 is 1: a class of its own


def arithmetic(x):
    n, m = x.shape
    half = torch.empty((n // 2 + 1, m * 2), dtype=x.dtype)
    return x.reshape(n * m)[: n - 1], half.shape, n % 3, max(n, 5), -n, n * m - 7


def test_symbolic_strides_and_offsets(served):
    fn = served(programs.aten_only)
    weight = torch.randn(16, 4)
    for n in (8, 12):
        warm(fn, torch.randn(n, 16), weight)
    routed(fn, torch.randn(20, 32)[:, :16], weight, via=None)
    routed(fn, torch.randn(20, 32)[:, 16:], weight, via="scm")
    routed(fn, torch.randn(20, 16), weight, via="scm")


def test_a_mark_of_dynamos(served):
    """torch._dynamo.mark_dynamic makes the size symbolic at once."""
    fn, x = served(workloads.silu), torch.randn(48)
    torch._dynamo.mark_dynamic(x, 0)
    warm(fn, x)
    assert number(fn) == 1
    routed(fn, torch.randn(64), via=None)


def test_dynamos_switches_are_respected(served):
    fn = served(workloads.silu)
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        for n in (16, 32, 48):
            warm(fn, torch.randn(n))
    assert number(fn) == 3


def sorted_by_strides(x):
    order = sorted(range(x.ndim), key=lambda dim: x.stride(dim))
    return workloads.silu(x), order


def blocks_by_logarithm(x):
    y, n = torch.empty_like(x), x.numel()
    block = 1024 if math.log2(n) > 7.5 else 64
    workloads._silu_kernel[(triton.cdiv(n, block),)](x, y, n, BLOCK=block)
    return y


@pytest.mark.parametrize("function", [sorted_by_strides, blocks_by_logarithm])
def test_what_symbols_cannot_express_is_captured_size_by_size(served, function):
    """The refusal of the capture with symbols costs one more miss of that shape, and is no refusal of the function."""
    fn = served(function)
    for rows, cols in ((4, 64), (6, 64), (6, 80), (7, 96), (3, 33)):
        for _ in range(2):
            routed(fn, torch.randn(rows, cols), via=None)
        routed(fn, torch.randn(rows, cols), via="scm", launches=1)
    for rows, cols in ((4, 64), (6, 80), (3, 33)):
        routed(fn, torch.randn(rows, cols), via="scm", launches=1)
    report = trident_hook.explain(fn)
    assert not report.refusals
    assert not report.full


def test_a_refusal_that_is_not_about_sizes_stays_one(served):
    """The capture without symbols fails as well, and says so."""

    def breaks(x, deep):
        y = workloads.silu(x)
        if deep:
            torch._dynamo.graph_break()
        return y * 2

    fn = served(breaks)
    warm(fn, torch.randn(48), False)
    for n in (64, 80):
        fn(torch.randn(n), True)
    (reason,) = trident_hook.explain(fn).refusals
    assert "graph-break" in str(reason)
    routed(fn, torch.randn(48), False, via="scm", launches=1)


def test_a_grid_by_true_division(served):
    """math.ceil(n / block), as libraries write it: one specialization with symbols."""

    def by_division(x):
        y, n = torch.empty_like(x), x.numel()
        workloads._silu_kernel[(math.ceil(n / 1024),)](x, y, n, BLOCK=1024)
        return y

    fn = served(by_division)
    for n in (48, 64):
        warm(fn, torch.randn(n))
    with counted(fn) as added:
        for n in (16, 80, 1024, 1040, 4096):
            routed(fn, torch.randn(n), via="scm", launches=1)
    assert added["misses"] == 0


def by_waves(x):
    """The heuristic of many libraries: how often the grid fills the device."""
    y, n = torch.empty_like(x), x.numel()
    block = 1024 if n / 132 > 8 else 64
    workloads._silu_kernel[(triton.cdiv(n, block),)](x, y, n, BLOCK=block)
    return y


def by_root(x):
    y, n = torch.empty_like(x), x.numel()
    block = triton.next_power_of_2(math.ceil(math.sqrt(n)))
    workloads._silu_kernel[(triton.cdiv(n, block),)](x, y, n, BLOCK=block)
    return y


@pytest.mark.parametrize(
    ("function", "first", "within", "without"),
    [(by_waves, (48, 64), (80, 1040, 1056), (1072, 4096)), (by_root, (272, 288), (320, 1008, 1024), (1040, 256))],
)
def test_a_float_in_the_middle_of_a_guard(served, function, first, within, without):
    """One specialization with symbols for all sizes on the same side; the first size on the other side is a miss."""
    fn = served(function)
    for n in first:
        warm(fn, torch.randn(n))
    with counted(fn) as added:
        for n in within:
            routed(fn, torch.randn(n), via="scm", launches=1)
    assert added["misses"] == 0
    routed(fn, torch.randn(without[0]), via="dynamo")
    for n in without:
        for _ in range(2):
            routed(fn, torch.randn(n), via=None)
        routed(fn, torch.randn(n), via="scm", launches=1)
    assert not trident_hook.explain(fn).refusals
