"""Why calls of a function could not be captured, and when that is enough to leave the function alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .. import _core
from ..errors import Unsupported
from .budget import Budget
from .dynamo_entries import DynamoEntries
from .locks import Locks

#: Refusals that say something about one call, not about the function: they end it only when they keep coming.
_ABOUT_THE_CALL = ("no-graph", "state", "dynamo-error")
_TRIES = 3


class Refusals:
    """Of one code object."""

    def __init__(self, code_reference: Any, locks: Locks, budget: Budget, entries: DynamoEntries) -> None:
        self._code_reference, self._locks, self._budget, self._entries = code_reference, locks, budget, entries
        self.counted: Counter[Any] = Counter()  # (slug, detail) -> how often
        self.refused: str | None = None  # why the function is left alone for good
        self._doubtful: list[Unsupported] = []  # of the call under way

    def add(self, refusals: list[Unsupported], has_some: bool) -> None:
        """While a call is under way nothing is decided: should it raise, they say nothing. `has_some`: the function has
        something else that serves, or will."""
        if self._entries.calls:
            self._doubtful += refusals
            return
        for each in refusals:
            self._count(each, has_some)

    def decide(self, raised: bool, has_some: bool) -> None:
        """The call is over."""
        doubtful, self._doubtful = self._doubtful, []
        for each in () if raised else doubtful:
            self._count(each, has_some)

    def _count(self, refusal: Unsupported, has_some: bool) -> None:
        with self._locks.state:
            self.counted[(refusal.slug, refusal.detail)] += 1
            about_the_call = refusal.slug in _ABOUT_THE_CALL
            tries = sum(n for (slug, _), n in self.counted.items() if (slug in _ABOUT_THE_CALL) == about_the_call)
            if about_the_call and tries < _TRIES:
                return
            if not has_some:
                self.refuse(str(refusal))
            elif tries >= _TRIES:
                self._budget.use_up(f"{tries} of its calls could not be captured ({refusal})")

    def refuse(self, reason: str) -> None:
        """The function is left alone from now on."""
        self.refused = reason
        _core.entry_state_set(self._code_reference(), _core.REFUSED)
        self._entries.forget()
