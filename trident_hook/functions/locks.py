"""The two locks of a function's record, shared by its parts."""

from __future__ import annotations

import threading


class Locks:
    """`state` guards what the parts know, `building` the one build under way. `building` is taken before `state`, never after it."""

    state: threading.RLock
    building: threading.RLock

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """In the child of a fork: whoever held one is not here to give it back."""
        self.state, self.building = threading.RLock(), threading.RLock()
