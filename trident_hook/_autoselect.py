"""Leaves alone what is slower when served. Measured on the program's own requests, device included.

Whether serving a function pays cannot be told from the function: the request decides. So requests are repeated with every
served function on in half of them and off in the other half, in an order that balances all others (the rows of a
Hadamard matrix): each function's effect is measured by all requests, not by a share of them."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from . import _core, api
from ._logs import log
from ._scm.worker import wait

_LEAST = 8  # rows, so that every mean is one of four or more


@dataclass(frozen=True)
class Selected:
    """What `autoselect` decided. Both: name -> time of a request with the function served, over that without."""

    kept: dict[str, float]
    left_alone: dict[str, float]
    requests: int  # that were run in all

    def __str__(self) -> str:
        lines = [
            f"{len(self.kept)} function(s) stay served, {len(self.left_alone)} left alone, {self.requests} requests"
        ]
        lines += [f"  {name}: {ratio:.3f}, stays" for name, ratio in sorted(self.kept.items(), key=lambda i: i[1])]
        lines += [f"  {name}: {ratio:.3f}, left alone" for name, ratio in self.left_alone.items()]
        return "\n".join(lines)


def autoselect(
    request: Callable[[], object],
    functions: list | None = None,
    *,
    warm_up: int = 2,
    rounds: int = 2,
    tolerance: float = 0.01,
    clock: Callable[[], float] = time.perf_counter,
) -> Selected:
    """Runs `request()` with served functions on and off, and leaves alone those that make it slower; `explain(fn).refused`
    then says so. To be called under `enable()`, or with functions under `jit`, before the program's real requests.

    request: a representative piece of work that may be repeated: it is run `warm_up` times with all on, then `rounds`
        times for each row of the plan (8 rows for up to 7 functions, 16 for up to 15, ...). Its result is dropped.
    functions: those to decide about; None for all that had a hit in the last request of the warm-up.
    tolerance: a function goes when it makes the request slower by more than this share.
    clock: seconds; read after the CUDA devices in use are idle.
    An exception of `request` is raised, with every function served as before."""
    before: dict[int, int] = {}
    for _ in range(warm_up):
        before = _hits()
        request()
        wait()
    records = _candidates(functions, before)
    plan = _plan(len(records))
    times: dict[int, float] = {}
    try:
        for number in range(rounds):
            order = list(range(len(plan)))
            random.Random(number).shuffle(order)  # what drifts with time, drifts across all columns
            for row in order:
                for record, on in zip(records, plan[row], strict=True):
                    _core.entry_state_set(record.code, _core.SERVE if on else _core.OFF)
                seconds = _timed(request, clock)
                times[row] = min(seconds, times.get(row, seconds))
    finally:
        for record in records:
            _core.entry_state_set(record.code, _core.SERVE)
    kept: dict = {}
    left_alone: dict = {}
    for column, record in enumerate(records):
        ratio = _ratio(plan, times, column)
        slower = ratio > 1 + tolerance
        (left_alone if slower else kept)[record.name] = ratio
        if slower:
            record.refusals.refuse(f"autoselect: a request takes {ratio:.3f} times as long with it served")
        log("hook", "autoselect: %s: %.3f%s", record.name, ratio, ", left alone" if slower else "")
    return Selected(kept, left_alone, warm_up + rounds * len(plan) if records else warm_up)


def _hits() -> dict[int, int]:
    return {id(record): record.counts()["hits"] for _, record in api._known()}


def _candidates(functions: list | None, before: dict[int, int]) -> list:
    if functions is not None:
        found = [record for record in map(api.find_record, functions) if record is not None]
    else:
        found = [record for _, record in api._known() if record.counts()["hits"] > before.get(id(record), 0)]
    return [record for record in found if record.specializations and record.refused is None]


def _plan(columns: int) -> list[tuple[bool, ...]]:
    """Rows of a Sylvester-Hadamard matrix without its first column: each pair of columns agrees in half of the rows."""
    if columns == 0:
        return []
    rows = _LEAST
    while rows <= columns:
        rows *= 2
    return [tuple((row & column).bit_count() % 2 == 0 for column in range(1, columns + 1)) for row in range(rows)]


def _ratio(plan: list, times: dict, column: int) -> float:
    with_it = statistics.fmean(times[row] for row in times if plan[row][column])
    without = statistics.fmean(times[row] for row in times if not plan[row][column])
    return with_it / without


def _timed(request: Callable[[], object], clock: Callable[[], float]) -> float:
    _wait_for_devices()
    start = clock()
    request()
    _wait_for_devices()
    return clock() - start


def _wait_for_devices() -> None:
    import torch

    if torch.cuda.is_initialized():
        for index in range(torch.cuda.device_count()):
            torch.cuda.synchronize(index)
