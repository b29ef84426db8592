"""The device: a context that makes one current, and properties that are asked once."""

from __future__ import annotations

import functools

import triton

asked = []


def current_device() -> int:
    return triton.runtime.driver.active.get_current_device()


class device:
    def __init__(self, which) -> None:
        self.index = getattr(which, "index", None) if not isinstance(which, int) else which

    def __enter__(self) -> None:
        self.before = current_device()
        if self.index is not None:
            triton.runtime.driver.active.set_current_device(self.index)

    def __exit__(self, *exc) -> None:
        triton.runtime.driver.active.set_current_device(self.before)


@functools.lru_cache(maxsize=1)
def sm_count() -> int:
    asked.append("sm_count")
    return int("132")
