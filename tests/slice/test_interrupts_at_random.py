"""Interrupts at random moments of first calls and of hits: each is raised in the caller, and what comes later is right and
is served."""

from __future__ import annotations

import ctypes
import itertools
import random
import signal
import sys
import threading
import time

import pytest
import torch
from support import programs, routes

import trident_hook
from trident_hook import _core
from trident_hook.testing import simdriver


class Interrupt(BaseException):
    """Not Ctrl-C, so that nothing takes the one for the other. It cannot be made without an argument."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


class Asynchronous(BaseException):
    """What one thread raises in another."""


@pytest.fixture
def swallowed(monkeypatch):
    """Interrupts that Python itself swallows, in a finalizer for instance."""
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: seen.append(args.exc_value))
    return seen


@pytest.fixture
def alarm():
    """alarm(seconds): an Interrupt in the main thread after that, but not in the simulated driver: a kernel on a device cannot
    be interrupted either. `alarm.sent` holds their numbers."""
    numbers = itertools.count()
    previous = signal.getsignal(signal.SIGALRM)

    def handler(signum, frame):
        while frame is not None:
            if frame.f_code.co_filename == simdriver.__file__:
                return alarm(0.0005)
            frame = frame.f_back
        alarm.sent.append(next(numbers))
        raise Interrupt(alarm.sent[-1])

    def alarm(seconds):
        signal.setitimer(signal.ITIMER_REAL, seconds)

    alarm.sent = []
    signal.signal(signal.SIGALRM, handler)
    yield alarm
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous)


SCALE = 2.0


def scaled(x, a):
    """Launches nothing: no Python code of the simulated driver runs in a hit."""
    return x * SCALE + a


def fresh(program=programs.shift):
    """A function that nothing is known of."""
    return trident_hook.jit(routes.twin(program))


def time_of(call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


@pytest.mark.slow
def test_signals_in_first_calls(alarm, swallowed):
    """Drawn from the time that such a call takes, in which the module is found on disk."""
    draw, x = random.Random(5), torch.randn(8)
    fresh()(x, 3)
    longest, raised = min(time_of(lambda: fresh()(x, 3)) for _ in range(3)), 0
    for number in range(200):
        fn, before = fresh(), len(alarm.sent)
        try:
            alarm(draw.uniform(1e-5, longest))
            answer = fn(x, 3)
            alarm(0)
            assert torch.equal(answer, x + 3)
            assert len(alarm.sent) - before == len(swallowed), f"the interrupt of call {number} was lost"
        except Interrupt as error:
            raised += error.number == alarm.sent[-1]
        finally:
            alarm(0)
        swallowed.clear()
        for _ in range(4):
            assert torch.equal(fn(x, 3), x + 3), number
        assert trident_hook.counts(fn)["hits"] >= 1, (number, trident_hook.explain(fn))
        assert _core.entry_missing(fn.__code__) == 0
    assert raised > 100


@pytest.mark.slow
def test_signals_in_hits_and_where_guards_are_asked_again(alarm, swallowed):
    fn, x, draw = fresh(scaled), torch.randn(8), random.Random(7)
    fn(x, 3)
    assert torch.equal(fn(x, 3), 2 * x + 3)
    scope, before, raised = fn.__globals__, 0, 0
    for number in range(300):
        before = len(alarm.sent)
        try:
            alarm(draw.uniform(1e-5, 1e-3))
            for _ in range(100):  # longer than the longest delay on a machine with nothing else to do
                scope["SCALE"] = scope.pop(
                    "SCALE"
                )  # a change of the namespace: guards of the environment are asked anew
                assert torch.equal(fn(x, 3), 2 * x + 3)
            alarm(0)
            assert len(alarm.sent) - before == len(swallowed), number
        except Interrupt as error:
            raised += error.number == alarm.sent[-1]
        finally:
            alarm(0)
            scope["SCALE"] = 2.0
        swallowed.clear()
    assert raised > 100
    assert torch.equal(fn(x, 3), 2 * x + 3)


@pytest.mark.slow
def test_one_thread_interrupts_another(swallowed):
    """A thread that is neither the main one nor waiting: the exception is sent by its class."""
    draw, x, failures = random.Random(9), torch.randn(8), []
    fresh(scaled)(x, 3)
    longest = time_of(lambda: fresh(scaled)(x, 3))

    def work(arrived, fn):
        try:
            while not swallowed:
                if not torch.equal(fn(x, 3), 2 * x + 3):
                    failures.append("wrong")
        except Asynchronous:
            arrived.set()
        except BaseException as error:
            failures.append(error)

    for _ in range(60):
        arrived, fn = threading.Event(), fresh(scaled)
        thread = threading.Thread(target=work, args=(arrived, fn))
        thread.start()
        time.sleep(draw.uniform(0, longest))
        sent = ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Asynchronous))
        assert sent == 1
        thread.join(60)
        assert not thread.is_alive(), "the interrupt was lost"
        assert arrived.is_set() or swallowed, failures
        swallowed.clear()
        for _ in range(4):
            assert torch.equal(fn(x, 3), 2 * x + 3)
        assert trident_hook.counts(fn)["hits"], trident_hook.explain(fn)
    assert not failures
