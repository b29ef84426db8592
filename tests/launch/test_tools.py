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
from trident_hook import profiling
from trident_hook.runtime import watching
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


def test_protons_hooks_see_launches():
    """Registered as a session of Proton registers them, and gone when it ends."""
    hooks = pytest.importorskip("triton.profiler.hooks.hook")
    seen = []

    class Counting(hooks.Hook):
        activate = deactivate = lambda self: None
        init_handle = lambda self, *args: None
        enter = lambda self, metadata: seen.append(metadata.get()["name"])
        exit = lambda self, metadata: seen.append("exit")

    fn = trident_hook.jit(twin(copy))
    warm(fn, X, Y)
    hooks.HookManager.register(Counting(), 7)
    try:
        bypassed(fn, X, Y)
        bypassed(fn, X, Y)
    finally:
        hooks.HookManager.unregister(7)
    assert seen == ["copy", "exit"] * 2
    routed(fn, X, Y, via="scm", launches=1)
    assert len(seen) == 4


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


def ranges_of(call) -> list[str]:
    """Names of our ranges around one call, as the profiler has them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return [event.name for event in profile.events() if event.name.startswith("trident_hook")]


def test_named_ranges_of_the_profiler():
    """Asked for and given up again, before and after a function's module is made."""
    first, second = trident_hook.jit(twin(copy)), trident_hook.jit(twin(watched_copy))
    warm(first, X, Y)
    assert ranges_of(lambda: routed(first, X, Y, launches=1)) == []
    profiling.ranges()
    try:
        assert ranges_of(lambda: routed(first, X, Y, launches=1)) == [
            f"trident_hook: {trident_hook.explain(first).name}"
        ]
        warm(second, X, Y)
        both = ranges_of(lambda: [routed(fn, X, Y, launches=1) for fn in (first, second, first)])
        assert both == [f"trident_hook: {trident_hook.explain(fn).name}" for fn in (first, second, first)]
        routed(first, X[1:65], Y, via="dynamo")  # another module, still in ranges
        assert len(ranges_of(lambda: routed(first, X[1:65], Y, launches=1))) == 1
    finally:
        profiling.ranges(False)
    assert ranges_of(lambda: [routed(fn, X, Y, launches=1) for fn in (first, second)]) == []


def failing(x, other):
    k.copy[(2,)](x, Y, x.numel(), BLOCK=64)
    return torch.index_select(Y, 0, other)


def test_an_error_inside_a_range():
    fn, fine, wrong = trident_hook.jit(twin(failing)), torch.tensor([1, 2]), torch.tensor([1, 2000])
    profiling.ranges()
    try:
        warm(fn, X, fine)
        routed(fn, X, wrong, via="error", raises=IndexError)
        assert len(ranges_of(lambda: routed(fn, X, fine, launches=1))) == 1
    finally:
        profiling.ranges(False)


def test_a_class_that_nobody_asked_is_watched():
    """CPython gives a class a version when something is first looked up in it; only then is a change announced."""

    class NeverAsked:
        pass

    assert not NeverAsked.__flags__ & watching._VALID_VERSION_TAG
    walk = watching._Walk(copy)
    walk._watch_type(NeverAsked)
    assert walk.types == {id(NeverAsked): NeverAsked}


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
