"""The operators."""

from __future__ import annotations

import logging
import math

import torch
import triton
import triton.language as tl

from . import runtime
from .buffers import Strided
from .launchers import entry, tuner
from .pointwise import Pointwise

logger = logging.getLogger(__name__)


@entry()
@triton.jit(do_not_specialize=["eps"])
def rms_norm_kernel(y, inverse_rms, x, weight, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    value = tl.load(x + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    inverse = 1 / tl.sqrt(tl.sum(value * value, axis=0) / N + eps)
    tl.store(inverse_rms + row, inverse)
    scale = tl.load(weight + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y + row * N + cols, value * inverse * scale, mask=mask)


def rms_norm(x, normalized_shape, weight, eps=1e-5):
    logger.debug("MINI RMS_NORM %s", x.shape)
    dim = x.ndim - len(normalized_shape)
    M, N = math.prod(x.shape[:dim]), math.prod(normalized_shape)
    x, weight = x.contiguous(), weight.contiguous()
    y = torch.empty_like(x)
    inverse_rms = torch.empty((M,), device=x.device, dtype=torch.float32)
    with runtime.device(x.device):
        rms_norm_kernel[M,](y, inverse_rms, x, weight, N, eps, triton.next_power_of_2(N))
    return y, inverse_rms


@entry()
@triton.heuristics(
    {
        "BLOCK": lambda args: triton.next_power_of_2(args["N"]),
        "EVEN": lambda args: args["N"] == args["BLOCK"],
    }
)
@triton.jit
def double_rows_kernel(x, y, N, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    at = tl.program_id(0) * N + cols
    if EVEN:
        tl.store(y + at, tl.load(x + at) * 2)
    else:
        tl.store(y + at, tl.load(x + at, mask=cols < N) * 2, mask=cols < N)


def double_rows(x):
    logger.debug("MINI DOUBLE")
    x = x.contiguous()
    y = torch.empty_like(x)
    double_rows_kernel[(x.shape[0],)](x, y, x.shape[1])
    return y


def _by_columns(config, args) -> int:
    """Wide tiles for wide matrices."""
    return abs(config.kwargs["TILE"] - min(args["N"], 64))


@entry()
@tuner([triton.Config({"TILE": tile}, num_warps=2) for tile in (16, 32, 64)], key=["M", "N"], preference=_by_columns)
@triton.heuristics({"ROUND": lambda args: args["N"] % args["TILE"] == 0})
@triton.jit
def tag_tiles_kernel(x, y, M, N, TILE: tl.constexpr, ROUND: tl.constexpr):
    """Adds the tile's size, so that the answer tells which config was used."""
    cols = tl.program_id(1) * TILE + tl.arange(0, TILE)
    at = tl.program_id(0) * N + cols
    if ROUND:
        tl.store(y + at, tl.load(x + at) + TILE)
    else:
        tl.store(y + at, tl.load(x + at, mask=cols < N) + TILE, mask=cols < N)


def tag_tiles(x):
    logger.debug("MINI TAG %s", x.shape[1])
    M, N = x.shape
    y = torch.empty_like(x)
    grid = lambda meta: (M, triton.cdiv(N, meta["TILE"]))
    with runtime.device(x.device):
        tag_tiles_kernel[grid](x, y, M, N)
    return y


@entry()
@triton.jit
def silu_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(y + at, value * tl.sigmoid(value), mask=at < n)


_silu = Pointwise(silu_kernel, 1)


def silu(self):
    logger.debug("MINI SILU")
    return _silu(self)


def shifted_double(x, offset):
    """Doubles what lies behind an offset: the launch gets a pointer into the tensor."""
    y = torch.zeros_like(x)
    n = x.numel() - offset
    double_rows_kernel[(1,)](Strided(x, (n,), (1,), offset=offset), Strided(y, (n,), (1,)), n)
    return y


def sm_count_of(x):
    """The property of the device that a library asks once."""
    y = torch.empty_like(x)
    double_rows_kernel[(1,)](x, y, x.numel())
    return y, runtime.sm_count()


@entry()
@triton.autotune([triton.Config({"BLOCK": 64}, num_warps=2)], key=["n"])
@triton.jit
def triple_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 3, mask=at < n)


def triple(x):
    """Triton's own autotuner inside; a product of a generator."""
    y = torch.empty_like(x, dtype=torch.result_type(x, 1))
    n = math.prod(size for size in x.shape)
    triple_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n)
    return y


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})
@triton.jit
def bare_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


def bare_heuristics(x):
    """No launcher of the library's: Triton's heuristics alone."""
    y = torch.empty_like(x)
    bare_kernel[(1,)](x, y, x.numel())
    return y


def uses_the_result(x):
    y = torch.empty_like(x)
    compiled, _ = double_rows_kernel[(1,)](x, y, x.numel())
    return y, compiled is not None
