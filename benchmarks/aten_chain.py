"""Chains of eight ATen operators on small tensors: ours against the same chain written by hand in C++ with `at::` calls,
and a boxed call against an unboxed one. Host time only; the work itself is next to nothing.

python -m benchmarks.aten_chain --out benchmarks/results/aten_chain.json
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns, thread_time_ns

import torch

from benchmarks.device import conditions, synchronize
from benchmarks.floor import build
from benchmarks.report import publish
from benchmarks.rivals import copy_of

WARM_UP = 10  # calls before each round of one rival
BAR = 1.15  # of the hand-written chain


def elementwise(x, y):
    r = torch.add(x, y)
    r = torch.mul(r, y)
    r = torch.sub(r, x)
    r = torch.relu(r)
    r = torch.add(r, x)
    r = torch.mul(r, 2.0)
    r = torch.neg(r)
    return torch.sigmoid(r)


def view(x, y):
    r = x.view(2, 4, 8)
    r = r.transpose(0, 1)
    r = r.permute(2, 0, 1)
    r = r.unsqueeze(0)
    r = r.expand(3, 8, 4, 2)
    r = r.select(0, 1)
    r = r[1:5]
    return r.squeeze(0)


def allocate(x, y):
    a = torch.empty_like(x)
    b = torch.empty((4, 8), device=x.device)
    c = x.new_empty((8,))
    d = torch.empty_strided((4, 8), (8, 1), device=x.device)
    return (
        a,
        b,
        c,
        d,
        torch.empty_like(b),
        torch.empty_like(c),
        torch.empty((2, 2), device=x.device),
        torch.empty_like(d),
    )


def mixed(x, y):
    r = torch.empty_like(x)
    r.copy_(y)
    v = r.view(4, 16)
    v = v.transpose(0, 1)
    w = torch.mul(v, 2.0)
    w = torch.relu(w)
    w = w.unsqueeze(0)
    return torch.add(w, 1)


CHAINS = (elementwise, view, allocate, mixed)


def run(rounds: int, calls: int) -> dict:
    import trident_hook

    trident_hook.config.build = "sync"
    floor = build.load("chains")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, y = torch.randn(8, 8, device=device), torch.randn(8, 8, device=device)
    result = {"kind": "aten_chain", "conditions": conditions(), "bar": BAR, "chains": {}}
    result["conditions"]["samples"] = f"{rounds} interleaved rounds of {calls} calls per row, (8, 8) fp32 on {device}"
    for chain in CHAINS:
        eager, hand_written = copy_of(chain), getattr(floor, chain.__name__)
        ours = trident_hook.jit(copy_of(chain))
        for _ in range(3):
            _check_same(ours(x, y), hand_written(x, y), chain is allocate)
        before = trident_hook.counts(ours)
        rows = _measure({"at::": hand_written, "ours": ours, "eager": eager}, x, y, rounds, calls)
        added = {name: n - before[name] for name, n in trident_hook.counts(ours).items()}
        if added["hits"] != rounds * (calls + WARM_UP) or any(n for name, n in added.items() if name != "hits"):
            raise AssertionError(
                f"{chain.__name__}: {rounds * (calls + WARM_UP)} calls should be as many hits: {added}"
            )
        result["chains"][chain.__name__] = rows
    rows = _measure({"unboxed": floor.add_unboxed, "boxed": floor.add_boxed}, x, y, rounds, calls)
    each = [(rows["boxed"]["cpu_us"] - rows["unboxed"]["cpu_us"]) / 8 * 1e3, rows["unboxed"]["cpu_us"] / 8 * 1e3]
    result["boxed"] = {"overhead_ns": round(each[0], 1), "unboxed_add_ns": round(each[1], 1)}
    return result


def _check_same(got, expected, only_facts: bool) -> None:
    pairs = list(zip(got, expected, strict=True)) if isinstance(got, tuple) else [(got, expected)]
    for a, b in pairs:
        if (a.shape, a.stride(), a.dtype, a.device) != (b.shape, b.stride(), b.dtype, b.device):
            raise AssertionError(f"{a.shape} by {a.stride()} for {b.shape} by {b.stride()}")
        if not only_facts and not torch.equal(a, b):
            raise AssertionError("another result than the hand-written chain")


def _measure(rivals: dict[str, Callable], x, y, rounds: int, calls: int) -> dict:
    """Microseconds per call, median over rounds: wall clock until the call returns, and this thread's CPU time, which other
    programs on the machine disturb less. Ratios to the first rival are medians over the ratios of single rounds."""
    wall: dict = {name: [] for name in rivals}
    cpu: dict = {name: [] for name in rivals}
    gc.collect()
    gc.disable()
    try:
        names = list(rivals)
        for number in range(rounds):
            for name in (
                names[number % len(names) :] + names[: number % len(names)]
            ):  # whoever is first finds cold caches
                call = rivals[name]
                _time(call, x, y, WARM_UP)
                synchronize_device(x)
                taken = _time(call, x, y, calls)
                wall[name].append(taken[0] / calls / 1e3)
                cpu[name].append(taken[1] / calls / 1e3)
    finally:
        gc.enable()
    first = next(iter(rivals))
    return {
        name: {
            "wall_us": round(statistics.median(wall[name]), 3),
            "cpu_us": round(statistics.median(cpu[name]), 3),
            "wall_ratio": round(_paired(wall[name], wall[first]), 3),
            "cpu_ratio": round(_paired(cpu[name], cpu[first]), 3),
            "least_cpu_us": round(min(cpu[name]), 3),
        }
        for name in rivals
    }


def _paired(ours: list[float], floor: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, floor, strict=True))


def _time(call, x, y, n: int) -> tuple[int, int]:
    wall, cpu = perf_counter_ns(), thread_time_ns()
    for _ in range(n):
        call(x, y)
    return perf_counter_ns() - wall, thread_time_ns() - cpu


def synchronize_device(x) -> None:
    if x.is_cuda:
        synchronize()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest/aten_chain.json"))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--calls", type=int, default=100, help="in a row; the device is idle before the first")
    options = parser.parse_args()
    publish(run(options.rounds, options.calls), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
