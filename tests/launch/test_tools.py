"""Tools that watch launches, and settings that Triton compares on every launch: a call that they concern is not served
as if they were not there."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from support.routes import routed, twin, warm
from triton import knobs

import trident_hook
from trident_hook.testing import simdriver

from . import corpus
from . import kernels as k

X, Y = corpus.X, corpus.Y


def copy(x, y):
    k.copy[(2,)](x, y, x.numel(), BLOCK=64)
    return y


def bypassed(fn, *args) -> list:
    """One call that must take its previous path; its launches."""
    before = trident_hook.counts(fn)
    simdriver.launches.clear()
    fn(*args)
    after = trident_hook.counts(fn)
    assert (after["hits"] - before["hits"], after["bypasses"] - before["bypasses"]) == (0, 1)
    return list(simdriver.launches)


def test_launch_hooks_see_launches():
    """As Proton uses them: both ends, with the metadata of the launch."""
    fn = trident_hook.jit(twin(copy))
    warm(fn, X, Y)
    seen = []
    enter = lambda metadata: seen.append(("enter", metadata.get()["name"]))
    leave = lambda metadata: seen.append(("exit", metadata.get()["name"]))
    knobs.runtime.launch_enter_hook.add(enter)
    try:
        assert len(bypassed(fn, X, Y)) == 1
        knobs.runtime.launch_exit_hook.add(leave)
        bypassed(fn, X, Y)
        knobs.runtime.launch_enter_hook.remove(enter)
        bypassed(fn, X, Y)
    finally:
        knobs.runtime.launch_enter_hook.calls.clear()
        knobs.runtime.launch_exit_hook.calls.clear()
    assert seen == [("enter", "copy"), ("enter", "copy"), ("exit", "copy"), ("exit", "copy")]
    routed(fn, X, Y, via="scm", launches=1)
    assert len(seen) == 4


def test_nothing_is_learned_while_a_hook_is_set():
    fn, seen = trident_hook.jit(twin(copy)), []
    hook = lambda metadata: seen.append(metadata)
    knobs.runtime.launch_enter_hook.add(hook)
    try:
        for _ in range(3):
            fn(X, Y)
        assert len(seen) == 3
        assert trident_hook.counts(fn)["hits"] == 0
    finally:
        knobs.runtime.launch_enter_hook.calls.clear()
    fn(X, Y)
    routed(fn, X, Y, launches=1)


@triton.jit
def watched(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def watched_copy(x, y):
    watched[(2,)](x, y, x.numel(), BLOCK=64)
    return y


def test_a_pre_run_hook():
    """Added later to a kernel that is served: it must run, and when it is gone the calls are served again."""
    fn, seen = trident_hook.jit(twin(watched_copy)), []
    warm(fn, X, Y)
    watched.add_pre_run_hook(lambda *args, **kwargs: seen.append(kwargs["BLOCK"]))
    try:
        fn(X, Y)
        fn(X, Y)
        assert seen == [64, 64]
        assert "has no pre-run hooks" in trident_hook.explain(fn).last_miss
    finally:
        watched.pre_run_hooks.clear()
    routed(fn, X, Y, via="scm", launches=1)


@pytest.mark.parametrize(("owner", "name", "value"), [
    (lambda: knobs.runtime, "debug", True),
    (lambda: watched, "debug", True),
])  # fmt: skip
def test_settings_of_triton_are_guarded(owner, name, value, monkeypatch):
    fn = trident_hook.jit(twin(watched_copy))
    warm(fn, X, Y)
    monkeypatch.setattr(owner(), name, value)
    routed(fn, X, Y, via="dynamo", reason="debug")
    routed(fn, X, Y, via="scm")
    monkeypatch.undo()
    routed(fn, X, Y, via="scm")


def test_the_profiler_changes_nothing():
    """The PyTorch profiler records what it can see of a served call; the launch is made all the same."""
    fn = trident_hook.jit(twin(copy))
    warm(fn, X, Y)
    simdriver.launches.clear()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        fn(X, Y)
    assert len(simdriver.launches) == 1
    assert profile.events() is not None


def test_alternating_alignment_ends_with_both():
    fn = trident_hook.jit(twin(copy))
    warm(fn, X[:64], Y)
    routed(fn, X[1:65], Y, via="dynamo", reason="divisible by 16")
    for _ in range(5):
        routed(fn, X[:64], Y, via="scm", launches=1)
        routed(fn, X[1:65], Y, via="scm", launches=1)
    assert len(trident_hook.explain(fn).specializations) == 2


def symbolic(x, y, a, b):
    k.copy_3d[(a, b)](x, y, 32, BLOCK=32)
    return y


@pytest.mark.parametrize("grid", [(65536, 65536), (2**20, 4096)])
def test_a_grid_that_triton_does_not_launch(grid):
    """Triton's test for an empty grid wraps: these are not launched. The specialization leaves them to it."""
    fn = trident_hook.jit(twin(symbolic))
    for a in (5, 6, 7):
        fn(X, Y, a, a + 1)
    simdriver.launches.clear()
    fn(X, Y, *grid)
    fn(X, Y, *grid)
    twin(symbolic)(X, Y, *grid)
    assert not list(simdriver.launches)


def test_a_grid_that_the_driver_refuses():
    """The error is a RuntimeError with Triton's text, and the function stays usable."""
    fn = trident_hook.jit(twin(symbolic))
    for a in (5, 6, 7):
        fn(X, Y, a, a + 1)
    hits = trident_hook.counts(fn)["hits"]
    with simdriver.inject("launch", "CUDA_ERROR_INVALID_VALUE"):
        with pytest.raises(
            RuntimeError, match=r"Triton Error \[CUDA\].*kernel copy_3d, grid \(9, 70000, 1\), device 0"
        ):
            fn(X, Y, 9, 70000)
    assert trident_hook.counts(fn)["hits"] == hits
    routed(fn, X, Y, 9, 8, via="scm", launches=1)
