"""Scratch memory of launches: Triton's allocators are those of the moment, and what they give lives until the launch."""

from __future__ import annotations

import contextvars
import weakref

import pytest
import torch
import triton
from support.routes import routed, twin
from triton.runtime._allocation import NullAllocator, set_profile_allocator

import trident_hook
from trident_hook.testing import simdriver

from . import corpus
from . import kernels as k

X, Y = corpus.SQUARE, corpus.SQUARE_OUT


def through_scratch(x, y):
    k.scratch[(2, 3)](x, y, 64, 64, BLOCK=32)


class Allocator:
    def __init__(self) -> None:
        self.asked, self.given, self.then = [], [], lambda: None

    def __call__(self, size, alignment, stream):
        self.asked.append((size, alignment, stream))
        self.then()
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


# -- profile memory ------------------------------------------------------------------------------------------------------


def wanting_profile_memory(kernel, num_ctas: int, *args, **constants):
    """The kernel, and a binary of it that says that it wants 48 bytes for each program. Only instrumentation makes Triton
    compile such ones, so this is written into the metadata, from which both launchers take it."""
    kernel = triton.jit(kernel.fn)
    if num_ctas > 1:
        kernel = triton.autotune([triton.Config({}, num_ctas=num_ctas)], key=[])(kernel)
    compiled = kernel.warmup(*args, **constants, grid=(1,))
    for binary in compiled if isinstance(compiled, list) else [compiled]:
        binary.metadata = binary.metadata._replace(profile_scratch_size=48, profile_scratch_align=64)
    return kernel


def last_two() -> list[int]:
    """The scratch parameters of the last launch: global, profile."""
    return [int.from_bytes(raw, "little") for raw in simdriver.launches[-1].params[-2:]]


@pytest.fixture
def no_allocators():
    yield
    triton.set_allocator(NullAllocator())
    set_profile_allocator(None)


@pytest.mark.usefixtures("no_allocators")
@pytest.mark.parametrize("num_ctas", [1, 2])
def test_profile_memory(num_ctas):
    """Triton's other allocator is asked for it, which is one for all contexts."""
    kernel = wanting_profile_memory(k.copy, num_ctas, corpus.X, corpus.Y, 96, BLOCK=64)
    fn = trident_hook.jit(twin(lambda x, y: kernel[(2, 3)](x, y, 96, BLOCK=64)))
    stock, ours = Allocator(), Allocator()
    set_profile_allocator(stock)
    fn(corpus.X, corpus.Y)
    stock.asked.clear()
    with simdriver.stream(77):
        twin(fn)(corpus.X, corpus.Y)
        set_profile_allocator(ours)
        contextvars.Context().run(routed_alone, fn, corpus.X, corpus.Y)
    assert ours.asked == stock.asked == [(2 * 3 * num_ctas * 48, 64, 77)]
    assert last_two() == [0, ours.given[0][0]]
    assert ours.given[0][1]() is None, "the memory outlives the launch"
    set_profile_allocator(None)
    with pytest.raises(RuntimeError, match="no allocator was set"):
        fn(corpus.X, corpus.Y)
    assert trident_hook.counts(fn)["errors"] == 1


def routed_alone(fn, *args) -> None:
    """A hit, without a call of the plain function."""
    hits = trident_hook.counts(fn)["hits"]
    fn(*args)
    assert trident_hook.counts(fn)["hits"] == hits + 1


@pytest.mark.usefixtures("no_allocators")
def test_both_kinds_of_memory():
    kernel = wanting_profile_memory(k.scratch, 1, X, Y, 64, 64, BLOCK=32)
    fn = trident_hook.jit(twin(lambda x, y: kernel[(2, 3)](x, y, 64, 64, BLOCK=32)))
    kinds, asked = (Allocator(), Allocator()), []
    kinds[0].then, kinds[1].then = lambda: asked.append("global"), lambda: asked.append("profile")
    triton.set_allocator(kinds[0])
    set_profile_allocator(kinds[1])
    fn(X, Y)
    for call in (twin(fn), fn):
        for kind in kinds:
            kind.asked.clear(), kind.given.clear()
        asked.clear()
        call(X, Y)
        assert asked == ["global", "profile"]
        assert last_two() == [kinds[0].given[0][0], kinds[1].given[0][0]]
        assert [kind.asked[0][0] for kind in kinds] == [6 * kernel_global_size(kernel), 6 * 48]
    assert trident_hook.counts(fn)["hits"] == 1


def kernel_global_size(kernel) -> int:
    (compiled,) = kernel.device_caches[0][0].values()
    return compiled.metadata.global_scratch_size
