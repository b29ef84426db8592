"""What is known of one function. The doors ask it on a miss; its parts know the rest: what was learned, which builds there
were, what was refused, what Dynamo has, and why calls missed."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from .. import _core
from .._config import config
from ..dynamo import capturing
from ..runtime import interrupts
from . import conditions, lessons
from .budget import Budget
from .builds import Builds
from .dynamo_entries import DynamoEntries
from .last_miss import LastMiss
from .learning import Learning
from .locks import Locks
from .raising import RaisingCalls
from .refusals import Refusals

#: All records, by id: for what a fork changes.
_records: weakref.WeakValueDictionary[int, FunctionRecord] = weakref.WeakValueDictionary()


class FunctionRecord:
    """One per code object, which owns it through its entry: a strong reference back would be a cycle that the garbage
    collector cannot see. Each part knows those that are made before it here, and none behind it."""

    def __init__(self, code_reference: weakref.ref[Any], name: str, launches: bool = True) -> None:
        self.code_reference, self.name = code_reference, name
        self.launches = launches  # its names reach a Triton launcher
        self.jitted = False  # under jit(): its call door stays when enable() ends
        self.locks = Locks()
        self.budget = Budget()
        self.raising = RaisingCalls()
        self.last_miss = LastMiss(name)
        self.dynamo_entries = DynamoEntries(code_reference, self.locks, self.budget)
        self.refusals = Refusals(code_reference, self.locks, self.budget, self.dynamo_entries)
        self.learning = Learning(name, self.locks, self.dynamo_entries, self.refusals)
        self.builds = Builds(code_reference, self.locks, self.budget, self.dynamo_entries, self.refusals, self.learning,
                             self.last_miss)  # fmt: skip
        _records[id(self)] = self

    @property
    def code(self) -> Any:
        return self.code_reference()

    @property
    def specializations(self) -> list[Any]:
        """Those of the module that is in place."""
        return self.learning.specializations

    @property
    def refused(self) -> str | None:
        """Why the function is left alone for good."""
        return self.refusals.refused

    # -- what the doors call (see ext/door) ------------------------------------------------------------------------
    def before_miss(self, door: str, spec: int, guard: int) -> Any:
        """For a call that no specialization serves: the Dynamo callback, None for the plain function, or its kind (a tuple)
        for the plain function and `after_trial`."""
        asked = self.builds.done
        if spec >= 0:
            self.last_miss.note(spec, guard, rarely=self.budget.full or self.raising.wary)
        self.builds.note_call()
        if self.budget.full and (self.dynamo_entries.teach_nothing or not self.last_miss.lacks_only_a_key()):
            self.budget.warn_once(self.name, self.last_miss.short)
            return None
        kind = self.raising.kind_on_trial(_core.missed_call(), threading.get_ident()) if self.raising.wary else None
        if kind is not None:
            return kind
        if config.disabled or not conditions.allows_learning():
            return None
        waits = self.learning.reads_contexts or self.learning.runs_plainly
        if waits and (self.builds.queued or self.learning.fresh):
            return None
        callback = _callback()
        # After a build that ended meanwhile: what would be captured may be served already.
        return None if self.builds.done != asked else callback

    def after_miss(self, raised: bool = False) -> None:
        """The missed call is over: what it taught is built, now or in the background."""
        self.raising.captured(raised, threading.get_ident())
        with self.locks.state:
            self.learning.call_is_over(raised)
            if not (self.learning.fresh or self.builds.queued):
                self.dynamo_entries.count_idle()
            self.dynamo_entries.forget_when_idle()
            builds_here = bool(self.learning.fresh) and self.builds.ask()
            self.builds.check()
        if builds_here:
            self.builds.run()

    def after_trial(self, kind: tuple[Any, ...], raised: bool) -> None:
        """A missed call that ran as plain Python is over."""
        self.raising.tried(kind, raised)

    # -- for people ------------------------------------------------------------------------------------------------
    def counts(self) -> dict[Any, Any]:
        """Outcomes of its calls; doors (frame_hits, call_hits) are told apart in `doors()`."""
        stats = _core.entry_stats(self.code)
        return {name: n for name, n in stats.items() if not name.endswith("_hits")}

    def all_refusals(self) -> dict[Any, Any]:
        """(slug, detail) -> how often, with the one that is not decided yet."""
        return self.learning.all_refusals()

    def doors(self) -> dict[Any, Any]:
        stats = _core.entry_stats(self.code)
        return {"frame": stats["frame_hits"], "call": stats["call_hits"]}


def _after_fork_in_child() -> None:
    """Other threads of the parent are not here: none gives a lock back, is in Dynamo or builds what was asked for. What the
    parent has learned and not yet built is built after the next miss."""
    for record in list(_records.values()):
        record.locks.renew()
        record.builds.queued = False
    _core.forked()


os.register_at_fork(after_in_child=_after_fork_in_child)

_recorder = None


def _callback() -> Any:
    """Our recorder, made when it is first needed: it brings Dynamo in."""
    global _recorder

    if _recorder is None:
        with interrupts.put_off():  # modules of PyTorch whose import was broken off may be imported no more
            unproven = lessons.unproven()
            with capturing.unforked():
                from ..capture.recorder import Recorder

                _recorder = Recorder(_core.entry_record, unproven)
    return _recorder
