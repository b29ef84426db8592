"""The demo's functions against PyTorch, one launch each."""

from __future__ import annotations

import pytest
import torch

from trident_hook.testing import workloads


@pytest.mark.parametrize("shape", [(7, 128), (3, 5, 100), (64,)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_rms_norm(sim, shape, dtype):
    x, weight = torch.randn(shape).to(dtype), torch.randn(shape[-1]).to(dtype)
    y, rstd = workloads.rms_norm(x, weight)
    expected = torch.rsqrt(x.float().square().mean(-1) + 1e-6)
    torch.testing.assert_close(rstd, expected.reshape(-1))
    torch.testing.assert_close(y, (x.float() * expected[..., None] * weight.float()).to(dtype), rtol=1e-2, atol=1e-2)
    assert len(sim.launches) == 1


def test_rms_norm_of_strided(sim):
    x, weight = torch.randn(128, 6).t(), torch.randn(256)[::2]
    y, _ = workloads.rms_norm(x, weight, eps=0.1)
    torch.testing.assert_close(y, x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 0.1) * weight)
    assert y.is_contiguous()


@pytest.mark.parametrize("shape", [(1,), (1024,), (33, 77)], ids=str)
def test_silu_and_add(sim, shape):
    x, y = torch.randn(shape), torch.randn(shape)
    torch.testing.assert_close(workloads.silu(x), torch.nn.functional.silu(x))
    torch.testing.assert_close(workloads.add(x, y), x + y)
    assert len(sim.launches) == 2


@pytest.mark.parametrize("mask_shape", [(3, 5, 7), (5, 1), (7,), (3, 1, 1), (1,)], ids=str)
def test_masked_fill(sim, mask_shape):
    x, mask = torch.randn(3, 5, 7), torch.rand(mask_shape) > 0.5
    torch.testing.assert_close(workloads.masked_fill(x, mask, -1.25), x.masked_fill(mask, -1.25))


def test_masked_fill_of_a_vector(sim):
    x, mask = torch.randn(50), torch.rand(50) > 0.5
    torch.testing.assert_close(workloads.masked_fill(x, mask, float("-inf")), x.masked_fill(mask, float("-inf")))


def test_matmul(sim):
    a, b = torch.randn(50, 70), torch.randn(33, 70).t()
    torch.testing.assert_close(workloads.matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
    launched = len(sim.launches)
    assert launched > 2  # the autotuner tried each configuration
    workloads.matmul(a, b)
    assert len(sim.launches) == launched + 1
