"""What is slower when served is found and left alone; nothing else is touched. Time is counted here, not measured."""

from __future__ import annotations

import pytest
import torch
from support.routes import counts, routed, twin, warm

import trident_hook
from trident_hook.testing import workloads


class Requests:
    """Calls every function twice. A served call takes `served` seconds of its function's, a plain one 1.0."""

    def __init__(self, **served: float) -> None:
        self.now, self.count = 0.0, 0
        self.functions = {name: twin(workloads.silu) for name in served}
        for name, fn in self.functions.items():
            fn.__qualname__ = name
        self.served, self.x = served, torch.randn(64)

    def __call__(self) -> None:
        self.count += 1
        for name, fn in self.functions.items():
            for _ in range(2):
                before = counts(fn).get("hits", 0)
                fn(self.x)
                self.now += self.served[name] if counts(fn).get("hits", 0) > before else 1.0

    def clock(self) -> float:
        return self.now


def test_the_slower_one_is_left_alone():
    request = Requests(fast=0.5, slow=3.0, same=1.0)
    fast, slow, same = request.functions.values()
    with trident_hook.enable(include=[fast, slow, same]):
        selected = trident_hook.autoselect(request, clock=request.clock)
        routed(fast, request.x, via="scm")
        routed(same, request.x, via="scm")
        routed(slow, request.x, via="alone")
    assert [name.rsplit(".", 1)[-1] for name in selected.left_alone] == ["slow"]
    assert len(selected.kept) == 2
    assert "autoselect" in trident_hook.explain(slow).refused
    assert selected.requests == request.count == 2 + 2 * 8
    assert "left alone" in str(selected)


def test_effects_do_not_mix():
    """Eight functions, of which three are slow: the plan has sixteen rows, and no other one suffers."""
    request = Requests(**{f"f{i}": 4.0 if i in (1, 4, 6) else 0.9 for i in range(8)})
    with trident_hook.enable(include=list(request.functions.values())):
        selected = trident_hook.autoselect(request, clock=request.clock, rounds=1)
    assert sorted(name[-2:] for name in selected.left_alone) == ["f1", "f4", "f6"]
    assert all(0.9 < ratio < 1.0 for ratio in selected.kept.values()), selected
    assert request.count == 2 + 16


def test_only_those_that_are_named():
    request = Requests(slow=3.0, other=3.0)
    slow, other = request.functions.values()
    with trident_hook.enable(include=[slow, other]):
        selected = trident_hook.autoselect(request, [slow], clock=request.clock)
        routed(other, request.x, via="scm")
    assert len(selected.left_alone) == 1
    assert not selected.kept


def test_below_jit():
    request = Requests(slow=3.0)
    (slow,) = request.functions.values()
    request.functions["slow"] = jitted = trident_hook.jit(slow)
    assert len(trident_hook.autoselect(request, clock=request.clock).left_alone) == 1
    routed(jitted, request.x, via="alone")


def test_a_request_that_raises_leaves_everything_as_it_was():
    request = Requests(slow=3.0)
    (fn,) = request.functions.values()

    def failing():
        request()
        if request.count == 6:
            raise KeyError("sixth")

    with trident_hook.enable(include=[fn]):
        with pytest.raises(KeyError):
            trident_hook.autoselect(failing, clock=request.clock)
        routed(fn, request.x, via="scm")


def test_nothing_is_served():
    calls = []
    selected = trident_hook.autoselect(lambda: calls.append(1), [workloads.rms_norm])
    assert (selected.kept, selected.left_alone, len(calls)) == ({}, {}, 2)


def test_the_clock_by_default(served):
    """Real time: an answer of either kind, and the function works on."""
    fn, x = served(workloads.silu), torch.randn(64)
    warm(fn, x)
    selected = trident_hook.autoselect(lambda: fn(x), [fn])
    assert len(selected.kept) + len(selected.left_alone) == 1
    routed(fn, x, via=None)
