"""Tensor descriptors made on the host: the map that the kernel gets is the one that Triton's launcher would encode, and
whatever says something else of the memory is a miss, or is left to Triton."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from support.routes import counts, routed, warm
from triton.tools.tensor_descriptor import TensorDescriptor

from trident_hook import integrations
from trident_hook.integrations import LauncherAdapter
from trident_hook.testing import simdriver


@triton.jit
def copy_block(x, y, at, N: tl.constexpr):
    y.store([at, 0], x.load([at, 0]))


@triton.jit
def copy_turned(x, y, N: tl.constexpr):
    y.store([0, 0], tl.trans(x.load([0, 0])))


def copied(x):
    y = torch.zeros_like(x)
    copy_block[(1,)](TensorDescriptor.from_tensor(x, [16, 32]), TensorDescriptor.from_tensor(y, [16, 32]), 0, 16)
    return y


def spelled_out(x):
    y = torch.zeros_like(x)
    source = TensorDescriptor(x, x.shape, x.stride(), [16, 32])
    result = TensorDescriptor(base=y, shape=list(y.size()), strides=[*y.stride()], block_shape=[16, 32], padding="zero")
    copy_block[(1,)](source, result, 0, 16)
    return y


def turned(x):
    """`x` is column-major: the descriptor is of its transpose."""
    y = torch.zeros(x.shape, dtype=x.dtype)
    copy_turned[(1,)](
        TensorDescriptor(x, x.T.shape, x.T.stride(), [32, 16]), TensorDescriptor.from_tensor(y, [16, 32]), 1
    )
    return y


def padded(x, y, padding):
    """A block that reaches beyond the tensor's end: what is there follows from the padding."""
    copy_block[(1,)](
        TensorDescriptor.from_tensor(x, [16, 32], padding), TensorDescriptor.from_tensor(y, [16, 32]), 0, 16
    )
    return y


@pytest.mark.parametrize("fn", [copied, spelled_out])
def test_shapes_vary(served, fn):
    fn = served(fn)
    warm(fn, torch.randn(16, 32))
    routed(fn, torch.randn(16, 32), launches=1)
    for shape in ((32, 48), (48, 64)):  # the sizes become symbols
        fn(torch.randn(*shape))
        fn(torch.randn(*shape))
    routed(fn, torch.randn(64, 80), launches=1)
    routed(fn, torch.randn(16, 34), raises=AssertionError, via=None)  # rows of 136 bytes
    routed(fn, torch.randn(16, 32).half(), via="dynamo")


def test_the_map_is_the_one_that_triton_makes(served):
    fn, x = served(turned), torch.randn(32, 16).t()
    warm(fn, x)
    simdriver.launches.clear()
    routed(fn, x, launches=1)  # the plain twin is called first
    stock, hit = (launch.params[:-2] for launch in simdriver.launches)
    assert [len(raw) for raw in stock] == [128, 4, 4, 8, 8] * 2
    assert stock[:5] == hit[:5]
    assert (stock[5][8:], stock[6:]) == (hit[5][8:], hit[6:])  # behind the address: each call has its own result


def test_dimensions_in_another_order(served):
    fn = served(turned)
    warm(fn, torch.randn(32, 16).t())
    routed(fn, torch.randn(32, 16).t(), launches=1)
    routed(fn, torch.randn(16, 32), raises=AssertionError, via=None)


def test_padding_is_kept(served):
    fn, x = served(padded), torch.randn(8, 32)
    for padding in ("nan", "zero"):
        warm(fn, x, torch.zeros(16, 32), padding, mutates=True)
        routed(fn, x, torch.zeros(16, 32), padding, launches=1, mutates=True)
    assert fn(x, torch.zeros(16, 32), "nan")[8:].isnan().all()
    assert not fn(x, torch.zeros(16, 32), "zero")[8:].any()


def test_memory_that_is_not_aligned(served):
    """Triton raises, and so does the served function; an aligned view is a hit."""
    fn = served(copied)
    base = torch.randn(16 * 32 + 4)
    warm(fn, base[:512].view(16, 32))
    routed(fn, base[4:].view(16, 32), launches=1)
    routed(fn, base[1:513].view(16, 32), raises=AssertionError, via=None)


def test_a_part_of_the_tensor_is_left_to_triton(served):
    def part(x):
        y = torch.zeros_like(x)
        source = TensorDescriptor(x, [8, 32], [32, 1], [16, 32])
        copy_block[(1,)](source, TensorDescriptor.from_tensor(y, [16, 32]), 0, 16)
        return y

    fn = served(part)
    for _ in range(3):
        routed(fn, torch.randn(16, 32), via=None, launches=0)


def test_a_descriptor_that_is_kept_is_the_programs_own(served):
    def keep(x):
        y = torch.zeros_like(x)
        source = TensorDescriptor.from_tensor(x, [16, 32], "nan")
        copy_block[(1,)](source, TensorDescriptor.from_tensor(y, [16, 32]), 0, 16)
        return y, source

    fn, x = served(keep), torch.randn(16, 32)
    for _ in range(3):
        y, source = fn(x)
        assert source.base is x
        assert source.padding == "nan"
        assert torch.equal(y, x)
    assert counts(fn).get("hits", 0) == 0


# -- tuners whose configs set the block ----------------------------------------------------------------------------------


def set_block(args) -> None:
    args["x"].block_shape = args["y"].block_shape = [args["N"], 32]


@triton.autotune([triton.Config({"N": 16}, num_warps=warps, pre_hook=set_block) for warps in (2, 4)], key=["at"])
@triton.jit
def tuned_copy(x, y, at, N: tl.constexpr):
    y.store([at, 0], x.load([at, 0]))


def copied_by_choice(x):
    y = torch.zeros_like(x)
    tuned_copy[(1,)](TensorDescriptor.from_tensor(x, [1, 32]), TensorDescriptor.from_tensor(y, [1, 32]), 0)
    return y


@pytest.fixture
def hook_is_described():
    integrations.register(LauncherAdapter("blocks", block_hooks=(set_block,)))
    yield
    integrations.unregister("blocks")


@pytest.mark.usefixtures("hook_is_described")
def test_a_hook_that_sets_the_block(served):
    fn = served(copied_by_choice)
    warm(fn, torch.randn(16, 32))
    routed(fn, torch.randn(16, 32), launches=1)


def test_a_hook_that_nobody_described(served):
    """It is traced."""
    fn = served(copied_by_choice)
    warm(fn, torch.randn(16, 32))
    routed(fn, torch.randn(16, 32), launches=1)
