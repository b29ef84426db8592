"""What our presence costs Python code that has nothing to do with us.

Each variant runs in processes of its own, interleaved:
  without us       trident_hook is not imported
  served           enable() with three functions served; they are promoted (3.12+), the hook has stepped aside
  hook installed   the same with promotion off, so the eval-frame hook stays

    python -m benchmarks.interference --out benchmarks/results/interference.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from time import perf_counter_ns

VARIANTS = ["without us", "served", "hook installed"]
DEPTH = 900  # at the default recursion limit of 1000
REPEATS = 15


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


class Point:
    def __init__(self, x: float, y: float) -> None:
        self.x = x
        self.y = y

    @property
    def norm(self) -> float:
        return self.x * self.x + self.y * self.y

    def __add__(self, other: Point) -> Point:
        return Point(self.x + other.x, self.y + other.y)

    def scaled(self, by: float) -> Point:
        return Point(self.x * by, self.y * by)


def class_heavy(n: int) -> float:
    total = Point(0.0, 0.0)
    seen = 0.0
    for i in range(n):
        total = total + Point(i, -i).scaled(0.5)
        seen += total.norm
    return seen


def down(n: int) -> int:
    return 0 if n == 0 else 1 + down(n - 1)


PROGRAMS = {"fib(24)": lambda: fib(24), "class-heavy loop": lambda: class_heavy(20_000)}


def best_ms(program) -> float:
    program()
    times = []
    for _ in range(REPEATS):
        start = perf_counter_ns()
        program()
        times.append(perf_counter_ns() - start)
    return min(times) / 1e6


def recursion_works() -> bool:
    try:
        return down(DEPTH) == DEPTH
    except RecursionError:
        return False


def child(variant: str) -> dict:
    """Runs in a process of its own."""
    if variant == "without us":
        import torch
        import triton  # noqa: F401 - what the program would have without us

        if torch.cuda.is_available():
            torch.ones(8, device="cuda").sum().item()
        return _measure(variant, None)
    from contextlib import ExitStack

    import trident_hook
    from benchmarks import rivals
    from benchmarks.device import use_device, without_interpretation
    from trident_hook.testing import workloads

    device = use_device()
    import torch

    trident_hook.config.build = "sync"
    x, weight = torch.randn(64, 128, device=device), torch.randn(128, device=device)
    served = {
        workloads.rms_norm: (x, weight, 1e-5),
        workloads.silu: (x,),
        workloads.masked_fill: (x, weight > 0, 1.5),
    }
    with ExitStack() as stack:
        stack.enter_context(rivals.promotion(variant == "served"))
        stack.enter_context(trident_hook.enable(include=list(served)))
        stack.enter_context(without_interpretation())
        for fn, args in served.items():
            for _ in range(3):
                fn(*args)
        trident_hook.settle()
        before = {fn: trident_hook.counts(fn)["hits"] for fn in served}
        for fn, args in served.items():
            for _ in range(100):
                fn(*args)
        hits = {fn.__name__: trident_hook.counts(fn)["hits"] - before[fn] for fn in served}
        if set(hits.values()) != {100}:
            raise AssertionError(f"{variant}: three functions should be served, hits of 100 calls each: {hits}")
        return _measure(variant, hits)


def _measure(variant: str, hits: dict | None) -> dict:
    programs = {name: best_ms(program) for name, program in PROGRAMS.items()}
    return {"variant": variant, "hits": hits, "recursion": recursion_works(), "programs": programs}


def run(processes: int) -> dict:
    runs: dict[str, list[dict]] = {variant: [] for variant in VARIANTS}
    for _ in range(processes):
        for variant in VARIANTS:
            line = [sys.executable, "-m", "benchmarks.interference", "--child", variant]
            done = subprocess.run(line, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"the process for '{variant}' failed:\n{done.stderr}")
            runs[variant].append(json.loads(done.stdout.splitlines()[-1]))
    from benchmarks.device import conditions

    programs = {}
    for name in PROGRAMS:
        medians = {v: statistics.median(r["programs"][name] for r in runs[v]) for v in VARIANTS}
        programs[name] = {
            v: {
                "median_ms": round(medians[v], 4),
                "ratio": round(medians[v] / medians["without us"], 4),
                "all_ms": [round(r["programs"][name], 4) for r in runs[v]],
            }
            for v in VARIANTS
        }
    found = conditions()
    found["samples"] = f"best of {REPEATS} in each process, median of {processes} interleaved processes a variant"
    return {
        "kind": "interference",
        "conditions": found,
        "variants": VARIANTS,
        "programs": programs,
        "depth": DEPTH,
        "recursion": {v: all(r["recursion"] for r in runs[v]) for v in VARIANTS},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest/interference.json"))
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--child", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child)))
        return 0
    from benchmarks.report import publish

    publish(run(options.processes), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
