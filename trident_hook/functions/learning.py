"""What captures have taught of a function: its specializations, from the capture to the module that has them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .._config import config
from .._logs import log
from ..errors import Unsupported
from .dynamo_entries import DynamoEntries
from .identity import identity, tuned, without_known
from .locks import Locks
from .refusals import Refusals

#: Refusals that are no different where every number is a constant.
_NOT_ABOUT_SYMBOLS = ("no-graph", "state", "build", "internal")


class Learning:
    """Of one code object. Capture tells it what came of each compile, the builds take from it what is new."""

    def __init__(self, name: str, locks: Locks, entries: DynamoEntries, refusals: Refusals) -> None:
        self.name = name
        self._locks, self._entries, self._refusals = locks, entries, refusals
        self.specializations: list[Any] = []  # in the module that is in place
        self.wanted: list[Any] = []  # in that module, or in the one that is being built
        self.fresh: list[Any] = []  # captured, and in neither
        self._taken: list[Any] = []  # by the build that is under way
        self.given_up: list[Any] = []  # found to be wrong, and never taken again
        self.fixed_floats: Unsupported | None = None  # why floats that change are constants here
        self.reads_contexts = False  # a capture saw what a torch.autograd.Function saved
        self.runs_plainly = False  # a capture's code may not answer calls: they run as plain Python until a module does
        self._captures = 0
        # The next capture takes sizes as they are: the last one could not be done with symbols. Why not is a refusal of the
        # function only if that capture fails as well.
        self._static_next = False
        self._pending: Unsupported | None = None

    @property
    def has_some(self) -> bool:
        """Whether there is something that serves, or will."""
        return bool(self.specializations or self.fresh)

    # -- what capture calls ----------------------------------------------------------------------------------------
    def next_index(self) -> int:
        """The number of the specialization that is captured now."""
        self._captures += 1
        return self._captures - 1

    def takes_sizes_as_they_are(self) -> bool:
        """Whether the capture that begins now is to have no symbols. Asked once by each."""
        with self._locks.state:
            static, self._static_next = self._static_next, False
        return static

    def learned(self, spec: Any) -> None:
        """A capture has led to a specialization."""
        with self._locks.state:
            self._entries.captured += 1
            self._entries.taught()
            if not spec.program.symbols:
                self._pending = None
            if self._adopted(spec):
                return
            self.fresh.append(spec)
        log("capture", "%s", spec)

    def learned_variant(self, spec: Any) -> None:
        """A capture that has led to a specialization already has led to another: nothing is said of the call if it is known."""
        with self._locks.state:
            if self._adopted(spec):
                return
            known = [*self.wanted, *self.fresh]
            if len(known) < config.limit and without_known([spec], known):
                self.fresh.append(spec)
                log("capture", "another launch: %s", spec)

    def _adopted(self, spec: Any) -> bool:
        """Whether all that is new in it are keys of tuners, which the specialization that it is the same as has now too."""
        mine = identity(spec)
        known = next((s for s in (*self.wanted, *self.fresh) if identity(s) == mine), None)
        if known is None:
            return False
        news = [has.known.adopt(its.known) for has, its in list(zip(tuned(known), tuned(spec), strict=True))]
        if not any(news):
            return False
        self._entries.taught()
        log("capture", "%s: specialization %d serves another key of its tuner", self.name, known.index)
        return True

    def failed(self, refusal: Unsupported, *, symbolic: bool = False, floats: bool = False) -> None:
        """A capture has led to nothing. A function that has nothing else is left alone from then on. `symbolic`, `floats`:
        sizes, floats that had changed were symbols in it. The next capture is made without: with floats as they are for good; with
        sizes as they are once, where captures without them have led to something."""
        with self._locks.state:
            log("capture", "%s refused: %s", self.name, refusal)
            other = refusal.slug not in _NOT_ABOUT_SYMBOLS
            if floats and other and self.fixed_floats is None:
                self.fixed_floats = refusal
                self._entries.forget()
                return
            if symbolic and other and self.has_some:
                self._static_next, self._pending = True, refusal
                self._entries.forget()
                return
            refusals, self._pending = [each for each in (self._pending, refusal) if each is not None], None
            self._refusals.add(refusals, self.has_some)

    # -- what the doors bring ----------------------------------------------------------------------------------------
    def call_is_over(self, raised: bool) -> None:
        """Decides on what the missed call could not teach. Calls that raised say nothing about what can be captured."""
        if raised:
            self._pending = None
        self._refusals.decide(raised, self.has_some)

    # -- what the builds call ----------------------------------------------------------------------------------------
    def take(self) -> list[Any]:
        """What is new; it is the build's from now on."""
        self._taken, self.fresh = self.fresh, []
        return self._taken

    def give_back(self) -> None:
        """The build that took it was interrupted: what is not in a module by now is new again."""
        self.put_back([spec for spec in self._taken if not any(spec is known for known in self.specializations)])
        self._taken, self.wanted = [], self.specializations

    def put_back(self, specs: list[Any]) -> None:
        """What a build could not bring in, before all that was learned meanwhile."""
        self.fresh = [*specs, *self.fresh]

    # -- for people --------------------------------------------------------------------------------------------------
    def all_refusals(self) -> Counter[Any]:
        """With the one that is not decided yet."""
        pending = () if self._pending is None else ((self._pending.slug, self._pending.detail),)
        return self._refusals.counted + Counter(pending)
