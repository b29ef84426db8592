"""What people read: the state of the hook, and all that is known of one function."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from . import _core, api
from ._config import config
from ._scm import store
from .functions import lessons
from .ir.recipe import Call, Global, walk


@dataclass(frozen=True)
class Status:
    hook: str  # off, on, aside (nothing left to discover), covered (another evaluator sits above)
    enabled: bool
    off_reason: str | None
    functions: int
    python: str
    torch: str
    triton: str
    abi: int
    cache_dir: str
    build: str
    refused_lessons: tuple[
        str, ...
    ] = ()  # what Dynamo did not learn, once something was captured: then nothing is served
    cache_problem: str | None = None  # why modules are not kept in that folder

    def __str__(self) -> str:
        head = f"trident_hook is {'enabled' if self.enabled else 'not enabled'}; hook {self.hook}"
        if self.off_reason:
            head += f"; off because {self.off_reason}"
        if self.refused_lessons:
            head += f"; nothing is served, since Dynamo did not learn: {', '.join(self.refused_lessons)}"
        unused = f"\n  the cache is not used: {self.cache_problem}" if self.cache_problem else ""
        return (
            f"{head}\n  {self.functions} function(s) known, builds: {self.build}, cache: {self.cache_dir}{unused}\n"
            f"  CPython {self.python}, PyTorch {self.torch}, Triton {self.triton}, ABI {self.abi}"
        )


def status() -> Status:
    """The state of the hook in this process, and the versions it runs with."""
    import torch

    triton = sys.modules.get("triton")
    return Status(
        hook=_core.hook_state(),
        enabled=api._selection is not None,
        off_reason=api.off_reason(),
        functions=_core.live_counts()["entries"],
        python=sys.version.split()[0],
        torch=torch.__version__,
        triton=getattr(triton, "__version__", "not imported"),
        abi=_core.abi_version,
        cache_dir="none" if config.cache_dir is None else str(config.cache_dir),
        build=config.build,
        refused_lessons=lessons.refused(),
        cache_problem=store.problem(),
    )


@dataclass(frozen=True)
class Explanation:
    """Everything known of one function. `counts`: hits, misses, errors, bypasses, delegated, python."""

    name: str
    known: bool
    specializations: tuple
    counts: dict
    doors: dict  # hits by door: frame, call
    refusals: dict  # "slug: detail" -> how often
    refused: str | None
    full: bool
    last_miss: str
    guards: tuple  # per specialization the texts of its checks, in the order they are made
    source: str  # the generated Cython module
    builds: int
    build_seconds: float
    served_after: float | None
    fixed_floats: str | None = None  # why floats that change are constants, each of its own specialization

    def __str__(self) -> str:
        if not self.known:
            return f"{self.name} is not served: no call of it was seen since enable(), and it is not under jit()"
        c = self.counts
        lines = [
            self.name,
            f"  {c['hits']} hits, {c['misses']} misses, {c['errors']} errors, {c['bypasses']} bypasses, "
            f"{c['delegated']} to Dynamo, {c['python']} to plain Python",
            f"  hits through the frame door: {self.doors['frame']}, through the call door: {self.doors['call']}",
        ]
        if self.refused:
            lines.append(f"  left alone: {self.refused}")
        if self.fixed_floats:
            lines.append(f"  each value of a float needs a specialization of its own: {self.fixed_floats}")
        if self.full:
            lines.append("  at its limit: calls that no specialization serves run as plain Python")
        lines += [f"  refused {n} time(s): {reason}" for reason, n in self.refusals.items()]
        lines.append(f"  last miss: {self.last_miss}")
        lines.append(f"  {self.builds} build(s), {self.build_seconds:.2f} s")
        for number, (spec, guards) in enumerate(zip(self.specializations, self.guards, strict=False)):
            lines.append(f"  specialization {number}")
            lines += [f"    guard {i}: {text}" for i, text in enumerate(guards)]
            lines += [f"    {line}" for line in str(spec.program).splitlines()]
            lines += [f"    {line}" for line in str(spec.recipe).splitlines()]
            lines += [f"    a hit calls {name}() in Python" for name in called_in_python(spec.recipe)]
        if self.source:
            lines.append("  generated source: explain(fn).source")
        return "\n".join(lines)


def called_in_python(recipe) -> list[str]:
    """Names of functions and classes of the program behind the graph: where Dynamo broke it at the last call, say."""
    calls = (expr for expr in walk(*recipe.effects, recipe.result) if isinstance(expr, Call))
    return sorted({call.func.name for call in calls if isinstance(call.func, Global)})


_NOTHING = {"hits": 0, "misses": 0, "errors": 0, "bypasses": 0, "delegated": 0, "python": 0}


def explain(fn) -> Explanation:
    """All that is known of a function (or of what `jit` made of it). Print it."""
    record = api.find_record(fn)
    name = getattr(fn, "__qualname__", repr(fn))
    if record is None:
        return Explanation(
            name, False, (), dict(_NOTHING), {"frame": 0, "call": 0}, {}, None, False, "none", (), "", 0, 0.0, None
        )
    return Explanation(
        name=record.name,
        known=True,
        specializations=tuple(record.specializations),
        counts=record.counts(),
        doors=record.doors(),
        refusals={f"{slug}: {detail}" if detail else slug: n for (slug, detail), n in record.all_refusals().items()},
        refused=record.refused,
        full=record.budget.full,
        last_miss=record.last_miss.explain(),
        guards=tuple(tuple(t) for t in record.last_miss.guard_texts),
        source=record.builds.source,
        builds=record.builds.done,
        build_seconds=record.builds.seconds,
        served_after=record.builds.served_after,
        fixed_floats=None if record.learning.fixed_floats is None else str(record.learning.fixed_floats),
    )


def counts(fn) -> dict:
    """How the calls of a function went: hits, misses, errors, bypasses, delegated (to Dynamo), python."""
    record = api.find_record(fn)
    return dict(_NOTHING) if record is None else record.counts()
