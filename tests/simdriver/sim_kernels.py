"""Kernels for the tests of the simulated driver, and launches of them on CPU tensors.

Each case returns the arguments and options of a launch, and a function that checks the outcome against PyTorch."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

SCALE = tl.constexpr(3)
Pair = namedtuple("Pair", ["pointer", "offset"])


@triton.jit
def masked_add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@triton.jit
def scalars(out, flag, small: tl.int8, half: tl.float16, brain: tl.bfloat16, single, double: tl.float64, big, unsigned):
    tl.store(out + 0, flag.to(tl.float64))
    tl.store(out + 1, small.to(tl.float64))
    tl.store(out + 2, half.to(tl.float64))
    tl.store(out + 3, brain.to(tl.float32).to(tl.float64))
    tl.store(out + 4, single.to(tl.float64))
    tl.store(out + 5, double)
    tl.store(out + 6, big.to(tl.float64))
    tl.store(out + 7, unsigned.to(tl.float64))


@triton.jit
def row_statistics(x, sums, maxima, places, n_cols, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + cols, mask=cols < n_cols, other=0.0)
    lowest = tl.where(cols < n_cols, value, float("-inf"))
    tl.store(sums + row, tl.sum(value, axis=0))
    tl.store(maxima + row, tl.max(lowest, axis=0))
    tl.store(places + row, tl.argmax(lowest, axis=0))


@triton.jit
def dot(a, b, c, K, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        left = tl.load(a + rows[:, None] * K + (start + rows)[None, :])
        right = tl.load(b + (start + rows)[:, None] * BLOCK + rows[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * BLOCK + rows[None, :], total)


@triton.jit
def triple(value):
    return value * SCALE


@triton.jit
def triple_and_one(value, extra=1):
    tripled = triple(value)
    return tripled, tripled + extra


@triton.jit
def nested(x, tripled, more, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    low, high = triple_and_one(tl.load(x + offsets))
    tl.store(tripled + offsets, low)
    tl.store(more + offsets, high)


@triton.jit
def tuples(inputs, pair, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(inputs[0] + offsets) * inputs[2] + inputs[1]
    tl.store(out + offsets, value + tl.load(pair.pointer + offsets) + pair.offset)


@triton.jit
def copy_tile(source, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    row, col = tl.program_id(0) * BM, tl.program_id(1) * BN
    tile = source.load([row, col])
    rows, cols = row + tl.arange(0, BM), col + tl.arange(0, BN)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(out + rows[:, None] * N + cols[None, :], tile + 1, mask=inside)


@triton.jit
def make_tile(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(out, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row, col = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([row, col], source.load([row, col]) * 2)


@triton.jit
def program_ids(out, nx, ny):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    size = tl.num_programs(0) * 10000 + tl.num_programs(1) * 100 + tl.num_programs(2)
    tl.store(out + (z * ny + y) * nx + x, size)


@triton.jit
def optional_bias(x, bias, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    if bias is not None:
        value += tl.load(bias + offsets)
    tl.store(out + offsets, value)


@triton.jit
def count_up(counter, BLOCK: tl.constexpr):
    tl.atomic_add(counter + tl.arange(0, BLOCK), 1)


@triton.jit
def running_sum(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.cumsum(tl.load(x + offsets), axis=0))


@triton.jit
def big_tiles(a, b, c, K, BM: tl.constexpr, BK: tl.constexpr):
    rows, depth = tl.arange(0, BM), tl.arange(0, BK)
    total = tl.zeros((BM, BM), dtype=tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + (start + depth)[None, :])
        right = tl.load(b + (start + depth)[:, None] * BM + rows[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * BM + rows[None, :], total)


@dataclass
class Case:
    kernel: Any
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    check: Callable[[], None]
    options: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[torch.Tensor, ...] = ()


def close(actual: torch.Tensor, expected: torch.Tensor, **tolerance: float) -> None:
    torch.testing.assert_close(actual, expected.to(actual.dtype), **tolerance)


def case_masked_add(n: int = 1000, dtype: torch.dtype = torch.float32) -> Case:
    x, y, out = torch.randn(n).to(dtype), torch.randn(n).to(dtype), torch.zeros(n, dtype=dtype)
    check = lambda: close(out, x + y)
    return Case(masked_add, (triton.cdiv(n, 256),), (x, y, out, n), check, {"BLOCK": 256}, (out,))


def case_scalars() -> Case:
    out = torch.zeros(8, dtype=torch.float64)
    args = (out, True, 100, 0.333251953125, 1.5, 0.25, 1e-300, 2**40 + 16, 2**63 + 2048)
    check = lambda: close(out, torch.tensor([float(a) for a in args[1:]], dtype=torch.float64))
    return Case(scalars, (1,), args, check, {}, (out,))


def case_row_statistics() -> Case:
    x = torch.randn(5, 100)
    sums, maxima, places = torch.zeros(5), torch.zeros(5), torch.zeros(5, dtype=torch.int32)

    def check() -> None:
        close(sums, x.sum(1), rtol=1e-5, atol=1e-5)
        close(maxima, x.max(1).values)
        close(places, x.argmax(1))

    args = (x, sums, maxima, places, 100, 100)
    return Case(row_statistics, (5,), args, check, {"BLOCK": 128}, (sums, maxima, places))


def case_dot(dtype: torch.dtype = torch.float16) -> Case:
    a, b, c = torch.randn(32, 64).to(dtype), torch.randn(64, 32).to(dtype), torch.zeros(32, 32)
    check = lambda: close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-3)
    return Case(dot, (1,), (a, b, c, 64), check, {"BLOCK": 32}, (c,))


def case_nested() -> Case:
    x = torch.arange(64, dtype=torch.float32)
    tripled, more = torch.zeros(64), torch.zeros(64)

    def check() -> None:
        close(tripled, x * 3)
        close(more, x * 3 + 1)

    return Case(nested, (1,), (x, tripled, more), check, {"BLOCK": 64}, (tripled, more))


def case_tuples() -> Case:
    x, y, out = torch.randn(32), torch.randn(32), torch.zeros(32)
    check = lambda: close(out, x * 2.5 + 1 + y + 7)
    return Case(tuples, (1,), ((x, 1, 2.5), Pair(y, 7), out), check, {"BLOCK": 32}, (out,))


def case_host_descriptor(padding: str = "zero") -> Case:
    x, out = torch.randn(40, 64).half(), torch.zeros(40, 64).half()
    descriptor = TensorDescriptor.from_tensor(x, [16, 32], padding=padding)
    check = lambda: close(out, x + 1)
    return Case(copy_tile, (3, 2), (descriptor, out, 40, 64), check, {"BM": 16, "BN": 32}, (out,))


def case_program_ids() -> Case:
    out = torch.zeros(3 * 4 * 5, dtype=torch.int32)
    check = lambda: close(out, torch.full((60,), 30405))
    return Case(program_ids, (3, 4, 5), (out, 3, 4), check, {}, (out,))


def case_clusters() -> Case:
    x, y, out = torch.randn(1000), torch.randn(1000), torch.zeros(1000)
    check = lambda: close(out, x + y)
    return Case(masked_add, (4,), (x, y, out, 1000), check, {"BLOCK": 256, "num_ctas": 2}, (out,))


def case_no_bias() -> Case:
    x, out = torch.randn(32), torch.zeros(32)
    return Case(optional_bias, (1,), (x, None, out), lambda: close(out, x), {"BLOCK": 32}, (out,))


def case_bias() -> Case:
    x, bias, out = torch.randn(32), torch.randn(32), torch.zeros(32)
    return Case(optional_bias, (1,), (x, bias, out), lambda: close(out, x + bias), {"BLOCK": 32}, (out,))


def case_atomics() -> Case:
    counter = torch.zeros(16, dtype=torch.int32)
    return Case(count_up, (7,), (counter,), lambda: close(counter, torch.full((16,), 7)), {"BLOCK": 16}, (counter,))


def case_running_sum() -> Case:
    x, out = torch.randn(64), torch.zeros(64)
    check = lambda: close(out, x.cumsum(0), rtol=1e-5, atol=1e-5)
    return Case(running_sum, (1,), (x, out), check, {"BLOCK": 64}, (out,))


def case_pdl() -> Case:
    case = case_masked_add()
    case.options["launch_pdl"] = True
    return case


def case_eight_warps() -> Case:
    case = case_masked_add()
    case.options["num_warps"] = 8
    return case


def case_big_shared() -> Case:
    a, b, c = torch.randn(128, 128).half(), torch.randn(128, 128).half(), torch.zeros(128, 128)
    check = lambda: close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-2)
    options = {"BM": 128, "BK": 64, "num_stages": 3, "num_warps": 8}
    return Case(big_tiles, (1,), (a, b, c, 128), check, options, (c,))


CASES = {name.removeprefix("case_"): make for name, make in list(globals().items()) if name.startswith("case_")}


def launch(case: Case) -> Any:
    return case.kernel[case.grid](*case.args, **case.options)
