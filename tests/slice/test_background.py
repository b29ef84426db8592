"""Builds in the background: Dynamo's cache serves until the module is in place; a build that fails harms nobody."""

from __future__ import annotations

import contextlib
import threading

import pytest
import torch
from support import programs
from support.routes import counted, routed, same, twin, warm

import trident_hook
from trident_hook._scm import compiler, worker
from trident_hook.testing import interpret, simdriver

X = torch.arange(32, dtype=torch.float32)


@pytest.fixture(autouse=True)
def background():
    trident_hook.config.build = "background"


@contextlib.contextmanager
def busy_worker():
    """Yields a function that lets the worker go on; until then no build that is asked for begins."""
    go = threading.Event()
    worker.submit(lambda: go.wait(120))
    try:
        yield go.set
    finally:
        go.set()


def compiled_frames() -> int:
    return torch._dynamo.utils.counters["frames"]["total"]


def test_dynamos_cache_serves_until_the_module_is_in_place(through):
    fn = through(programs.shift)
    with busy_worker() as go_on:
        routed(fn, X, 3, via="dynamo")
        frames = compiled_frames()
        assert frames > 0
        for _ in range(5):
            routed(fn, X, 3, via="dynamo")
        assert compiled_frames() == frames, "captured again while its build was pending"
        explanation = trident_hook.explain(fn)
        assert (explanation.builds, explanation.specializations, explanation.served_after) == (0, (), None)
        go_on()
        assert trident_hook.settle(120)
    for _ in range(5):
        routed(fn, X, 3, via="scm", launches=1)
    explanation = trident_hook.explain(fn)
    assert (explanation.builds, len(explanation.specializations), explanation.refusals) == (1, 1, {})
    assert explanation.served_after > 0


def test_settle_waits_no_longer_than_it_is_told(served):
    fn = served(programs.shift)
    assert trident_hook.settle(0), "nothing is pending"
    with busy_worker() as go_on:
        fn(X, 3)
        assert not trident_hook.settle(0.01)
        assert not trident_hook.settle(0)
        go_on()
        assert trident_hook.settle(120)
    assert trident_hook.settle()
    routed(fn, X, 3, via="scm")


def test_what_is_learned_meanwhile_comes_with_the_same_build(served):
    fn, inputs = served(programs.shift), [X, X.half(), X.double()]
    with busy_worker() as go_on:
        for x in inputs * 2:
            routed(fn, x, 3, via="dynamo")
        go_on()
        assert trident_hook.settle(120)
    for x in inputs:
        routed(fn, x, 3, via="scm")
    assert trident_hook.explain(fn).builds == 1
    assert len(trident_hook.explain(fn).specializations) == 3


def test_the_old_module_serves_while_the_next_is_built(served):
    fn = served(programs.shift)
    fn(X, 3)
    assert trident_hook.settle(120)
    with busy_worker() as go_on:
        routed(fn, X.half(), 3, via="dynamo")
        routed(fn, X, 3, via="scm")
        routed(fn, X.half(), 3, via="dynamo")
        go_on()
        assert trident_hook.settle(120)
    routed(fn, X.half(), 3, via="scm")
    routed(fn, X, 3, via="scm")


