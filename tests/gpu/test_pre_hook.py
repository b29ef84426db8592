"""The `pre_hook` of a tuner's configs on real hardware: matrix products through tensor maps, as in Triton's tutorials, whose
blocks the hook sets, and hooks that write to memory. Results are those of the plain function, bit for bit."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from support.routes import counted, routed, twin, warm
from triton.tools.tensor_descriptor import TensorDescriptor

import trident_hook

pytestmark = pytest.mark.gpu


@pytest.fixture
def tensor_maps():
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("no tensor maps: compute capability 9.0 and later")


def set_blocks(nargs) -> None:
    if not isinstance(nargs["a"], TensorDescriptor):
        return
    block_m, block_n, block_k = nargs["BLOCK_M"], nargs["BLOCK_N"], nargs["BLOCK_K"]
    nargs["a"].block_shape = [block_m, block_k]
    nargs["b"].block_shape = [block_n, block_k]
    nargs["c"].block_shape = [block_m, block_n // 2 if nargs.get("EPILOGUE_SUBTILE", False) else block_n]


def configs() -> list:
    sizes = ((128, 128, 64, 4), (128, 256, 64, 8), (64, 128, 128, 4))
    return [triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "EPILOGUE_SUBTILE": subtile},
                          num_warps=warps, num_stages=3, pre_hook=set_blocks)
            for m, n, k, warps in sizes for subtile in (True, False)]  # fmt: skip


@triton.autotune(configs(), key=["M", "N", "K"])
@triton.jit
def product(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
            EPILOGUE_SUBTILE: tl.constexpr):  # fmt: skip
    at_m, at_n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        total = tl.dot(a.load([at_m, k * BLOCK_K]), b.load([at_n, k * BLOCK_K]).T, total)
    if EPILOGUE_SUBTILE:
        first, second = tl.split(tl.permute(tl.reshape(total, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1)))
        c.store([at_m, at_n], first.to(tl.float16))
        c.store([at_m, at_n + BLOCK_N // 2], second.to(tl.float16))
    else:
        c.store([at_m, at_n], total.to(tl.float16))


def matmul(a, b):
    (M, K), N = a.shape, b.shape[0]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    dummy = [1, 1]
    a_desc = TensorDescriptor(a, a.shape, a.stride(), dummy)
    b_desc = TensorDescriptor.from_tensor(b, dummy)
    c_desc = TensorDescriptor(c, c.shape, c.stride(), dummy)
    product[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))](
        a_desc, b_desc, c_desc, M, N, K
    )
    return c


def operands(m: int, n: int, k: int):
    return torch.randn(m, k, device="cuda").half(), torch.randn(n, k, device="cuda").half()


def test_products_whose_blocks_the_hook_sets(tensor_maps):
    fn = trident_hook.jit(twin(matmul))
    shapes = ((512, 512, 256), (1024, 768, 512), (384, 1024, 128))
    for shape in shapes:
        a, b = operands(*shape)
        torch.testing.assert_close(matmul(a, b).float(), a.float() @ b.float().T, atol=0.1, rtol=0.02)
        for _ in range(3):
            fn(a, b)
    for shape in shapes * 3:
        routed(fn, *operands(*shape), via="scm", launches=1)
    assert trident_hook.counts(fn)["errors"] == 0


@pytest.mark.parametrize("index", range(6))
def test_each_config(tensor_maps, index):
    """Alone, so that it is chosen: each box and swizzle is the one that Triton's launcher encodes."""
    one = triton.autotune([configs()[index]], key=[])(product.fn)

    def through_one(a, b, c):
        descriptors = [TensorDescriptor.from_tensor(tensor, [1, 1]) for tensor in (a, b, c)]
        grid = lambda meta: (triton.cdiv(512, meta["BLOCK_M"]), triton.cdiv(512, meta["BLOCK_N"]))
        one[grid](*descriptors, 512, 512, 256)

    fn = trident_hook.jit(twin(through_one))
    a, b = operands(512, 512, 256)
    ours, theirs = (torch.zeros(512, 512, device="cuda").half() for _ in range(2))
    for via in ("dynamo", "scm", "scm"):
        twin(fn)(a, b, theirs.zero_())
        with counted(fn) as added:
            fn(a, b, ours.zero_())
        assert (added["hits"], added["rt_launch"], added["rt_launch_python"]) == (
            (1, 1, 0) if via == "scm" else (0, 0, 0)
        )
        assert torch.equal(ours, theirs)


def zeroes(nargs) -> None:
    nargs["y"].zero_()
    nargs["count"].add_(1)


@triton.autotune(
    [triton.Config({"BLOCK": 256}, pre_hook=zeroes), triton.Config({"BLOCK": 1024}, num_warps=8, pre_hook=zeroes)],
    key=["n"],
)
@triton.jit
def add_up(x, y, count, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + i % 64, tl.load(x + i, mask=i < n, other=0.0), mask=i < n)


def summed(x, y, count):
    n = x.numel()
    add_up[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, count, n)
    return y + 1


def test_a_hook_that_writes():
    """Whole numbers, so that the order of the additions does not matter. The hook runs once a launch."""
    fn = trident_hook.jit(twin(summed))
    x = torch.randint(0, 10, (1 << 16,), device="cuda").float()
    y, count = torch.full((64,), 3.0, device="cuda"), torch.zeros(1, device="cuda")
    warm(fn, x, y, count)
    before = count.clone()
    for _ in range(20):
        with counted(fn) as added:
            got = fn(x, y, count)
        assert (added["hits"], added["rt_launch"]) == (1, 1)
        assert torch.equal(got, x.view(-1, 64).sum(0) + 1)
    assert torch.equal(count, before + 20)


def test_a_hook_under_a_cuda_graph():
    """What the hook does is part of the graph."""
    fn = trident_hook.jit(twin(summed))
    x = torch.randint(0, 10, (1 << 16,), device="cuda").float()
    y, count = torch.zeros(64, device="cuda"), torch.zeros(1, device="cuda")
    warm(fn, x, y, count)
    graph = torch.cuda.CUDAGraph()
    with counted(fn) as added, torch.cuda.graph(graph):
        got = fn(x, y, count)
    assert added["hits"] == 1
    before = count.clone()
    for _ in range(10):
        graph.replay()
    assert torch.equal(got, x.view(-1, 64).sum(0) + 1)
    assert torch.equal(count, before + 10)
