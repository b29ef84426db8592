"""What is known of one function: its specializations, its module, its refusals. The doors ask it on a miss."""

from __future__ import annotations

import os
import threading
import time
import warnings
import weakref
from collections import Counter
from dataclasses import dataclass, field

from .. import _core, profiling
from .._logs import log
from ..codegen.module import generate
from ..config import config
from ..errors import BuildError, Unsupported
from ..misses.explain_miss import FailedGuard, MissInspector
from ..scm import loader, worker
from . import conditions
from .raising import RaisingCalls

#: Refusals that say something about one call, not about the function: they end it only when they keep coming.
_ABOUT_THE_CALL = ("no-graph", "state", "dynamo-error")
#: Refusals that are no different where every number is a constant.
_NOT_ABOUT_SYMBOLS = ("no-graph", "state", "build", "internal")
_TRIES = 3
_KEPT_ENTRIES = 4  # of Dynamo's, after a build
_IDLE_MISSES = 32
_FIRST_LOOKS, _LOOK_EVERY_S = 16, 0.1  # at the misses of a function at its limit


#: All records, by id: for what a fork changes.
_records: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


@dataclass
class FunctionRecord:
    """One per code object, which owns it through its entry: a strong reference back would be a cycle that the garbage
    collector cannot see."""

    code_reference: weakref.ref
    name: str
    specializations: list = field(default_factory=list)
    guard_texts: list = field(default_factory=list)
    source: str = ""
    refusals: Counter = field(default_factory=Counter)  # (slug, detail) -> how often
    refused: str | None = None  # why the function is left alone for good
    why_full: str = ""
    _warned: bool = False
    full: bool = False  # over its budget: its module stays, the rest keeps its previous path
    launches: bool = True  # its names reach a Triton launcher
    fixed_floats: Unsupported | None = None  # why floats that change are constants here
    reads_contexts: bool = False  # a capture saw what a torch.autograd.Function saved
    jitted: bool = False  # under jit(): its call door stays when enable() ends
    last_miss: tuple[int, int] | None = None  # the specialization that was asked last, and which of its guards failed
    last_seen: tuple = ()  # what explain_miss.FailedGuard takes, for every specialization
    builds: int = 0
    build_seconds: float = 0.0
    build_error: str | None = None
    first_call: float | None = None
    served_after: float | None = None  # seconds from the first miss to the first module in place
    _captures: int = 0
    _again: int = 0  # builds in a row that had nothing new
    _failed: object = ()  # where the module notes which guard of each specialization failed
    _inspector: MissInspector | None = None  # of the same module
    _has_keys: bool = False  # tuners' choices are among the guards of the same module
    _turned_away: int = 0  # misses of a function at its limit
    _look_after: float = 0.0
    _fresh: list = field(default_factory=list)
    _wanted: list = field(default_factory=list)  # in the module that is in place or being built
    _doubtful: list = field(default_factory=list)  # refusals of the call under way
    _static_next: bool = False  # the next capture takes sizes as they are: the last one could not be done with symbols
    _pending: Unsupported | None = None  # why not; a refusal of the function only if that capture fails as well
    _raising: RaisingCalls = field(default_factory=RaisingCalls)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _building: threading.RLock = field(default_factory=threading.RLock)  # taken before _lock, never after it
    _queued: bool = False
    _delegated: int = 0  # calls that Dynamo has now
    _entries: int = 0  # captures whose entries Dynamo has
    _idle: int = 0  # misses in a row that taught nothing although Dynamo's entries were kept
    _forget: bool = False  # Dynamo's entries are to be dropped once it has none

    def __post_init__(self) -> None:
        _records[id(self)] = self

    @property
    def code(self):
        return self.code_reference()

    # -- what the doors call (see ext/door) ------------------------------------------------------------------------
    def before_miss(self, door: str, spec: int, guard: int):
        """For a call that no specialization serves: the Dynamo callback, None for the plain function, or its kind (a tuple)
        for the plain function and `after_trial`."""
        asked = self.builds
        if spec >= 0 and self._is_worth_a_look():
            self.last_miss = (spec, guard)
            self.last_seen = self._inspector.look(self._failed, _core.missed_call()) if self._inspector else ()
            if "guards" in config.logs:
                log("guards", "%s missed: %s", self.name, self.explain_miss())
        if self.first_call is None:
            self.first_call = time.perf_counter()
        if self.full and not self._lacks_only_keys():
            self._warn_once()
            return None
        kind = self._raising.kind_on_trial(_core.missed_call(), threading.get_ident()) if self._raising.wary else None
        if kind is not None:
            return kind
        if config.disabled or not conditions.allows_learning():
            return None
        if self.reads_contexts and (self._queued or self._fresh):
            return None
        with self._lock:
            if self.builds != asked:  # a build ended meanwhile: what would be captured may be served already
                return None
            self._delegated += 1
        return _callback()

    def _is_worth_a_look(self) -> bool:
        """Looking at a miss takes microseconds for each specialization. A function at its limit may be turned away in every
        call, and one whose calls raise is not to cost more for it: after the first few they are looked at ten times a second."""
        if not (self.full or self._raising.wary) or "guards" in config.logs:
            return True
        self._turned_away += 1
        if self._turned_away <= _FIRST_LOOKS:
            return True
        now = time.monotonic()
        if now < self._look_after:
            return False
        self._look_after = now + _LOOK_EVERY_S
        return True

    def after_miss(self, raised: bool = False) -> None:
        """The missed call is over: what it taught is built, now or in the background. Calls that raised say nothing about
        what can be captured."""
        self._raising.captured(raised, threading.get_ident())
        with self._lock:
            self._delegated -= 1
            self._pending = None if raised else self._pending
            doubtful, self._doubtful = self._doubtful, []
            for refusal in () if raised else doubtful:
                self._count(refusal)
            self._count_idle()
            self._forget_when_idle()
            if not self._fresh:
                return
            at_once = config.build == "sync"
            if not at_once and not self._queued:
                self._queued = True
                worker.submit(self._build)
        if at_once:
            self._build()

    def after_trial(self, kind: tuple, raised: bool) -> None:
        """A missed call that ran as plain Python is over."""
        self._raising.tried(kind, raised)

    # -- what capture calls ----------------------------------------------------------------------------------------
    def next_index(self) -> int:
        self._captures += 1
        return self._captures - 1

    def takes_sizes_as_they_are(self) -> bool:
        """Whether the capture that begins now is to have no symbols. Asked once by each."""
        with self._lock:
            static, self._static_next = self._static_next, False
        return static

    def learned(self, spec) -> None:
        with self._lock:
            self._entries += 1
            self._idle = 0
            if not spec.program.symbols:
                self._pending = None
            if self._adopted(spec):
                return
            self._fresh.append(spec)
        log("capture", "%s", spec)

    def learned_variant(self, spec) -> None:
        """Of a capture that has led to a specialization already: nothing is said of the call if this one is known."""
        with self._lock:
            if self._adopted(spec):
                return
            known = [*self._wanted, *self._fresh]
            if len(known) < config.limit and _without_known([spec], known):
                self._fresh.append(spec)
                log("capture", "another launch: %s", spec)

    def _lacks_only_keys(self) -> bool:
        """Whether some specialization may serve the call, once it is known that its tuner chooses that config. Not for ever:
        see _IDLE_MISSES."""
        if not self._has_keys or self._idle > _IDLE_MISSES or self._inspector is None:
            return False
        return any(self._inspector.is_about(pair, "key") for pair in enumerate(self._failed))

    def _adopted(self, spec) -> bool:
        """Whether all that is new in it are keys of tuners, which the specialization that it is the same as has now too."""
        identity = _identity(spec)
        known = next((s for s in (*self._wanted, *self._fresh) if _identity(s) == identity), None)
        if known is None:
            return False
        pairs = list(zip(_tuned(known), _tuned(spec), strict=True))
        news = [mine.known.adopt(its.known) for mine, its in pairs]
        if not any(news):
            return False
        self._idle = 0
        log("capture", "%s: specialization %d serves another key of its tuner", self.name, known.index)
        return True

    def at_dynamos_limit(self) -> None:
        """It would capture no more for as long as it keeps what it has: nothing is said of the call."""
        self._forget_dynamo()

    def failed(self, refusal: Unsupported, *, symbolic: bool = False, floats: bool = False) -> None:
        """A capture that led to nothing. A function that has nothing else is left alone from then on. `symbolic`, `floats`:
        sizes, floats that had changed were symbols in it. The next capture is made without: with floats as they are for good; with
        sizes as they are once, where captures without them have led to something."""
        with self._lock:
            log("capture", "%s refused: %s", self.name, refusal)
            other = refusal.slug not in _NOT_ABOUT_SYMBOLS
            if floats and other and self.fixed_floats is None:
                self.fixed_floats = refusal
                self._forget_dynamo()
                return
            if symbolic and other and (self.specializations or self._fresh):
                self._static_next, self._pending = True, refusal
                self._forget_dynamo()
                return
            refusals, self._pending = [each for each in (self._pending, refusal) if each is not None], None
            if self._delegated:
                self._doubtful += refusals
                return
            for each in refusals:
                self._count(each)

    def _count(self, refusal: Unsupported) -> None:
        with self._lock:
            self.refusals[(refusal.slug, refusal.detail)] += 1
            about_the_call = refusal.slug in _ABOUT_THE_CALL
            tries = sum(n for (slug, _), n in self.refusals.items() if (slug in _ABOUT_THE_CALL) == about_the_call)
            if about_the_call and tries < _TRIES:
                return
            if self.specializations or self._fresh:
                if tries >= _TRIES:
                    self._over_budget(f"{tries} of its calls could not be captured ({refusal})")
                return
            self.refuse(str(refusal))

    def refuse(self, reason: str) -> None:
        self.refused = reason
        _core.entry_state_set(self.code, _core.REFUSED)
        self._forget_dynamo()

    def _forget_dynamo(self) -> None:
        """Drops Dynamo's cache entries of the code: the next miss is captured anew, and Dynamo's limit is not ours. Not
        while a call is in Dynamo: it holds on to what this would free."""
        with self._lock:
            self._forget = True
            self._forget_when_idle()

    def _forget_after_build(self) -> None:
        """What the module lacks is captured anew. But a new key of a tuner, for a graph that is known, only needs the graph
        once more: Dynamo keeps a few entries for that, as long as they teach something."""
        if self._entries > _KEPT_ENTRIES or not self._has_keys:
            self._forget_dynamo()

    def _count_idle(self) -> None:
        if self._fresh or self._queued or not (self._entries or self.full):
            return
        self._idle += 1
        if self._entries and self._idle > _IDLE_MISSES:
            self._forget_dynamo()

    def _forget_when_idle(self) -> None:
        if self._forget and self._delegated == 0:
            from torch._dynamo.eval_frame import reset_code

            self._forget, self._entries = False, 0
            if not self.full:
                self._idle = 0
            reset_code(self.code)

    # -- building --------------------------------------------------------------------------------------------------
    def _build(self) -> None:
        """All that was learned, also while it builds. Calls go on meanwhile: `_lock` is not held by a compiler."""
        with self._building:
            while self._build_next():
                pass

    def _build_next(self) -> bool:
        with self._lock:
            fresh, self._fresh = self._fresh, []
            if not fresh:
                self._queued = False
                return False
            room = config.limit - len(self.specializations)
            wanted = [*self.specializations, *_without_known(fresh, self.specializations)[:room]]
            if len(wanted) == len(self.specializations):
                self._again += 1
                if config.build == "sync" or self._again >= _TRIES:
                    self._over_budget(f"it already has {len(wanted)} specialization(s), none of which holds")
                # Else it may have been captured just before the module that has it was in place.
                self._forget_dynamo()
                return True
            self._again = 0
            self._wanted = wanted
        started = time.perf_counter()
        try:
            generated = generate(wanted, conditions.conditions(), worker.pause)
            log("codegen", "%s:\n%s", self.name, generated.source)
            module = loader.LoadedScm(generated)
        except Unsupported as refusal:
            self._put_back(wanted, refusal)
            return True
        except Exception as error:
            self.build_error = f"{type(error).__name__}: {error}"
            kind = "build" if isinstance(error, BuildError) else "internal"
            log("build", "%s: %s", self.name, self.build_error)
            self._wanted = self.specializations
            self.failed(Unsupported(kind, self.build_error.splitlines()[0]))
            return True
        with self._lock:
            self.specializations, self.guard_texts = wanted, generated.guard_texts
            self.source = generated.source
            _core.entry_scm_set(self.code, profiling.presented(self.code, module, self.name))
            self._failed = module.failed
            self._has_keys = any(_tuned(spec) for spec in wanted)
            self._inspector = MissInspector(wanted, generated.checks, generated.guard_texts)
            self._forget_after_build()
            self.builds += 1
            self.build_seconds += time.perf_counter() - started
            if self.served_after is None and self.first_call is not None:
                self.served_after = time.perf_counter() - self.first_call
            log("build", "%s: %d specialization(s) in %.3f s", self.name, len(wanted), time.perf_counter() - started)
            if len(wanted) >= config.limit or self.builds >= config.rebuilds:
                self._over_budget(f"it has {len(wanted)} specialization(s), the limit is {config.limit}")
        return True

    def _put_back(self, wanted: list, refusal: Unsupported) -> None:
        """After code could not be generated. Of several that came at once, those that are not to blame are kept."""
        new = wanted[len(self.specializations) :]
        good = [spec for spec in new if len(new) > 1 and _can_be_generated(spec)]
        with self._lock:
            self._wanted = self.specializations
            if len(good) < len(new):
                self._fresh = [*good, *self._fresh]
            to_blame = [spec.program for spec in new if spec not in good]
            self.failed(
                refusal,
                symbolic=all(program.symbols for program in to_blame),
                floats=all(program.has_floats for program in to_blame),
            )

    def _over_budget(self, why: str) -> None:
        self.full, self.why_full = True, why

    def _warn_once(self) -> None:
        """At the first call that the limit turns away."""
        if self._warned:
            return
        self._warned = True
        warnings.warn(
            f"trident_hook: {self.name} keeps what it has and sends its other calls to plain Python: {self.why_full}. "
            f"Last miss: {self._failure(*self.last_miss) if self.last_miss else 'none'}. See trident_hook.explain().",
            stacklevel=3,
        )  # fmt: skip

    # -- for people ------------------------------------------------------------------------------------------------
    def explain_miss(self) -> str:
        if self.last_miss is None:
            return "none"
        return "; ".join(str(FailedGuard(*seen)) for seen in self.last_seen) or self._failure(*self.last_miss)

    def _failure(self, spec: int, guard: int) -> str:
        if spec < len(self.last_seen):
            return str(FailedGuard(*self.last_seen[spec]))
        if spec < len(self.guard_texts) and 0 <= guard < len(self.guard_texts[spec]):
            return f"specialization {spec}: {self.guard_texts[spec][guard]}"
        return f"specialization {spec}, guard {guard}"

    def all_refusals(self) -> Counter:
        """With the one that is not decided yet."""
        pending = () if self._pending is None else ((self._pending.slug, self._pending.detail),)
        return self.refusals + Counter(pending)

    def counts(self) -> dict:
        """Outcomes of its calls; doors (frame_hits, call_hits) are told apart in `doors()`."""
        stats = _core.entry_stats(self.code)
        return {name: n for name, n in stats.items() if not name.endswith("_hits")}

    def doors(self) -> dict:
        stats = _core.entry_stats(self.code)
        return {"frame": stats["frame_hits"], "call": stats["call_hits"]}