def test_swapped_in_while_threads_call(through):
    """Threads call from before the first module to after the second; every answer is right."""
    fn, half = through(programs.shift), X.half()
    stop, failures, calls = threading.Event(), [], []

    def call(x):
        expected, n = x + 3, 0
        try:
            while not stop.is_set():
                n += 1
                assert torch.equal(fn(x, 3), expected)
        except BaseException as error:
            failures.append(error)
        calls.append(n)

    with simdriver.record(False), counted(fn) as added:
        threads = [threading.Thread(target=call, args=(x,)) for x in (X, half, X)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(600):
                if failures or len(trident_hook.explain(fn).specializations) >= 2:
                    break
                trident_hook.settle(0.1)
                stop.wait(0.1)
            stop.wait(0.1)
        finally:
            stop.set()
            for thread in threads:
                thread.join(120)
    if failures:
        raise failures[0]
    assert trident_hook.settle(120)
    assert added["errors"] == 0
    assert added["hits"] + added["misses"] == sum(calls)
    assert added["hits"] > 0
    routed(fn, X, 3, via="scm")
    routed(fn, half, 3, via="scm")


def test_the_module_of_a_call_under_way_is_replaced(through, monkeypatch):
    run, inside = interpret.run, []

    def pause_and_run(*args):
        while inside:
            inside.pop()()
        return run(*args)

    monkeypatch.setattr(interpret, "run", pause_and_run)
    fn = through(programs.shift)
    fn(X, 3)
    assert trident_hook.settle(120)

    def another():
        thread = threading.Thread(target=fn, args=(X.half(), 3))
        thread.start()
        thread.join(120)
        assert trident_hook.settle(120)
        assert trident_hook.explain(fn).builds == 2

    inside.append(another)
    with counted(fn) as added:
        assert torch.equal(fn(X, 3), X + 3)
    assert (added["hits"], added["errors"]) == (1, 0)
    routed(fn, X, 3, via="scm")
    routed(fn, X.half(), 3, via="scm")


def test_disabled_before_the_build_ends(served):
    """A build that ends after disable() is kept for the next enable()."""
    fn = twin(programs.shift)
    with busy_worker() as go_on:
        with trident_hook.enable(include=[fn]):
            routed(fn, X, 3, via="dynamo")
        routed(fn, X, 3, via="alone")
        go_on()
        assert trident_hook.settle(120)
    routed(fn, X, 3, via="alone")
    with trident_hook.enable(include=[fn]):
        routed(fn, X, 3, via="scm")


def test_the_function_dies_before_its_build(served):
    fn = served(programs.shift)
    with busy_worker() as go_on:
        fn(X, 3)
        del fn
        go_on()
        assert trident_hook.settle(120)
    survivor = served(programs.shift)
    survivor(X, 3)
    assert trident_hook.settle(120), "the worker is still at work"
    routed(survivor, X, 3, via="scm")


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    """The compiler refuses everything, and nothing is in the cache. Version as known from before."""
    compiler.compiler_version()
    trident_hook.config.cache_dir = tmp_path / "empty"
    monkeypatch.setenv("TRIDENT_HOOK_CC", "/bin/false")
    return monkeypatch


@pytest.mark.parametrize("mode", ["background", "sync"])
def test_a_build_fails(through, no_compiler, mode):
    trident_hook.config.build = mode
    fn = through(programs.shift)
    routed(fn, X, 3, via="dynamo")
    assert trident_hook.settle(120)
    for x in (X, X.half(), X):
        routed(fn, x, 3, via="python", reason="build: BuildError")
    explanation = trident_hook.explain(fn)
    assert "left alone: build" in str(explanation)
    assert "/bin/false" in explanation.refused
    assert (explanation.builds, explanation.counts["errors"]) == (0, 0)
    assert not list(trident_hook.config.cache_dir.rglob("*.so"))


def test_a_compiler_that_cannot_say_its_version(served, no_compiler):
    compiler._answer_once.cache_clear()
    try:
        fn = served(programs.shift)
        routed(fn, X, 3, via="dynamo")
        assert trident_hook.settle(120)
        routed(fn, X, 3, via="python", reason="build: BuildError")
    finally:
        compiler._answer_once.cache_clear()


def test_a_later_build_fails(served, no_compiler):
    """What was built before keeps serving; the other calls keep Dynamo's result."""
    no_compiler.delenv("TRIDENT_HOOK_CC")
    fn = served(programs.shift)
    fn(X, 3)
    assert trident_hook.settle(120)
    no_compiler.setenv("TRIDENT_HOOK_CC", "/bin/false")
    for _ in range(4):
        routed(fn, X.half(), 3, via="dynamo")
        assert trident_hook.settle(120)
        routed(fn, X, 3, via="scm")
    explanation = trident_hook.explain(fn)
    assert any(reason.startswith("build: ") for reason in explanation.refusals)
    assert (explanation.builds, explanation.refused) == (1, None)


def test_a_fault_of_the_build_itself_ends_nothing(served, monkeypatch):
    """An exception that nobody thought of: named, counted, and the worker lives on."""
    from trident_hook.functions import builds

    def broken(*_):
        raise ZeroDivisionError("a fault of ours")

    with monkeypatch.context() as patch:
        patch.setattr(builds, "generate", broken)
        fn = served(programs.shift)
        fn(X, 3)
        assert trident_hook.settle(120)
    routed(fn, X, 3, via="python", reason="internal: ZeroDivisionError: a fault of ours")
    other = served(programs.shift)
    other(X, 3)
    assert trident_hook.settle(120)
    routed(other, X, 3, via="scm")


def test_sync_is_one_miss(served):
    trident_hook.config.build = "sync"
    fn = served(programs.shift)
    warm(fn, X, 3)
    assert same(fn(X, 3), X + 3)
