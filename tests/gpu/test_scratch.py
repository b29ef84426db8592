"""Scratch memory on real hardware: descriptors that the kernel makes itself need memory from Triton's allocator."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from support.routes import routed, warm
from triton.runtime._allocation import NullAllocator

import trident_hook

pytestmark = pytest.mark.gpu


@triton.jit
def product(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Persistent: each program walks over the tiles of the result."""
    left = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[M, K])
    right = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[N, K])
    result = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[M, N])
    across = tl.cdiv(n, N)
    for tile in range(tl.program_id(0), tl.cdiv(m, M) * across, tl.num_programs(0)):
        row, column = tile // across * M, tile % across * N
        total = tl.zeros((M, N), dtype=tl.float32)
        for at in range(0, k, K):
            total = tl.dot(left.load([row, at]), right.load([column, at]).T, total)
        result.store([row, column], total.to(tl.float16))


def matmul(a, b):
    c = torch.empty(a.shape[0], b.shape[0], device=a.device, dtype=a.dtype)
    product[(8,)](a, b, c, a.shape[0], b.shape[0], a.shape[1], M=64, N=64, K=64)
    return c


def test_a_persistent_product_with_descriptors_of_the_device():
    asked = []

    def allocate(size, alignment, stream):
        asked.append((size, stream))
        return torch.empty(size, device="cuda", dtype=torch.int8)

    a, b = (torch.randn(256, 128, device="cuda", dtype=torch.float16) for _ in range(2))
    triton.set_allocator(allocate)
    try:
        fn = trident_hook.jit(matmul)
        warm(fn, a, b)
        for _ in range(20):
            routed(fn, a, b, via="scm", launches=1)
        torch.testing.assert_close(fn(a, b), a @ b.T, rtol=1e-2, atol=1e-1)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            fn(a, b)
        assert asked[-1] == (asked[0][0], stream.cuda_stream)
        triton.set_allocator(NullAllocator())
        with pytest.raises(RuntimeError):
            fn(a, b)
        assert trident_hook.counts(fn)["errors"] == 1
    finally:
        triton.set_allocator(NullAllocator())
        torch.cuda.synchronize()
