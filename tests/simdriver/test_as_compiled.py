"""The simulated driver runs a kernel as the compiler reads it, where Python reads the same source otherwise."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

pytestmark = pytest.mark.filterwarnings("ignore:Logical operators", "ignore:builtin m")


@triton.jit
def in_a_box(out, rows, cols, flag: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    inside = r < rows and c < cols and flag
    tl.store(out + r * C + c, 1, mask=inside)
    tl.store(out + r * C + c, 2, mask=inside and not (r > 0 or c > 0))


def test_and_or_not_are_elementwise(sim):
    out = torch.zeros(4, 8, dtype=torch.int32)
    in_a_box[(1,)](out, 2, 3, True, 4, 8)
    wanted = torch.zeros(4, 8, dtype=torch.int32)
    wanted[:2, :3] = 1
    wanted[0, 0] = 2
    assert torch.equal(out, wanted)


@triton.jit
def constant_decides(x, out, HAS: tl.constexpr):
    if HAS and tl.load(x) > 0:
        tl.store(out, 1)
    if not HAS or tl.load(x) > 0:
        tl.store(out + 1, 1)


def test_a_constant_decides_alone(sim):
    """What is behind it is not evaluated: `x` is empty."""
    out = torch.zeros(2, dtype=torch.int32)
    constant_decides[(1,)](torch.empty(0), out, False)
    assert out.tolist() == [0, 1]


@triton.jit
def both_sides(x, n, out):
    if n > 100 and tl.load(x) > 0:
        tl.store(out, 1)


def test_both_sides_of_tensors_are_evaluated(sim):
    """The compiler makes no branch of `and`: the load happens, and is out of bounds."""
    with pytest.raises(RuntimeError):
        both_sides[(1,)](torch.empty(0), 3, torch.zeros(1, dtype=torch.int32))
    with pytest.raises(Exception, match=r"both_sides.*argument 'x', which is an empty tensor"):
        sim.synchronize()


@triton.jit
def extremes(x, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    value = tl.load(x + at)
    tl.store(out + at, min(value, 1.0) + max(value, -1.0, 0.5))
    tl.store(out + B, min(n, 5))


def test_min_and_max_are_elementwise(sim):
    x, out = torch.randn(16), torch.empty(17)
    extremes[(1,)](x, out, 9, 16)
    assert torch.equal(out[:16], x.clamp(max=1.0) + x.clamp(min=0.5))
    assert out[16] == 5


@triton.jit
def counted(out):
    for i in range(-4, 4):
        tl.store(out + i + 4, (i // 3) * 100 + i % 3)
    for i in tl.range(-4, 4):
        tl.store(out + i + 12, (i // 3) * 100 + i % 3)


def test_a_loops_variable_is_a_number_of_the_device(sim):
    """Division rounds to zero there, and down in Python."""
    out = torch.empty(16, dtype=torch.int32)
    counted[(1,)](out)
    wanted = [int(i / 3) * 100 + i - 3 * int(i / 3) for i in range(-4, 4)]
    assert out.tolist() == wanted + wanted


@triton.jit
def any_and_every(any_a, every_a, any_b, every_b):
    return any_a or any_b, every_a and every_b


@triton.jit
def judged(x, out, B: tl.constexpr):
    value = tl.load(x + tl.arange(0, B))
    some, every = tl.reduce((value > 0, value > 1), 0, any_and_every)
    tl.store(out, some.to(tl.int32))
    tl.store(out + 1, every.to(tl.int32))


def test_a_function_that_combines_is_rewritten(sim):
    out = torch.empty(2, dtype=torch.int32)
    judged[(1,)](torch.tensor([0.0, 3.0, 0.0, 0.5]), out, 4)
    assert out.tolist() == [1, 0]


@triton.jit
def conversions(whole, single, double, brain, out, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out + at, tl.load(whole + at).to(tl.bfloat16))
    tl.store(out + B + at, tl.load(single + at).to(tl.bfloat16))
    tl.store(out + 2 * B + at, tl.load(double + at).to(tl.bfloat16))
    value = tl.load(brain + at)
    tl.store(out + 3 * B + at, tl.sort(value))
    tl.store(out + 4 * B, tl.sum(value, 0))
    tl.atomic_add(out + 4 * B + 1 + at // 2, value)


def test_bf16_of_other_numbers(sim):
    """Conversions round to nearest; sums, sorts and atomic additions are of numbers."""
    whole, single = torch.randint(-1000, 1000, (16,)), torch.randn(16)
    double, brain = torch.randn(16).double(), torch.randint(-9, 9, (16,)).bfloat16()
    out = torch.zeros(73).bfloat16()
    conversions[(1,)](whole, single, double, brain, out, 16)
    for i, wanted in enumerate([whole.bfloat16(), single.bfloat16(), double.bfloat16(), brain.sort()[0]]):
        assert torch.equal(out[16 * i : 16 * i + 16], wanted)
    assert out[64] == brain.float().sum()
    assert torch.equal(out[65:].float(), brain.float().view(8, 2).sum(1))
