"""A summary over many functions: which are served, by how many native launches, and why the others are not."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

from . import api
from ._explain import called_in_python
from .ir.program import Launch


@dataclass(frozen=True)
class Row:
    """One function. `launches`: of kernels, natively, in a hit (the fewest of its specializations); `python`: functions of the
    program that a hit still calls; `why`: what it was refused for last, if anything."""

    name: str
    state: str  # "served", "in part", "left alone", "learning", "not called"
    hits: int
    others: int  # calls that were no hits
    specializations: int
    launches: int
    python: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Report:
    """What `report()` returns. Print it, or go through `rows`."""

    rows: tuple[Row, ...]

    def count(self, state: str) -> int:
        return sum(row.state == state for row in self.rows)

    def __str__(self) -> str:
        if not self.rows:
            return "no function is known: none that launches a Triton kernel was called since enable()"
        called = len(self.rows) - self.count("not called")
        lines = [
            f"{self.count('served')} of {called} functions that were called are served, {self.count('in part')} in part"
        ]
        width = min(60, max(len(row.name) for row in self.rows))
        for row in self.rows:
            line = f"  {row.state:10} {row.name:{width}} {row.hits:6} hits {row.others:6} others"
            if row.specializations:
                line += f"  {row.specializations} specialization(s), {row.launches} native launch(es)"
            if row.python:
                line += f", calls {', '.join(row.python)} in Python"
            lines.append(line.rstrip())
            if row.why and row.state != "served":
                lines.append(f"{'':13}{row.why}")
        return "\n".join(lines)


def report(pattern: str = "*") -> Report:
    """The functions whose 'module.qualname' matches the pattern ("mylib.ops.*"), those with the most calls first.

    "served": the last calls were hits that launch natively. "in part": a hit still calls Python of the program, which may
    launch, or calls beyond the limit run as plain Python. "learning": called, and neither served nor refused yet.
    Raises TypeError for a pattern that is no string."""
    if not isinstance(pattern, str):
        raise TypeError(
            f"trident_hook.report() was given {type(pattern).__name__}; give a pattern such as 'mylib.ops.*'"
        )
    records = [record for _, record in api._known() if fnmatch.fnmatchcase(record.name, pattern)]
    rows = sorted(map(_row, records), key=lambda row: (-(row.hits + row.others), row.name))
    return Report(tuple(rows))


def _row(record) -> Row:
    counts = record.counts()
    hits, others = counts["hits"], counts["misses"] + counts["bypasses"] + counts["errors"]
    specializations = record.specializations
    launches = [sum(isinstance(op, Launch) for op in spec.program.ops) for spec in specializations]
    python = sorted({name for spec in specializations for name in called_in_python(spec.recipe)})
    refusals = [f"{slug}: {detail}" if detail else slug for slug, detail in record.all_refusals()]
    return Row(
        name=record.name,
        state=_state(record, hits, others, bool(python)),
        hits=hits,
        others=others,
        specializations=len(specializations),
        launches=min(launches, default=0),
        python=tuple(python),
        why=record.refused or (refusals[-1] if refusals else ""),
    )


def _state(record, hits: int, others: int, calls_python: bool) -> str:
    if not hits + others:
        return "not called" if record.refused is None else "left alone"
    if record.refused is not None:
        return "left alone"
    if not hits:
        return "learning"
    return "in part" if calls_python or record.budget.full else "served"
