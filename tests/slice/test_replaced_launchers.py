"""Somebody replaces what launches a kernel in Python: theirs is called, whenever it came."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction, KernelInterface

import trident_hook

RUN, GETITEM = JITFunction.run, KernelInterface.__getitem__


@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def launches(x):
    y = torch.empty_like(x)
    twice[(1,)](x, y, x.numel(), BLOCK=16)
    return y


@pytest.fixture
def seen(monkeypatch):
    """seen(where) replaces a launcher there, and gives the list of what it was called with."""

    def replace(where):
        calls: list = []

        def run(self, *args, **kwargs):
            calls.append(kwargs["grid"])
            return RUN(self, *args, **kwargs)

        def getitem(self, grid):
            calls.append(grid)
            return GETITEM(self, grid)

        if where == "class":
            monkeypatch.setattr(JITFunction, "run", run)
        elif where == "base class":
            monkeypatch.setattr(KernelInterface, "__getitem__", getitem)
        else:
            monkeypatch.setattr(twice, "run", lambda *args, **kwargs: run(twice, *args, **kwargs), raising=False)
        return calls

    return replace


@pytest.mark.parametrize("where", ["class", "base class", "kernel"])
def test_after_the_capture(where, served, seen, monkeypatch):
    fn, x = served(launches), torch.ones(4)
    for _ in range(3):
        fn(x)
    assert trident_hook.counts(fn)["hits"] == 2
    calls = seen(where)
    for number in (1, 2, 3):
        assert fn(x).tolist() == [2.0] * 4
        assert calls == [(1,)] * number
    monkeypatch.undo()
    assert fn(x).tolist() == [2.0] * 4
    assert calls == [(1,)] * 3
    assert trident_hook.counts(fn)["hits"] == 3


@pytest.mark.parametrize("where", ["class", "base class", "kernel"])
def test_before_the_capture(where, served, seen):
    calls = seen(where)
    fn = served(launches)
    for number in (1, 2, 3):
        assert fn(torch.ones(4)).tolist() == [2.0] * 4
        assert calls == [(1,)] * number
