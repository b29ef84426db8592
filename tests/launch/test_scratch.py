"""Scratch memory of launches: Triton's allocators are those of the moment, and what they give lives until the launch."""

from __future__ import annotations

import contextvars
import weakref

import pytest
import torch
import triton
from support.routes import routed, twin
from triton.runtime._allocation import NullAllocator

import trident_hook
from trident_hook.testing import simdriver

from . import corpus
from . import kernels as k

X, Y = corpus.SQUARE, corpus.SQUARE_OUT


def through_scratch(x, y):
    k.scratch[(2, 3)](x, y, 64, 64, BLOCK=32)


class Allocator:
    def __init__(self) -> None:
        self.asked, self.given = [], []

    def __call__(self, size, alignment, stream):
        self.asked.append((size, alignment, stream))
        memory = torch.empty(size + 128, dtype=torch.int8)
        self.given.append((memory.data_ptr(), weakref.ref(memory)))
        return memory


@pytest.fixture
def served():
    triton.set_allocator(Allocator())
    fn = trident_hook.jit(twin(through_scratch))
    fn(X, Y)
    routed(fn, X, Y, via="scm", launches=1)
    yield fn
    triton.set_allocator(NullAllocator())


def global_scratch() -> int:
    """Of the last launch: the last parameter but one."""
    return int.from_bytes(simdriver.launches[-1].params[-2], "little")


def test_the_allocator_of_the_moment_is_asked_what_triton_asks(served):
    stock, ours = Allocator(), Allocator()
    with simdriver.stream(77):
        triton.set_allocator(stock)
        twin(through_scratch)(X, Y)
        triton.set_allocator(ours)
        hits = trident_hook.counts(served)["hits"]
        served(X, Y)
    assert trident_hook.counts(served)["hits"] == hits + 1
    assert ours.asked == stock.asked
    assert len(ours.asked) == 1
    assert ours.asked[0][2] == 77
    assert global_scratch() == ours.given[0][0]
    assert ours.given[0][1]() is None, "the memory outlives the launch"


def test_each_context_has_its_own_allocator(served):
    other = Allocator()

    def inside():
        triton.set_allocator(other)
        served(X, Y)

    contextvars.copy_context().run(inside)
    served(X, Y)
    assert len(other.asked) == 1


@pytest.mark.parametrize(("allocator", "error"), [
    (NullAllocator(), RuntimeError),
    (lambda *_: object(), TypeError),
    (lambda *_: 1 / 0, ZeroDivisionError),
], ids=["none", "no pointer", "raises"])  # fmt: skip
def test_errors_are_stock_errors(served, allocator, error):
    triton.set_allocator(allocator)
    for fn in (twin(through_scratch), served):
        launches = len(simdriver.launches)
        with pytest.raises(error):
            fn(X, Y)
        assert len(simdriver.launches) == launches
    assert trident_hook.counts(served)["errors"] == 1
    triton.set_allocator(Allocator())
    routed(served, X, Y, via="scm", launches=1)
