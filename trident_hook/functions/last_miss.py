"""Why a function's calls missed last: what its module noted, made into words only when somebody asks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._config import config
from .._logs import log
from ..ir.kinds import CheckKind
from ..misses.explain_miss import FailedGuard, MissInspector
from .identity import tuned

_FIRST_LOOKS, _LOOK_EVERY_S = 16, 0.1  # at the misses of a function at its limit


class LastMiss:
    """Of the module that is in place."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.guard_texts: list[Any] = []
        self.asked: tuple[int, int] | None = (
            None  # the specialization that was asked last, and which of its guards failed
        )
        self.seen: tuple[Any, ...] = ()  # what FailedGuard takes, for every specialization
        self.failed: Sequence[int] = ()  # where the module notes which guard of each specialization failed
        self.has_keys = False  # tuners' choices are among its guards
        self.inspector: MissInspector | None = None
        self._turned_away = 0
        self._look_after = 0.0

    def of_module(self, module: Any, specializations: list[Any], generated: Any) -> None:
        """Another module is in place from now on."""
        self.guard_texts = generated.guard_texts
        self.failed = module.failed
        self.has_keys = any(tuned(spec) for spec in specializations)
        self.inspector = MissInspector(specializations, generated.checks, generated.guard_texts)

    def note(self, spec: int, guard: int, rarely: bool) -> None:
        """Looks at the call that is missing now. `rarely`: its function's calls are turned away, perhaps all of them."""
        if not self._is_worth_a_look(rarely):
            return
        self.asked = (spec, guard)
        self.seen = self.inspector.look(self.failed, _core.missed_call()) if self.inspector else ()
        if "guards" in config.logs:
            log("guards", "%s missed: %s", self._name, self.explain())

    def _is_worth_a_look(self, rarely: bool) -> bool:
        """Looking at a miss takes microseconds for each specialization. A function at its limit may be turned away in every
        call, and one whose calls raise is not to cost more for it: after the first few they are looked at ten times a second."""
        if not rarely or "guards" in config.logs:
            return True
        self._turned_away += 1
        if self._turned_away <= _FIRST_LOOKS:
            return True
        now = time.monotonic()
        if now < self._look_after:
            return False
        self._look_after = now + _LOOK_EVERY_S
        return True

    def lacks_only_a_key(self) -> bool:
        """Whether some specialization may serve the call, once it is known that its tuner chooses that config."""
        if not self.has_keys or self.inspector is None:
            return False
        inspector = self.inspector
        return inspector is not None and any(inspector.is_about(pair, CheckKind.KEY) for pair in enumerate(self.failed))

    def explain(self) -> str:
        """Which guard of each specialization failed, and what it saw."""
        if self.asked is None:
            return "none"
        return "; ".join(str(FailedGuard(*seen)) for seen in self.seen) or self._failure(*self.asked)

    def short(self) -> str:
        """Which guard of the specialization that was asked last failed."""
        return self._failure(*self.asked) if self.asked else "none"

    def _failure(self, spec: int, guard: int) -> str:
        if spec < len(self.seen):
            return str(FailedGuard(*self.seen[spec]))
        if spec < len(self.guard_texts) and 0 <= guard < len(self.guard_texts[spec]):
            return f"specialization {spec}: {self.guard_texts[spec][guard]}"
        return f"specialization {spec}, guard {guard}"
