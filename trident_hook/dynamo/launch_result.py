"""What a launch returns (Triton's CompiledKernel), where the program uses it. Dynamo takes it for None."""

from __future__ import annotations

import threading


class LaunchResult:
    """One for each launch that a capture traces.

    recorded: what the capture's first run launched, which every hit launches: its guards say so.
    latest: of the calling thread's last run of the captured graph. Dynamo's own code reads it until a module is in place;
        its guards admit other binaries.
    used: whether the program does anything with it."""

    def __init__(self) -> None:
        self.recorded, self.used = None, False
        self._here = threading.local()

    @property
    def latest(self):
        return self._here.compiled

    def set(self, compiled) -> None:
        self._here.compiled = compiled


#: Index of a launch's constants in Dynamo's side table, which is each launch's own -> its result. Of the capture under
#: way: Dynamo's compile lock is held.
_of_capture: dict[int, LaunchResult] = {}


def begin() -> None:
    _of_capture.clear()


def expect(index: int) -> LaunchResult:
    return _of_capture.setdefault(index, LaunchResult())


def of(index: int) -> LaunchResult | None:
    return _of_capture.get(index)
