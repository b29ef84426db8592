"""An access outside of the tensors of a launch is an error that names the kernel and the argument."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import trident_hook
from trident_hook import _rt
from trident_hook.testing import interpret

OLDER = torch.zeros(8)


@triton.jit
def copy(x, y, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, tl.load(x + at), mask=at < n)


@triton.jit
def through_block_pointers(x, y, first, B: tl.constexpr):
    source = tl.make_block_ptr(x, (B,), (1,), (first,), (B,), (0,))
    target = tl.make_block_ptr(y, (B,), (1,), (0,), (B,), (0,))
    tl.store(target, tl.load(source))


@triton.jit
def through_a_table(table, y, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, tl.load(tl.load(table).to(tl.pointer_type(tl.float32)) + at))


@triton.jit
def either(x, y, apart, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(tl.where(at > 1, x + at, y + at + apart), 1.0)


@triton.jit
def add_far(x):
    tl.atomic_add(x + 100, 1.0)


def fails(sim, message: str, kernel, *args, **options) -> None:
    with pytest.raises(RuntimeError, match="unspecified launch failure"):
        kernel[(1,)](*args, **options)
    with pytest.raises(interpret.KernelError, match=f"{kernel.fn.__name__}.*{message}"):
        sim.synchronize()


def test_what_lies_inside_is_allowed(sim):
    x = torch.randn(20)
    for source, target, n in ((x, torch.empty(16), 16), (x[4:], torch.empty(10), 10), (x, torch.empty(20)[4:], 16)):
        copy[(1,)](source, target, n, B=16)
        assert torch.equal(target[:n], source[:n])


@pytest.mark.parametrize("made", ["by PyTorch", "before the simulation", "of an array", "as a view", "empty"])
def test_loads_name_their_argument(sim, made):
    x = {
        "by PyTorch": lambda: torch.zeros(10),
        "before the simulation": lambda: OLDER,
        "of an array": lambda: torch.from_numpy(np.zeros(8, np.float32)),
        "as a view": lambda: torch.zeros(20)[8:],
        "empty": lambda: torch.zeros(0),
    }[made]()
    fails(sim, "a load of 4 bytes through argument 'x'", copy, x, torch.zeros(16), 16, B=16)


def test_stores_name_their_argument(sim):
    y = torch.zeros(10)
    fails(sim, "a store of 4 bytes through argument 'y' at 40 bytes", copy, torch.ones(16), y, 16, B=16)
    assert not y.any()


def test_pointers_of_other_kinds(sim):
    x, y, short = torch.zeros(16), torch.zeros(16), torch.zeros(12)
    fails(sim, "argument 'x'", through_block_pointers, x, y, 4, B=16)
    fails(sim, "an atomic operation.*argument 'x'", add_far, x)
    fails(sim, "argument 'x' or argument 'y'", either, x, y, 1000, B=16)
    through_block_pointers[(1,)](x, y, 0, B=16)
    through_a_table[(1,)](torch.tensor([x.data_ptr()]), y, B=16)
    fails(sim, "made of an integer", through_a_table, torch.tensor([short.data_ptr()]), y, B=16)


def test_another_tensor_is_outside_too(sim):
    both = [torch.zeros(16), torch.zeros(16)]
    distance = (both[1].data_ptr() - both[0].data_ptr()) // 4
    apart = torch.zeros(1)
    fails(sim, "argument 'x' or argument 'y'", either, apart, both[0], distance, B=2)
    assert not both[1].any()


def test_native_launches_are_checked(sim, monkeypatch):
    """What a hit allocates is known too, though Python never has it before the launch."""

    def first(x, n):
        y = torch.empty(10)
        copy[(1,)](x, y, n, B=16)
        return y

    monkeypatch.setattr(trident_hook.config, "build", "sync")
    x = torch.randn(16)
    served = trident_hook.jit(first)
    for n in (9, 10, 7, 6):
        assert torch.equal(served(x, n)[:n], x[:n])
    hits = trident_hook.counts(served)["hits"]
    with pytest.raises(RuntimeError):
        served(x, 13)
    counts = trident_hook.counts(served)
    assert counts["hits"] + counts["errors"] > hits
    with pytest.raises(interpret.KernelError, match=r"copy.*a store of 4 bytes through argument 'y' at 40 bytes"):
        sim.synchronize()


def test_it_can_be_turned_off(sim):
    storage = torch.zeros(32)
    sim.state.check_bounds = False
    try:
        copy[(1,)](torch.ones(16), storage[:8], 16, B=16)
        assert _rt.noted_memory(torch.zeros(8).data_ptr()) is None
    finally:
        sim.state.check_bounds = True
    assert storage[:16].all()


def test_memory_is_forgotten_with_its_tensor(sim):
    x = torch.zeros(1 << 20)
    address = x.data_ptr()
    assert _rt.noted_memory(address + 4) == (address, address + (4 << 20))
    assert _rt.noted_memory(address + (4 << 20)) != (address, address + (4 << 20))
    del x
    gc.collect()
    assert _rt.noted_memory(address + 4) is None


def test_scratch_memory_of_kernels_is_released():
    """oneDNN's gelu allocates and releases memory without a tensor around it."""
    x = torch.randn(64, 64)
    assert torch.allclose(torch.nn.functional.gelu(x), x * 0.5 * (1 + torch.erf(x / 2**0.5)), atol=1e-5)