def _after_fork_in_child() -> None:
    """Other threads of the parent are not here: none gives a lock back, is in Dynamo or builds what was asked for. What the
    parent has learned and not yet built is built after the next miss."""
    for record in list(_records.values()):
        record._lock, record._building = threading.RLock(), threading.RLock()
        record._queued, record._delegated = False, 0


os.register_at_fork(after_in_child=_after_fork_in_child)


def _can_be_generated(spec) -> bool:
    try:
        generate([spec], [])
        return True
    except Unsupported:
        return False


def _without_known(fresh: list, known: list) -> list:
    """Those that say something new. The same guards again would never be reached: the call missed for another reason."""
    seen = [_identity(s) for s in known]
    new = []
    for spec in fresh:
        if _identity(spec) not in seen:
            seen.append(_identity(spec))
            new.append(spec)
    return new


def _identity(spec) -> tuple:
    launches = tuple(
        (op.kernel.digest, op.kernel.shared, op.kernel.threads, op.grid, op.params, op.equal, op.unequal, op.keys)
        for op in spec.program.ops
        if hasattr(op, "kernel")
    )
    guards = [(g.kind, g.source.key, g.arg) for g in spec.guards]
    return (spec.state, guards, launches, [str(op) for op in spec.program.ops], spec.launch_device, spec.globals_)


def _tuned(spec) -> list:
    """Its launches whose config a tuner chose by ints of the call."""
    return [op for op in spec.program.ops if getattr(op, "known", None) is not None]


_recorder = None


def _callback():
    """Our recorder, made when it is first needed: it brings Dynamo in."""
    global _recorder

    if _recorder is None:
        from ..capture.recorder import Recorder

        _recorder = Recorder(_core.entry_record)
    return _recorder
