"""The length of one capture: what is different in Dynamo meanwhile, and what a fork makes of it.

Dynamo's settings and tables are the process's. A capture changes them under Dynamo's own lock, so that no other compile
sees the change and two captures do not restore each other's values. In the child of a fork that came in the middle of
another thread's capture, nobody would change them back or give the lock back: that is done here."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Any

from .._logs import log

#: (thread, its changes) of captures under way: more than one only where a capture runs inside another, on one thread.
_open: list[tuple[int, contextlib.ExitStack]] = []
#: Held while changes are made or undone, and by whoever forks: a fork finds each change made or not.
_changing = threading.RLock()
_WAIT_S = 10  # at most, before a fork


@contextlib.contextmanager
def capturing(*changes):
    """Enters context managers, in order, alone in the process. Yields what they gave."""
    from .names import convert_frame

    with convert_frame.compile_lock:
        made = contextlib.ExitStack()
        _open.append((threading.get_ident(), made))
        try:
            with _changing:
                given = [made.enter_context(change) for change in changes]
            yield given
        finally:
            with _changing:
                made.close()
                _open.pop()


@contextlib.contextmanager
def unforked():
    """A fork waits (a few seconds at most) until the block is over: for imports. A module that a thread was importing can never be
    imported in the child."""
    with _changing:
        yield


def _before_fork() -> None:
    _changing.acquire(timeout=_WAIT_S)


def _after_fork_in_parent() -> None:
    with contextlib.suppress(RuntimeError):  # the wait was in vain
        _changing.release()


def _after_fork_in_child() -> None:
    global _changing
    _changing = threading.RLock()
    here = threading.get_ident()
    while _open and _open[-1][0] != here:
        _, made = _open.pop()
        _undo(made)
    convert_frame: Any = sys.modules.get("torch._dynamo.convert_frame")
    lock = getattr(convert_frame, "compile_lock", None)
    if lock is not None and not lock._is_owned():
        convert_frame.compile_lock = threading.RLock()


def _undo(made: contextlib.ExitStack) -> None:
    """What a thread has changed that is not here."""
    try:
        made.close()
    except Exception as error:  # a lock that this thread does not hold; all else was undone by then
        log("capture", "after a fork in the middle of a capture: %s: %s", type(error).__name__, error)


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
