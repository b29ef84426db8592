"""Builds in the background, one at a time, in the order they were asked for. Ends with the process; a fork starts
its own. The thread does what needs the program; the rest is done by the build process, see `builder_process`."""

from __future__ import annotations

import os
import threading
import time
from collections import deque

from .._logs import log
from . import builder_process

_PAUSE_S = 0.001
_LOOK_S, _DOZE_S = (
    5,
    60,
)  # a job whose notice was lost to an interrupt waits no longer, with a build process and without
_thread = threading.local()


class _Worker:
    """A job stays in `jobs` until it is over: there is no count that an interrupt could leave wrong."""

    def __init__(self) -> None:
        self.jobs: deque = deque()
        self.changed = threading.Condition()
        self.thread: threading.Thread | None = None

    def start(self) -> None:
        with self.changed:
            if self.thread is None or not self.thread.is_alive():
                thread = threading.Thread(target=self._run, name="trident_hook-build", daemon=True)
                thread.start()
                self.thread = thread

    def _run(self) -> None:
        _thread.works = True
        while True:
            try:
                self._next()
            except BaseException as error:  # also what others raise into threads: jobs to come need the worker
                log("build", "a build was interrupted: %s: %s", type(error).__name__, error)

    def _next(self) -> None:
        idle_since = time.monotonic()
        with self.changed:
            while not self.jobs:
                self.changed.wait(min(_LOOK_S, builder_process.IDLE_S) if builder_process.is_running() else _DOZE_S)
                if builder_process.is_running() and time.monotonic() - idle_since >= builder_process.IDLE_S:
                    break
        if not self.jobs:
            builder_process.end()
            return
        try:
            self.jobs[0]()
        finally:
            self.jobs.popleft()
            with self.changed:
                self.changed.notify_all()


_worker = _Worker()


def submit(job) -> bool:
    """Runs `job()` on the worker. A job reports its own failures. False where no thread can be started (the program ends, or
    has too many)."""
    worker = _worker
    try:
        worker.start()
    except RuntimeError as error:
        log("build", "no thread to build on: %s", error)
        return False
    worker.jobs.append(job)
    with worker.changed:
        worker.changed.notify_all()
    return True


def _after_fork_in_child() -> None:
    """The worker and what it was asked for stayed with the parent, which may have held the condition."""
    global _worker
    _worker = _Worker()
    _thread.works = False  # of a fork that the worker itself made


os.register_at_fork(after_in_child=_after_fork_in_child)


def is_this_thread() -> bool:
    """Whether the caller is the worker: nobody's call waits for what it builds."""
    return getattr(_thread, "works", False)


def pause() -> None:
    """On the worker: lets the program's threads have the GIL. They would otherwise get it every 5 ms, and give it back at
    their next launch."""
    if is_this_thread():
        time.sleep(_PAUSE_S)


def wait(timeout: float | None = None) -> bool:
    """Until nothing is pending. False if the time ran out first."""
    deadline = None if timeout is None else time.monotonic() + timeout
    worker = _worker
    with worker.changed:
        while worker.jobs:
            left = _LOOK_S if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return False
            worker.changed.wait(min(left, _LOOK_S))
    return True
