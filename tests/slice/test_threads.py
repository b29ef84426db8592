"""One function used from several threads: while it is captured, built, swapped in and served."""

from __future__ import annotations

import threading

import torch
from support import programs
from support.routes import counted, routed, warm

import trident_hook
from trident_hook.testing import workloads


def run_all(*jobs) -> None:
    """Every job on a thread of its own, started together. The first failure is raised here."""
    barrier, failures = threading.Barrier(len(jobs)), []

    def start(job):
        barrier.wait()
        try:
            job()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread is stuck"
    if failures:
        raise failures[0]


def calls(fn, x, times):
    def job():
        expected = x + 3
        for _ in range(times):
            assert torch.equal(fn(x, 3), expected)

    return job


def test_different_shapes_at_once_when_warm(through):
    fn = through(programs.shift)
    inputs = [torch.randn(32), torch.randn(4, 16), torch.randn(2, 4, 8), torch.randn(32).half()]
    for x in inputs:
        warm(fn, x, 3)
    with counted(fn) as added:
        run_all(*(calls(fn, x, 40) for x in inputs))
    assert (added["hits"], added["misses"]) == (160, 0), trident_hook.explain(fn).last_miss
    for x in inputs:
        routed(fn, x, 3, via="scm")


def test_different_shapes_at_once_from_the_first_call(through):
    fn = through(programs.shift)
    trident_hook.config.limit = 16
    inputs = [torch.randn(32), torch.randn(4, 16), torch.randn(2, 4, 8), torch.randn(32).half()]
    run_all(*(calls(fn, x, 15) for x in inputs))
    counts = trident_hook.counts(fn)
    assert counts["hits"] + counts["misses"] == 60
    assert counts["errors"] == 0
    for x in inputs:
        fn(x, 3)
        routed(fn, x, 3, via="scm")


def test_enable_and_disable_while_threads_call(through):
    if through.door == "jit":
        return
    fn = through(programs.shift)
    x = torch.randn(32)
    warm(fn, x, 3)

    def switch():
        for _ in range(30):
            trident_hook.disable()
            trident_hook.enable(include=[fn])

    run_all(calls(fn, x, 60), calls(fn, x, 60), switch)
    assert trident_hook.counts(fn)["errors"] == 0
    routed(fn, x, 3, via="scm")


def test_two_functions_from_two_threads(served):
    one, two = served(workloads.silu), served(programs.shift)
    x = torch.randn(48)
    expected = workloads.silu(x)

    def first():
        for _ in range(20):
            assert torch.equal(one(x), expected)

    run_all(first, calls(two, x, 20))
    routed(one, x, via="scm")
    routed(two, x, 3, via="scm")
