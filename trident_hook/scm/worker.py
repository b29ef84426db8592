"""Builds in the background, one at a time, in the order they were asked for. Ends with the process; a fork starts
its own. The thread does what needs the program; the rest is done by the build process, see `process`."""

from __future__ import annotations

import os
import queue
import threading
import time

from . import builder_process

_jobs: queue.Queue | None = None
_pid = 0
_pending = 0
_PAUSE_S = 0.001
_changed = threading.Condition()
_thread = threading.local()


def submit(job) -> None:
    """Runs `job()` on the worker. A job reports its own failures."""
    global _jobs, _pid, _pending
    if _jobs is None or _pid != os.getpid():
        _jobs, _pid, _pending = queue.Queue(), os.getpid(), 0
        threading.Thread(target=_work, args=(_jobs,), name="trident_hook-build", daemon=True).start()
    with _changed:
        _pending += 1
    _jobs.put(job)


def _after_fork_in_child() -> None:
    """The worker and what it was asked for stayed with the parent, which may have held the condition."""
    global _jobs, _pending, _changed
    _jobs, _pending, _changed = None, 0, threading.Condition()


os.register_at_fork(after_in_child=_after_fork_in_child)


def is_this_thread() -> bool:
    """Whether the caller is the worker: nobody's call waits for what it builds."""
    return getattr(_thread, "works", False)


def pause() -> None:
    """On the worker: lets the program's threads have the GIL. They would otherwise get it every 5 ms, and give it back at
    their next launch."""
    if is_this_thread():
        time.sleep(_PAUSE_S)


def _work(jobs: queue.Queue) -> None:
    global _pending
    _thread.works = True
    while True:
        try:
            job = jobs.get(timeout=builder_process.IDLE_S if builder_process.is_running() else None)
        except queue.Empty:
            builder_process.end()
            continue
        try:
            job()
        finally:
            with _changed:
                _pending -= 1
                _changed.notify_all()


def wait(timeout: float | None = None) -> bool:
    """Until nothing is pending. False if the time ran out first."""
    deadline = None if timeout is None else time.monotonic() + timeout
    with _changed:
        while _pending:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            _changed.wait(left)
    return True
