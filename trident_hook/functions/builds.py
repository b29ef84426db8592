"""The builds of a function's module: all that was learned, generated, compiled and put in place behind the entry."""

from __future__ import annotations

import time
import warnings
from typing import Any

from .. import _core, profiling
from .._config import config
from .._logs import log
from .._scm import loader, worker
from ..codegen.module import generate
from ..errors import BuildError, Unsupported
from ..runtime import interrupts
from . import conditions, states
from .budget import Budget
from .dynamo_entries import DynamoEntries
from .identity import without_known
from .last_miss import LastMiss
from .learning import Learning
from .locks import Locks
from .refusals import Refusals
from .verified import VerifiedScm

_TRIES = 3  # builds in a row that have nothing new


class Builds:
    """Of one code object; one at a time, on the worker or in the call that missed."""

    def __init__(
        self,
        code_reference: Any,
        locks: Locks,
        budget: Budget,
        entries: DynamoEntries,
        refusals: Refusals,
        learning: Learning,
        last_miss: LastMiss,
    ) -> None:
        self._code_reference, self._locks, self._budget, self._entries = code_reference, locks, budget, entries
        self._learning, self._last_miss, self._refusals = learning, last_miss, refusals
        self._course = states.Course(learning.name, learning, refusals, budget, entries)
        self.done = 0
        self.seconds = 0.0
        self.error: str | None = None
        self.source = ""
        self.first_call: float | None = None
        self.served_after: float | None = None  # seconds from the first miss to the first module in place
        self.queued = False
        self._again = 0  # builds in a row that had nothing new

    def check(self) -> None:
        """Asserts that the function's state follows from the one before it, where that is asked for."""
        if __debug__ and config.checks:
            with self._locks.state:
                self._course.check(self.done)

    def note_call(self) -> None:
        """The first miss of a function is when it was first called."""
        if self.first_call is None:
            self.first_call = time.perf_counter()

    def ask(self) -> bool:
        """What was learned is to be built, on the worker. True if the caller is to do it instead, without the lock."""
        if config.build == "sync":
            return True
        if not self.queued:
            self.queued = worker.submit(self.run)
        return False

    def run(self) -> None:
        """Builds all that was learned, also while it builds. Calls go on meanwhile: no compiler holds the lock of their state."""
        try:
            with self._locks.building:
                try:
                    while self._next():
                        self.check()
                except BaseException:  # an interrupt: what it would have built is built after the next miss
                    with self._locks.state:
                        self._learning.give_back()
                    raise
        except BaseException:
            self.queued = False
            raise

    def _next(self) -> bool:
        wanted = self._choose()
        if wanted is None:
            return False
        if len(wanted) == len(self._learning.specializations):
            return True
        started = time.perf_counter()
        try:
            generated = generate(wanted, conditions.conditions(), worker.pause)
            log("codegen", "%s:\n%s", self._learning.name, generated.source)
            module = loader.LoadedScm(generated)
        except Unsupported as refusal:
            self._put_back(wanted, refusal)
        except Exception as error:
            self._note_failure(error)
        else:
            self._put_in_place(wanted, generated, module, started)
        return True

    def _choose(self) -> list[Any] | None:
        """What the next module is to have: as much as the limit allows of what is new. None when nothing was learned."""
        learning = self._learning
        with self._locks.state:
            fresh = learning.take()
            if not fresh:
                self.queued = False
                return None
            room = config.limit - len(learning.specializations)
            known = [*learning.specializations, *learning.given_up]
            wanted = [*learning.specializations, *without_known(fresh, known)[:room]]
            if len(wanted) > len(learning.specializations):
                self._again = 0
                learning.wanted = wanted
                return wanted
            self._again += 1
            if config.build == "sync" or self._again >= _TRIES:
                self._budget.use_up(f"it already has {len(wanted)} specialization(s), none of which holds")
            # Else it may have been captured just before the module that has it was in place.
            self._entries.forget()
            return wanted

    @interrupts.put_off()
    def _put_in_place(self, wanted: list[Any], generated: Any, module: Any, started: float) -> None:
        """In an order that an interrupt may break off anywhere: what is not noted yet is built once more."""
        learning, code = self._learning, self._code_reference()
        presented = profiling.presented(code, self._to_serve(code, module, wanted), learning.name)
        with self._locks.state:
            self._last_miss.of_module(module, wanted, generated)
            _core.entry_scm_set(code, presented)
            learning.specializations = wanted
            self.source = generated.source
            self._entries.forget_after_build(self._last_miss.has_keys)
            self.done += 1
            self.seconds += time.perf_counter() - started
            if self.served_after is None and self.first_call is not None:
                self.served_after = time.perf_counter() - self.first_call
            log(
                "build", "%s: %d specialization(s) in %.3f s", learning.name, len(wanted), time.perf_counter() - started
            )
            if len(wanted) >= config.limit or self.done >= config.rebuilds:
                self._budget.use_up(f"it has {len(wanted)} specialization(s), the limit is {config.limit}")

    def _to_serve(self, code: Any, module: Any, specs: list[Any]) -> Any:
        """The module, or where hits are verified what stands in front of it."""
        if not config.verify:
            return module
        return VerifiedScm(code, module, lambda number, difference: self.give_up(specs[number], difference))

    def give_up(self, spec: Any, difference: str) -> None:
        """A hit of the specialization has differed from the plain function: the module goes on without it. A function that has
        nothing else is left alone."""
        learning = self._learning
        with self._locks.building:
            with self._locks.state:
                known = any(spec is each for each in learning.specializations)
                if not known or any(spec is each for each in learning.given_up):
                    return
                learning.given_up.append(spec)
                self._refusals.counted[("verification", difference)] += 1
                left = [each for each in learning.specializations if each is not spec]
                if not left:
                    self._refusals.refuse(f"verification: {difference}")
            if left:
                try:
                    self._build_without(left)
                except Exception as error:  # rather nothing than what is wrong
                    self._refusals.refuse(f"verification: {difference} ({error})")
        log("hook", "%s differs, and is given up: %s\n%s", learning.name, difference, spec)
        warnings.warn(
            f"trident_hook: a hit of {learning.name} was not what the plain function does: {difference}. The specialization is given "
            f"up; the caller got the plain function's answer.\n{spec}",
            RuntimeWarning,
            stacklevel=2,
        )

    def _build_without(self, left: list[Any]) -> None:
        started = time.perf_counter()
        module = loader.LoadedScm(generated := generate(left, conditions.conditions()))
        self._learning.wanted = left
        self._put_in_place(left, generated, module, started)

    def _note_failure(self, error: Exception) -> None:
        self.error = f"{type(error).__name__}: {error}"
        kind = "build" if isinstance(error, BuildError) else "internal"
        log("build", "%s: %s", self._learning.name, self.error)
        self._learning.wanted = self._learning.specializations
        self._learning.failed(Unsupported(kind, self.error.splitlines()[0]))

    def _put_back(self, wanted: list[Any], refusal: Unsupported) -> None:
        """After code could not be generated. Of several that came at once, those that are not to blame are kept."""
        learning = self._learning
        new = wanted[len(learning.specializations) :]
        good = [spec for spec in new if len(new) > 1 and _can_be_generated(spec)]
        with self._locks.state:
            learning.wanted = learning.specializations
            if len(good) < len(new):
                learning.put_back(good)
            to_blame = [spec.program for spec in new if spec not in good]
            learning.failed(
                refusal,
                symbolic=all(program.symbols for program in to_blame),
                floats=all(program.has_floats for program in to_blame),
            )


def _can_be_generated(spec: Any) -> bool:
    try:
        generate([spec], [])
        return True
    except Unsupported:
        return False
