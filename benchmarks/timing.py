"""The measuring loop: one call at a time, device idle before it, garbage collector off, rivals interleaved.

host  until the Python call returns
e2e   until the device has finished
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from benchmarks.device import synchronize
from benchmarks.rivals import Rival

WARM_UP = 20


def time_calls(fn: Callable, args: tuple, n: int, sync: Callable[[], None]) -> list[tuple[int, int]]:
    """(host, e2e) nanoseconds of n calls. One loop per arity: `fn(*args)` is another, slower way to call."""
    return {1: _time1, 2: _time2, 3: _time3}[len(args)](fn, *args, n, sync)


def _time1(fn, a, n, sync):
    out = []
    for _ in range(n):
        sync()
        start = perf_counter_ns()
        result = fn(a)
        returned = perf_counter_ns()
        sync()
        done = perf_counter_ns()
        del result  # freed outside the timed part
        out.append((returned - start, done - start))
    return out


def _time2(fn, a, b, n, sync):
    out = []
    for _ in range(n):
        sync()
        start = perf_counter_ns()
        result = fn(a, b)
        returned = perf_counter_ns()
        sync()
        done = perf_counter_ns()
        del result
        out.append((returned - start, done - start))
    return out


def _time3(fn, a, b, c, n, sync):
    out = []
    for _ in range(n):
        sync()
        start = perf_counter_ns()
        result = fn(a, b, c)
        returned = perf_counter_ns()
        sync()
        done = perf_counter_ns()
        del result
        out.append((returned - start, done - start))
    return out


def warm(rival: Rival, args: tuple) -> None:
    """Everything that happens once: compiles, background builds, promotion. Call inside the rival's scope."""
    for _ in range(3):
        rival.call(*args)
    if rival.route is not None:
        import trident_hook

        trident_hook.settle()
    for _ in range(WARM_UP):
        rival.call(*args)


def measure(rivals: list[Rival], args: tuple, rounds: int, per_round: int) -> dict[str, dict[str, Any]]:
    """Rival name -> statistics over rounds * per_round calls, rounds interleaved over the rivals."""
    samples: dict[str, list[tuple[int, int]]] = {rival.name: [] for rival in rivals}
    routes: dict[str, str] = {}
    collecting = gc.isenabled()
    for _ in range(rounds):
        for rival in rivals:
            with rival.scope():
                warm(rival, args)
                gc.collect()
                gc.disable()
                try:
                    rival.begin_route()
                    samples[rival.name] += time_calls(rival.call, args, per_round, synchronize)
                    routes[rival.name] = rival.assert_route(per_round)
                finally:
                    if collecting:
                        gc.enable()
    return {name: {"route": routes[name], "calls": len(pairs), **summary(pairs)} for name, pairs in samples.items()}


def summary(pairs: list[tuple[int, int]]) -> dict[str, Any]:
    host, e2e = sorted(h for h, _ in pairs), sorted(e for _, e in pairs)
    return {"host_us": spread(host), "e2e_us": spread(e2e)}


def spread(ordered_ns: list[int]) -> dict[str, float]:
    def at(share: float) -> float:
        return round(ordered_ns[min(len(ordered_ns) - 1, int(share * len(ordered_ns)))] / 1e3, 3)

    return {"median": round(statistics.median(ordered_ns) / 1e3, 3), "p10": at(0.10), "p90": at(0.90)}
