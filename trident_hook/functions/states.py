"""The states of a function, and which may follow which; docs/architecture.md draws them. Nothing decides by them: a state is
read off what the parts of a record know, so that it cannot disagree with them. With TRIDENT_HOOK_CHECKS=1 every step of a
function is held against the picture."""

from __future__ import annotations

import enum

from .budget import Budget
from .dynamo_entries import DynamoEntries
from .learning import Learning
from .refusals import Refusals


class State(enum.Enum):
    """What becomes of a call that misses, and whether there are any that hit."""

    NEW = "nothing is known: a miss is captured"
    LEARNED = "captured, no module yet: a miss is captured or runs in Dynamo's cache"
    SERVED = "a module is in place: a miss is captured for the next one"
    FULL = "a module is in place, or none can be made: a miss is a plain call"
    REFUSED = "left alone for good: every call is a plain one"


#: State -> those that it may become. A step may skip what lies between: states are looked at between calls and builds.
NEXT = {
    State.NEW: {State.LEARNED, State.SERVED, State.FULL, State.REFUSED},
    State.LEARNED: {State.NEW, State.SERVED, State.FULL, State.REFUSED},
    State.SERVED: {State.FULL, State.REFUSED},
    State.FULL: {State.REFUSED},
    State.REFUSED: set(),
}

#: What did not hold in this process. The doors keep the program from seeing an exception of ours: tests look here.
broken: list[str] = []


def state_of(learning: Learning, refusals: Refusals, budget: Budget) -> State:
    if refusals.refused is not None:
        return State.REFUSED
    if budget.full:
        return State.FULL
    if learning.specializations:
        return State.SERVED
    return State.LEARNED if learning.fresh or learning.wanted else State.NEW


class Course:
    """The last state that was seen of one function. Called with the lock of its state held."""

    def __init__(
        self, name: str, learning: Learning, refusals: Refusals, budget: Budget, entries: DynamoEntries
    ) -> None:
        self._name = name
        self._parts = learning, refusals, budget, entries
        self._last = State.NEW

    def check(self, builds: int) -> None:
        """Raises AssertionError for a step that the picture does not have, and for parts that contradict each other."""
        learning, refusals, budget, entries = self._parts
        before, self._last = self._last, state_of(learning, refusals, budget)
        has, wanted = learning.specializations, learning.wanted
        self._holds(self._last is before or self._last in NEXT[before], f"{before.name} became {self._last.name}")
        self._holds(all(map(_is, has, wanted)) and len(has) <= len(wanted), "what serves is not what is wanted first")
        self._holds(bool(builds) == bool(has), f"{builds} build(s) and {len(has)} specialization(s)")
        self._holds(entries.captured >= 0, f"{entries.captured} entries of Dynamo's")
        self._holds(budget.full == bool(budget.why), "at a limit without a reason")
        self._holds(refusals.refused != "", "refused without a reason")

    def _holds(self, condition: bool, otherwise: str) -> None:
        if not condition:
            broken.append(f"{self._name}: {otherwise}")
            raise AssertionError(broken[-1])


def _is(one: object, other: object) -> bool:
    return one is other
