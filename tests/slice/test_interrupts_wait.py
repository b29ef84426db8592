"""Signals wait while Dynamo traces, and while a file of the cache is read; then they are answered as the program asked for."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time

import pytest
import torch
from support import programs, routes

import trident_hook
from trident_hook import _rt
from trident_hook.runtime import interrupts


class Interrupt(BaseException):
    """What the handler raises."""


@pytest.fixture
def handler():
    """Raises on SIGUSR1; `handler.calls` are the frames' names that it was called with."""
    calls = []

    def on_signal(number, frame):
        calls.append(frame.f_code.co_name)
        raise Interrupt(number)

    on_signal.calls = calls
    previous = signal.signal(signal.SIGUSR1, on_signal)
    yield on_signal
    signal.signal(signal.SIGUSR1, previous)


def test_a_signal_is_answered_behind_the_block(handler):
    reached = []
    with pytest.raises(Interrupt), interrupts.put_off():
        os.kill(os.getpid(), signal.SIGUSR1)
        reached.append(handler.calls[:])
    assert reached == [[]]
    assert len(handler.calls) == 1
    assert signal.getsignal(signal.SIGUSR1) is handler


def test_an_error_of_the_block_is_behind_the_interrupt(handler):
    with pytest.raises(Interrupt) as caught, interrupts.put_off():
        os.kill(os.getpid(), signal.SIGUSR1)
        raise KeyError("ours")
    assert isinstance(caught.value.__context__, KeyError)


def test_a_second_signal_interrupts_at_once(handler):
    reached = []
    with pytest.raises(Interrupt), interrupts.put_off():
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        reached.append("behind the second")
    assert not reached
    assert len(handler.calls) == 2, "the first is answered as well"


def test_a_signal_waits_no_longer_than_a_limit(handler, monkeypatch):
    monkeypatch.setattr(interrupts, "WAIT_S", 0.2)
    started = time.perf_counter()
    with pytest.raises(Interrupt), interrupts.put_off():
        os.kill(os.getpid(), signal.SIGUSR1)
        while time.perf_counter() - started < 60:
            time.sleep(0.01)
    assert time.perf_counter() - started < 30


def test_every_signal_is_answered_though_the_first_raises(handler):
    seen = []
    previous = signal.signal(signal.SIGUSR2, lambda number, frame: seen.append(number))
    try:
        with pytest.raises(Interrupt), interrupts.put_off():
            os.kill(os.getpid(), signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, previous)
    assert seen == [signal.SIGUSR2]


def action() -> tuple:
    """Handler, mask and flags, as glibc lays them out; of the mask, what a kernel fills in."""
    read = _rt.signal_action(signal.SIGUSR1)
    return read[:16], read[136:140]


def test_what_the_system_calls_stays_as_it_was(handler):
    """faulthandler stands in front of Python's own handler; signal.signal alone would throw it out."""
    signal.siginterrupt(signal.SIGUSR1, False)
    with open(os.devnull, "w") as nowhere:
        faulthandler.register(signal.SIGUSR1, file=nowhere, chain=True)
        try:
            before = action()
            with interrupts.put_off():
                assert action() == before
            assert action() == before
        finally:
            faulthandler.unregister(signal.SIGUSR1)


def test_a_handler_that_the_block_sets_stays(handler):
    def other(number, frame):
        """The program's newer one."""

    with interrupts.put_off():
        signal.signal(signal.SIGUSR1, other)
    assert signal.getsignal(signal.SIGUSR1) is other


def test_another_thread_lets_signals_alone(handler):
    seen = []

    def work():
        with interrupts.put_off():
            seen.append(signal.getsignal(signal.SIGUSR1))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [handler]


def test_a_child_of_another_threads_fork_answers_signals(handler):
    """The thread that would answer them is not there."""
    status = []

    def fork():
        child = os.fork()
        if child == 0:
            try:
                os.kill(os.getpid(), signal.SIGUSR1)
                time.sleep(10)
            except Interrupt:
                os._exit(7)
            finally:
                os._exit(1)
        status.append(os.waitpid(child, 0)[1])

    with interrupts.put_off():
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
    assert os.waitstatus_to_exitcode(status[0]) == 7


def test_signals_of_the_bindings_are_checked():
    with pytest.raises(OSError, match="Invalid argument"):
        _rt.signal_action(10_000)
    with pytest.raises(ValueError, match="seen 3 bytes"):
        _rt.signal_action_set(signal.SIGUSR1, b"abc")


def test_an_interrupt_in_a_trace_leaves_it_whole(handler, monkeypatch):
    """The signal comes in the middle of the trace. The capture is made all the same, and the call ends with the interrupt."""
    from trident_hook.capture import recorder

    original, reached = recorder.normalize, []

    def normalize(*args):
        if not reached:
            os.kill(os.getpid(), signal.SIGUSR1)
        reached.append(handler.calls[:])
        return original(*args)

    monkeypatch.setattr(recorder, "normalize", normalize)
    fn, x = trident_hook.jit(routes.twin(programs.shift)), torch.randn(8)
    with pytest.raises(Interrupt):
        fn(x, 3)
    assert reached == [[]]
    assert torch._guards.TracingContext.try_get() is None
    for _ in range(3):
        assert torch.equal(fn(x, 3), x + 3)
    assert trident_hook.counts(fn)["hits"] >= 1
