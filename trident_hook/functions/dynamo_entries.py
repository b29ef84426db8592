"""What Dynamo has of a function: calls that are in it now, and entries of its cache, which are dropped as soon as they teach
nothing more."""

from __future__ import annotations

from typing import Any

from .. import _core
from ..dynamo.entries import forget
from .budget import Budget
from .locks import Locks

_KEPT_ENTRIES = 4  # after a build
_IDLE_MISSES = 32


class DynamoEntries:
    """Counts for one code object. Entries are never dropped while a call is in Dynamo: it holds on to what that would free."""

    def __init__(self, code_reference: Any, locks: Locks, budget: Budget) -> None:
        self._code_reference, self._locks, self._budget = code_reference, locks, budget
        self.captured = 0  # captures whose entries Dynamo has
        self._idle = 0  # misses in a row that taught nothing although the entries were kept
        self._forget = False  # they are to be dropped once it has no call

    @property
    def calls(self) -> int:
        """Those that Dynamo has now, or is about to have."""
        return _core.entry_missing(self._code_reference())

    @property
    def teach_nothing(self) -> bool:
        """Whether misses have brought nothing for so long that no more is to be hoped for."""
        return self._idle > _IDLE_MISSES

    def taught(self) -> None:
        """A call has brought something new."""
        self._idle = 0

    def count_idle(self) -> None:
        """A call has brought nothing. Entries that teach nothing for long are dropped."""
        if not (self.captured or self._budget.full):
            return
        self._idle += 1
        if self.captured and self.teach_nothing:
            self.forget()

    def forget(self) -> None:
        """Drops the entries, now or when the last call is out: the next miss is captured anew, and Dynamo's limit is not ours."""
        with self._locks.state:
            self._forget = True
            self.forget_when_idle()

    def forget_after_build(self, has_keys: bool) -> None:
        """What the module lacks is captured anew. But a new key of a tuner, for a graph that is known, only needs the graph
        once more: a few entries are kept for that, as long as they teach something."""
        if self.captured > _KEPT_ENTRIES or not has_keys:
            self.forget()

    def forget_when_idle(self) -> None:
        if self._forget and self.calls == 0:
            self._forget, self.captured = False, 0
            if not self._budget.full:
                self._idle = 0
            forget(self._code_reference())
