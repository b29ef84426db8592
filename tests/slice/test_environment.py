"""What a function reads besides its arguments: globals, kernels, closures, defaults, patched operators."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from support import programs, routes
from support.routes import routed, same, twin, warm

import trident_hook

X = torch.arange(32, dtype=torch.float32)


def test_a_changed_global(through, monkeypatch):
    fn = through(programs.scaled)
    warm(fn, X)
    monkeypatch.setattr(programs, "SCALE", 3.0)
    routed(fn, X, via="dynamo", reason="SCALE")
    routed(fn, X, via="scm")
    monkeypatch.setattr(programs, "SCALE", 2.0)
    routed(fn, X, via="scm")


def test_a_deleted_global(served, monkeypatch):
    fn = served(programs.scaled)
    warm(fn, X)
    monkeypatch.delattr(programs, "SCALE")
    routed(fn, X, via="dynamo", raises=NameError)
    monkeypatch.undo()
    routed(fn, X, via="scm")


def test_another_kernel_under_the_same_name(through, monkeypatch):
    fn = through(programs.through_global)
    warm(fn, X)
    monkeypatch.setattr(programs, "kernel", programs.stretch_kernel)
    assert torch.equal(routed(fn, X, via="dynamo", reason="kernel"), X * 3)
    assert torch.equal(routed(fn, X, via="scm"), X * 3)
    monkeypatch.setattr(programs, "kernel", programs.shift_kernel)
    assert torch.equal(routed(fn, X, via="scm"), X + 3)


ADDEND = tl.constexpr(3)


@triton.jit
def reading_a_global(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y + offsets, tl.load(x + offsets, mask=mask) + ADDEND, mask=mask)


def add_the_global(x):
    y = torch.empty_like(x)
    reading_a_global[(1,)](x, y, x.numel(), BLOCK=64)
    return y


def test_a_global_of_the_kernel(served, monkeypatch):
    """Triton refuses a kernel whose constexpr global has changed since it was compiled: so must the specialization."""
    import sys

    fn = served(add_the_global)
    warm(fn, X)
    monkeypatch.setattr(sys.modules[__name__], "ADDEND", tl.constexpr(4))
    routed(fn, X, via="dynamo", raises=RuntimeError)
    monkeypatch.undo()
    routed(fn, X, via="scm")


@triton.jit
def patched_in_place(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y + offsets, tl.load(x + offsets, mask=mask) + 3, mask=mask)


def add_three(x):
    y = torch.empty_like(x)
    patched_in_place[(1,)](x, y, x.numel(), BLOCK=64)
    return y


def test_a_kernel_with_another_source(served):
    """JITFunction._unsafe_update_src is how tools patch a kernel in place."""
    fn, source = served(add_three), patched_in_place.src
    warm(fn, X)
    patched_in_place._unsafe_update_src(source.replace("+ 3, mask", "- 3, mask"))
    patched_in_place.device_caches.clear()
    try:
        routed(fn, X, via="dynamo")
        routed(fn, X, via="scm")
    finally:
        patched_in_place._unsafe_update_src(source)
        patched_in_place.device_caches.clear()


def test_a_changed_closure_cell(through):
    shifted, change = programs.closing_over(3)
    shifted.__code__ = shifted.__code__.replace()
    fn = through(shifted)
    assert torch.equal(warm(fn, X), X + 3)
    change(4)
    assert torch.equal(routed(fn, X, via="dynamo"), X + 4)
    change(3)
    assert torch.equal(routed(fn, X, via="scm"), X + 3)


def test_a_closure_that_is_made_anew_for_each_call(through):
    """One code object, many functions: they share the specializations, and each sees its own cell."""
    make = _with_inner_code_of_its_own(programs.closing_over)
    first = make(3)[0]
    if through.door == "jit":
        functions = [trident_hook.jit(f) for f in (first, make(4)[0], make(3)[0], make(5)[0])]
    else:
        through.stack.enter_context(routes.door(through.door, first))
        functions = [first, make(4)[0], make(3)[0], make(5)[0]]
    for fn, a in zip(functions, (3, 4, 3, 5), strict=True):
        for _ in range(2):
            assert torch.equal(fn(X), X + a)
    if through.door != "call":  # a function that was not seen yet gets its call door when the hook sees it, or at birth
        for fn, a in zip(functions, (3, 4, 3, 5), strict=True):
            assert torch.equal(routed(fn, X, via="scm"), X + a)


def _with_inner_code_of_its_own(outer):
    fn = twin(outer)
    inner = [c.replace() if isinstance(c, type(fn.__code__)) else c for c in fn.__code__.co_consts]
    fn.__code__ = fn.__code__.replace(co_consts=tuple(inner))
    return fn


class Settings:
    factor = 3


def with_class_attribute(x):
    return programs.shift(x, 3) * Settings.factor


def test_a_changed_class_attribute(served, monkeypatch):
    """Dynamo itself has no guard on attributes of a class that is read as a global."""
    fn = served(with_class_attribute_only)
    warm(fn, X)
    monkeypatch.setattr(Settings, "factor", 4)
    routed(fn, X, via="dynamo")
    routed(fn, X, via="scm")


def with_class_attribute_only(x):
    return x * Settings.factor


def test_a_helper_of_another_module(served):
    """What Dynamo inlines from another module is guarded through the import that it installs."""
    warm(served(with_class_attribute), X)


def test_a_changed_default(through):
    fn = through(programs.with_default)
    plain = getattr(fn, "__wrapped__", fn)
    warm(fn, X)
    plain.__defaults__ = (6,)
    routed(fn, X, via="dynamo")
    plain.__kwdefaults__ = {"b": 9}
    routed(fn, X, via="dynamo")
    routed(fn, X)
    plain.__defaults__, plain.__kwdefaults__ = (5,), {"b": 7}
    routed(fn, X, via="scm")


def test_a_patched_operator(through, monkeypatch):
    fn = through(sine)
    warm(fn, X)
    original = torch.sin
    monkeypatch.setattr(torch, "sin", lambda x: original(x) + 1)
    routed(fn, X, via="dynamo", reason="sin")
    routed(fn, X)
    monkeypatch.undo()
    routed(fn, X, via="scm")


def sine(x):
    return torch.sin(x) + x


def test_a_patched_allocation_with_a_narrower_signature(served, monkeypatch):
    fn = served(programs.shift)
    warm(fn, X, 3)
    original = torch.empty_like
    monkeypatch.setattr(torch, "empty_like", lambda x: original(x, dtype=torch.float64))
    routed(fn, X, 3, via="dynamo", reason="empty_like")
    monkeypatch.undo()
    routed(fn, X, 3, via="scm")


def test_another_code_object(through):
    """The entry belongs to the code: a function that was given other code is not answered by the old one's module."""
    fn = through(programs.shift)
    plain = getattr(fn, "__wrapped__", fn)
    warm(fn, X, 3)
    code, plain.__code__ = plain.__code__, twin(programs.shift_).__code__
    x = X.clone()
    assert fn(x, 3) is x
    assert torch.equal(x, X + 3)
    plain.__code__ = code
    hits = trident_hook.counts(fn)["hits"]
    assert same(fn(X, 3), X + 3)
    if through.door != "call":  # a promoted function keeps its call door only as long as its code
        assert trident_hook.counts(fn)["hits"] == hits + 1


def test_launch_hooks_see_every_launch(through):
    from triton import knobs

    fn, seen = through(programs.shift), []
    warm(fn, X, 3)

    def hook(metadata):
        seen.append(metadata.get()["name"])

    knobs.runtime.launch_enter_hook.add(hook)
    try:
        routed(fn, X, 3, via="bypass")
        assert seen == ["shift_kernel"] * 2  # the plain twin's and this one
    finally:
        knobs.runtime.launch_enter_hook.remove(hook)
    routed(fn, X, 3, via="scm")


class Meta(type):
    rate = 2


class Rated(metaclass=Meta):
    pass


def by_metaclass(x):
    return x * Rated.rate


def test_an_attribute_of_a_metaclass(through, monkeypatch):
    """The class's own version does not change with it."""
    fn = through(by_metaclass)
    warm(fn, X)
    monkeypatch.setattr(Meta, "rate", 5)
    assert torch.equal(routed(fn, X, via="dynamo"), X * 5)
    assert torch.equal(routed(fn, X, via="scm"), X * 5)
    monkeypatch.setattr(Meta, "rate", 2)
    assert torch.equal(routed(fn, X, via="scm"), X * 2)
