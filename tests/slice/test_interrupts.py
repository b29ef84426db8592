"""Exceptions that are no errors (an interrupt, the end of the program) in the middle of learning: nothing stays locked or
counted, and what was learned is built later."""

from __future__ import annotations

import contextlib
import sys
import threading

import pytest
import torch
from support import programs
from support.routes import routed, warm

import trident_hook
from trident_hook import api
from trident_hook._config import config
from trident_hook._scm import loader, worker
from trident_hook.functions import builds
from trident_hook.functions import record as records

X = torch.arange(32, dtype=torch.float32)


class Interrupt(BaseException):
    pass


@pytest.fixture(autouse=True)
def unraisable(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda args: None)


def once(real):
    """A function in the place of `real` whose first call is interrupted."""
    calls = []

    def function(*args, **kwargs):
        calls.append(args)
        if len(calls) == 1:
            raise Interrupt
        return real(*args, **kwargs)

    return function


def call(fn, *args) -> None:
    with contextlib.suppress(Interrupt):
        fn(*args)


def assert_free(fn) -> None:
    record = api.find_record(fn)
    assert (record.dynamo_entries.calls, record.builds.queued) == (0, False)
    held = []
    thread = threading.Thread(target=lambda: held.extend(
        lock.acquire(timeout=1) and (lock.release() or True) for lock in (record.locks.state, record.locks.building)))  # fmt: skip
    thread.start()
    thread.join()
    assert held == [True, True]


@pytest.mark.parametrize("where", ["_callback", "Builds._choose"])
def test_a_miss_is_interrupted(through, monkeypatch, where):
    owner, name = (builds.Builds, "_choose") if "." in where else (records, where)
    real = getattr(owner, name)
    first = once(real)
    monkeypatch.setattr(owner, name, lambda *args: first(*args))
    fn = through(programs.shift)
    call(fn, X, 3)
    assert_free(fn)
    warm(fn, X, 3)
    routed(fn, X, 3, via="scm")
    assert_free(fn)


@pytest.mark.parametrize("build", ["sync", "background"])
def test_a_build_is_interrupted(served, monkeypatch, build):
    config.build = build
    monkeypatch.setattr(loader, "LoadedScm", once(loader.LoadedScm))
    fn = served(programs.shift)
    call(fn, X, 3)
    assert trident_hook.settle(60)
    assert_free(fn)
    record = api.find_record(fn)
    assert (len(record.learning.fresh), record.builds.done) == (1, 0), "what was learned is lost"
    call(fn, X, 3)
    assert trident_hook.settle(60)
    routed(fn, X, 3, via="scm")
    assert (len(record.specializations), record.builds.done, dict(record.refusals.counted)) == (1, 1, {})


def test_the_worker_outlives_its_jobs(served):
    ran = []
    for error in (SystemExit, KeyboardInterrupt, MemoryError):

        def job(error=error):
            ran.append(error)
            raise error

        worker.submit(job)
        assert trident_hook.settle(20)
    worker.submit(lambda: ran.append(None))
    assert trident_hook.settle(20)
    assert len(ran) == 4


def test_no_thread_can_be_started(served, monkeypatch):
    config.build = "background"
    monkeypatch.setattr(worker, "_worker", worker._Worker())

    def start(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        fn = served(programs.shift)
        for _ in range(3):
            routed(fn, X, 3, via="dynamo")
        assert trident_hook.settle(1)
    fn(X, 3)
    assert trident_hook.settle(60)
    routed(fn, X, 3, via="scm")
