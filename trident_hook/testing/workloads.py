"""Plain PyTorch and Triton functions: what the demo shows, the benchmarks measure and many tests run.

Written as users write them; nothing here knows of trident_hook. They work on CUDA tensors, and on CPU tensors with
`simdriver`. Importing this module defines functions and changes nothing else.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl


@triton.jit
def _rms_norm_kernel(x, weight, y, rstd, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    value = tl.load(x + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    inverse = tl.rsqrt(tl.sum(value * value, axis=0) / N + eps)
    tl.store(rstd + row, inverse)
    scale = tl.load(weight + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y + row * N + cols, (value * inverse * scale).to(y.dtype.element_ty), mask=mask)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> tuple[torch.Tensor, torch.Tensor]:
    """Root mean square normalisation over the last dimension. Returns (y, 1 / rms of each row)."""
    M = math.prod(x.shape[:-1])
    N = x.shape[-1]
    x = x.contiguous()
    weight = weight.contiguous()
    y = torch.empty_like(x)
    rstd = torch.empty((M,), dtype=torch.float32, device=x.device)
    _rms_norm_kernel[(M,)](x, weight, y, rstd, N, eps, BLOCK=triton.next_power_of_2(N))
    return y, rstd


@triton.jit
def _silu_kernel(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x + offsets, mask=mask).to(tl.float32)
    tl.store(y + offsets, (value * tl.sigmoid(value)).to(y.dtype.element_ty), mask=mask)


def silu(x: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(x), for a dense tensor."""
    y = torch.empty_like(x)
    n = x.numel()
    _silu_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=1024)
    return y


@triton.jit
def _add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x + y, for dense tensors of the same shape and layout."""
    out = torch.empty_like(x)
    n = x.numel()
    _add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=1024)
    return out


@triton.jit
def _masked_fill_kernel(x, mask, out, value, n, rows, cols, m0, m1, m2, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    col = offsets % cols
    row = (offsets // cols) % rows
    batch = offsets // (cols * rows)
    chosen = tl.load(mask + batch * m0 + row * m1 + col * m2, mask=inside, other=0)
    kept = tl.load(x + offsets, mask=inside)
    tl.store(out + offsets, tl.where(chosen != 0, value, kept), mask=inside)


def masked_fill(x: torch.Tensor, mask: torch.Tensor, value: float) -> torch.Tensor:
    """`value` where the mask (bool, broadcast to x, at most 3 dimensions) is set, else x."""
    x = x.contiguous()
    shape = (1,) * (3 - x.dim()) + tuple(x.shape)
    spread = mask.expand(shape)
    out = torch.empty_like(x)
    n = x.numel()
    _masked_fill_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](
        x, spread, out, value, n, shape[1], shape[2], *spread.stride(), BLOCK=1024
    )
    return out


def _matmul_configs() -> list[triton.Config]:
    return [
        triton.Config({"BM": 32, "BN": 32, "BK": 32}, num_warps=4, num_stages=2),
        triton.Config({"BM": 64, "BN": 64, "BK": 32}, num_warps=4, num_stages=3),
    ]


@triton.autotune(configs=_matmul_configs(), key=["M", "N", "K"])
@triton.jit
def _matmul_kernel(a, b, c, M, N, K, am, ak, bk, bn, cm, cn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        inside = start + depth < K
        left = tl.load(
            a + rows[:, None] * am + (start + depth)[None, :] * ak,
            mask=(rows[:, None] < M) & inside[None, :],
            other=0.0,
        )
        right = tl.load(
            b + (start + depth)[:, None] * bk + cols[None, :] * bn,
            mask=inside[:, None] & (cols[None, :] < N),
            other=0.0,
        )
        total = tl.dot(left, right, total, input_precision="ieee")
    where = c + rows[:, None] * cm + cols[None, :] * cn
    tl.store(where, total.to(c.dtype.element_ty), mask=(rows[:, None] < M) & (cols[None, :] < N))


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b for matrices of any strides, with an autotuned tile."""
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    _matmul_kernel[lambda meta: (triton.cdiv(M, meta["BM"]), triton.cdiv(N, meta["BN"]))](
        a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride()
    )
    return c
