"""Signals that arrive while Dynamo traces are answered when it is done. What a handler raises (KeyboardInterrupt, a time limit) may
come between any two lines, and Dynamo and PyTorch are not made for that: a mode stays in force, a context of the trace
stays open, a lock or a patched class is left behind, and from then on the program computes wrongly or nothing is served.

Only Python's handlers wait, and only where they would run: in the main thread. What the system calls is not touched. A capture that
takes too long, or a second signal of the same number (somebody presses Ctrl-C again), is interrupted at once."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

WAIT_S = 5.0  # the longest that a signal waits


class _Waiting:
    """The handlers of signals, each behind one of ours that only notes the arrival."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self._held: dict[int, tuple[Callable, Any]] = {}  # number -> (ours, the program's)
        self._arrived: list[tuple[int, Any]] = []
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """Puts ours in front. Of what an interrupt breaks off nothing stays."""
        try:
            for number in signal.valid_signals():
                handler = signal.getsignal(number)
                if callable(handler):
                    ours = self._note_for(handler)
                    self._held[number] = ours, handler
                    _exchange(number, ours)
        except BaseException:
            self.end()
            raise

    def _note_for(self, handler: Callable) -> Callable:
        def note(number: int, frame: FrameType | None) -> Any:
            again = any(number == other for other, _ in self._arrived)
            if number not in self._held or again:
                return handler(number, frame)
            self._arrived.append((number, handler))
            if self._timer is None:
                self._timer = threading.Timer(WAIT_S, _thread.interrupt_main, (number,))
                self._timer.daemon = True
                self._timer.start()
            return None

        return note

    def end(self) -> None:
        """Takes ours away and answers what has arrived: what a handler raises is raised here."""
        try:
            while self._held:
                number, (ours, handler) = next(iter(self._held.items()))
                if signal.getsignal(number) is ours:  # else the program has set another meanwhile
                    _exchange(number, handler)
                del self._held[number]
        finally:
            if self._held:
                self.end()
            else:
                if self._timer is not None:
                    self._timer.cancel()
                self._answer()

    def forget(self) -> None:
        """Takes ours away in the child of a fork where the thread that waits is not."""
        self._arrived.clear()
        self.end()

    def _answer(self) -> None:
        while self._arrived:
            number, handler = self._arrived.pop(0)
            try:
                handler(number, sys._getframe())
            finally:
                self._answer()


def _exchange(number: int, handler: Callable) -> None:
    """Another function for Python to call, and nothing else."""
    from .. import _rt  # not at the head: the build process, which has no PyTorch, reads this file

    action = _rt.signal_action(number)
    signal.signal(number, handler)
    _rt.signal_action_set(number, action)


_waiting: _Waiting | None = None  # one thread can have one, the main thread


@contextlib.contextmanager
def put_off() -> Iterator[None]:
    """Interrupts by signals are raised behind the block. Does nothing in other threads, nor inside another such block."""
    global _waiting
    if _waiting is not None or threading.get_ident() != threading.main_thread().ident:
        yield
        return
    waiting = _Waiting()
    try:
        _waiting = waiting
        waiting.begin()
        yield
    finally:
        _waiting = None
        waiting.end()


def _after_fork_in_child() -> None:
    global _waiting
    if _waiting is not None and _waiting.thread != threading.get_ident():
        left, _waiting = _waiting, None
        left.forget()


os.register_at_fork(after_in_child=_after_fork_in_child)
