"""What Triton's own interpreter does not know: arithmetic of bf16, libdevice, a loop whose variable is a tensor."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from trident_hook.testing import bfloat16, simdriver


@triton.jit
def scaled(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.where(value < 0, 0.5 * value, value * value), mask=at < n)


@triton.jit
def special(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.store(y + at, libdevice.erf(value) + libdevice.tanh(value) + libdevice.pow(value, 2.0))


@triton.jit
def summed(x, y, n):
    total = tl.zeros((1,), tl.float32)
    for i in range(n):
        total += tl.load(x + (i * 2).to(tl.int64) + tl.arange(0, 1))
    tl.store(y + tl.arange(0, 1), total)


def test_bf16_is_calculated_as_numbers():
    simdriver.install()
    x, y = torch.randn(64).bfloat16(), torch.empty(64).bfloat16()
    scaled[(1,)](x, y, 64, 64)
    simdriver.synchronize()
    assert torch.equal(y, torch.where(x < 0, 0.5 * x, x * x))


def test_rounding_is_pytorchs():
    values = torch.cat([torch.randn(1000) * 10.0**e for e in range(-30, 31, 5)])
    values = torch.cat(
        [values, torch.tensor([0.0, -0.0, 1 + 2**-8, 1 + 3 * 2**-8, float("inf"), float("nan"), 3.4e38])]
    )
    expected = values.bfloat16()
    bits = torch.from_numpy(bfloat16.rounded(values.numpy()).view("int16"))
    assert torch.equal(bits.view(torch.bfloat16).nan_to_num(7), expected.nan_to_num(7))
    assert torch.equal(
        torch.from_numpy(bfloat16.widened(bits.numpy().view("uint16"))).nan_to_num(7), expected.float().nan_to_num(7)
    )


def test_libdevice():
    simdriver.install()
    x, y = torch.randn(64), torch.empty(64)
    special[(1,)](x, y, 64)
    simdriver.synchronize()
    assert torch.allclose(y, torch.erf(x) + torch.tanh(x) + x**2, atol=1e-6)


def test_a_loop_over_a_runtime_bound():
    simdriver.install()
    x, y = torch.arange(20.0), torch.empty(1)
    summed[(1,)](x, y, 7)
    simdriver.synchronize()
    assert y.item() == 42.0
