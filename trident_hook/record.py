"""What is known of one function: its specializations, its module, its refusals. The doors ask it on a miss."""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections import Counter
from dataclasses import dataclass, field

from . import _core, ambient, profiling
from .build import loader, worker
from .codegen.module import generate
from .config import config
from .errors import BuildError, Unsupported
from .logs import log

#: Refusals that say something about one call, not about the function: they end it only when they keep coming.
_ABOUT_THE_CALL = ("no-graph", "state", "dynamo-error")
_TRIES = 3


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
    reads_contexts: bool = False  # a capture saw what a torch.autograd.Function saved
    jitted: bool = False  # under jit(): its call door stays when enable() ends
    last_miss: tuple[int, int] | None = None  # the specialization that was asked last, and which of its guards failed
    last_failed: tuple[int, ...] = ()  # the same of every specialization
    builds: int = 0
    build_seconds: float = 0.0
    build_error: str | None = None
    first_call: float | None = None
    served_after: float | None = None  # seconds from the first miss to the first module in place
    _captures: int = 0
    _again: int = 0  # builds in a row that had nothing new
    _failed: object = ()  # where the module notes them
    _fresh: list = field(default_factory=list)
    _doubtful: list = field(default_factory=list)  # refusals of the call under way
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _building: threading.RLock = field(default_factory=threading.RLock)  # taken before _lock, never after it
    _queued: bool = False
    _delegated: int = 0  # calls that Dynamo has now
    _forget: bool = False  # Dynamo's entries are to be dropped once it has none

    @property
    def code(self):
        return self.code_reference()

    # -- what the doors call (see ext/door) ------------------------------------------------------------------------
    def before_miss(self, door: str, spec: int, guard: int):
        """The Dynamo callback for a call that no specialization serves, or None for the plain function."""
        asked = self.builds
        if spec >= 0:
            self.last_miss, self.last_failed = (spec, guard), tuple(self._failed)
            if "guards" in config.logs:
                log("guards", "%s missed: %s", self.name, self.explain_miss())
        if self.first_call is None:
            self.first_call = time.perf_counter()
        if self.full:
            self._warn_once()
            return None
        if config.disabled or not ambient.allows_learning():
            return None
        if self.reads_contexts and (self._queued or self._fresh):
            return None
        with self._lock:
            if self.builds != asked:  # a build ended meanwhile: what would be captured may be served already
                return None
            self._delegated += 1
        return _callback()

    def after_miss(self, raised: bool = False) -> None:
        """The missed call is over: what it taught is built, now or in the background. Calls that raised say nothing about
        what can be captured."""
        with self._lock:
            self._delegated -= 1
            doubtful, self._doubtful = self._doubtful, []
            for refusal in () if raised else doubtful:
                self._count(refusal)
            self._forget_when_idle()
            if not self._fresh:
                return
            at_once = config.build == "sync"
            if not at_once and not self._queued:
                self._queued = True
                worker.submit(self._build)
        if at_once:
            self._build()

    # -- what capture calls ----------------------------------------------------------------------------------------
    def next_index(self) -> int:
        self._captures += 1
        return self._captures - 1

    def learned(self, spec) -> None:
        with self._lock:
            self._fresh.append(spec)
        log("capture", "%s", spec)

    def failed(self, refusal: Unsupported) -> None:
        """A capture that led to nothing. A function that has nothing else is left alone from then on."""
        with self._lock:
            log("capture", "%s refused: %s", self.name, refusal)
            if self._delegated:
                self._doubtful.append(refusal)
            else:
                self._count(refusal)

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

    def _forget_when_idle(self) -> None:
        if self._forget and self._delegated == 0:
            from torch._dynamo.eval_frame import reset_code

            self._forget = False
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
        started = time.perf_counter()
        try:
            generated = generate(wanted, ambient.conditions())
            log("codegen", "%s:\n%s", self.name, generated.source)
            module = loader.LoadedScm(generated)
        except Unsupported as refusal:
            self.failed(refusal)
            return True
        except Exception as error:
            self.build_error = f"{type(error).__name__}: {error}"
            kind = "build" if isinstance(error, BuildError) else "internal"
            log("build", "%s: %s", self.name, self.build_error)
            self.failed(Unsupported(kind, self.build_error.splitlines()[0]))
            return True
        with self._lock:
            self.specializations, self.guard_texts = wanted, generated.guard_texts
            self.source = generated.source
            _core.entry_scm_set(self.code, profiling.presented(self.code, module, self.name))
            self._failed = module.failed
            self._forget_dynamo()
            self.builds += 1
            self.build_seconds += time.perf_counter() - started
            if self.served_after is None and self.first_call is not None:
                self.served_after = time.perf_counter() - self.first_call
            log("build", "%s: %d specialization(s) in %.3f s", self.name, len(wanted), time.perf_counter() - started)
            if len(wanted) >= config.limit or self.builds >= config.rebuilds:
                self._over_budget(f"it has {len(wanted)} specialization(s), the limit is {config.limit}")
        return True

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
        if len(self.last_failed) > 1:
            return "; ".join(self._failure(*pair) for pair in enumerate(self.last_failed))
        return self._failure(*self.last_miss)

    def _failure(self, spec: int, guard: int) -> str:
        if spec < len(self.guard_texts) and 0 <= guard < len(self.guard_texts[spec]):
            return f"specialization {spec}: {self.guard_texts[spec][guard]}"
        return f"specialization {spec}, guard {guard}"

    def counts(self) -> dict:
        """Outcomes of its calls; doors (frame_hits, call_hits) are told apart in `doors()`."""
        stats = _core.entry_stats(self.code)
        return {name: n for name, n in stats.items() if not name.endswith("_hits")}

    def doors(self) -> dict:
        stats = _core.entry_stats(self.code)
        return {"frame": stats["frame_hits"], "call": stats["call_hits"]}


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
        (op.kernel.digest, op.params, op.equal, op.unequal) for op in spec.program.ops if hasattr(op, "kernel")
    )
    guards = [(g.kind, g.source.key, g.arg) for g in spec.guards]
    return (spec.state, guards, launches, spec.launch_device, spec.globals_)


_recorder = None


def _callback():
    """Our recorder, made when it is first needed: it brings Dynamo in."""
    global _recorder

    if _recorder is None:
        from .capture.recorder import Recorder

        _recorder = Recorder(_core.entry_record)
    return _recorder
