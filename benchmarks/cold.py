"""From the first call of a new function until it is served, against torch.compile's first call, in one warm process.

Every repetition uses a fresh copy of the function. Triton's own compile of the kernel is done beforehand for all. So is
what a process does once for all its functions: our precompiled header, Inductor's workers.

    python -m benchmarks.cold --out benchmarks/results/cold.json
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns, sleep

import torch

from benchmarks import rivals
from benchmarks.device import conditions, simulated, synchronize, use_device, without_interpretation
from trident_hook._scm import prelude

PATIENCE_S = 120


@contextmanager
def fresh_cache():
    """An empty disk cache of ours, so that every repetition really compiles."""
    import trident_hook

    before = trident_hook.config.cache_dir
    with tempfile.TemporaryDirectory() as folder:
        trident_hook.config.cache_dir = folder
        try:
            yield
        finally:
            trident_hook.settle()
            trident_hook.config.cache_dir = before


def until_served(work: rivals.Workload, build: str) -> float:
    """Milliseconds from the first call to the return of the first call that the SCM served."""
    import trident_hook

    trident_hook.config.build = build
    fn = trident_hook.jit(rivals.copy_of(work.fn))
    with fresh_cache():
        start = perf_counter_ns()
        fn(*work.args)
        while True:
            fn(*work.args)
            if trident_hook.counts(fn)["hits"]:
                break
            if (perf_counter_ns() - start) / 1e9 > PATIENCE_S:
                raise AssertionError(f"{work.name} was not served within {PATIENCE_S} s:\n{trident_hook.explain(fn)}")
            sleep(0.0005)  # let the builder have the processor
        synchronize()
        return (perf_counter_ns() - start) / 1e6


def first_compiled_call(work: rivals.Workload, caches: bool) -> float:
    import torch._inductor.config as inductor_config

    compiled = torch.compile(rivals.copy_of(work.fn), **({"backend": "eager"} if simulated() else {}))
    with inductor_config.patch(force_disable_caches=not caches):
        start = perf_counter_ns()
        compiled(*work.args)
        synchronize()
        return (perf_counter_ns() - start) / 1e6


def contestants() -> dict[str, Callable[[rivals.Workload], float]]:
    name = "torch.compile(backend='eager')" if simulated() else "torch.compile"
    return {
        "trident_hook, build in the foreground": lambda work: until_served(work, "sync"),
        "trident_hook, build in the background": lambda work: until_served(work, "background"),
        f"{name}, its caches off": lambda work: first_compiled_call(work, caches=False),
        f"{name}, its caches on": lambda work: first_compiled_call(work, caches=True),
    }


def run(repetitions: int) -> dict:
    use_device()
    rows: dict[str, list[float]] = {}
    with without_interpretation():
        for work in rivals.workloads():
            rivals.copy_of(work.fn)(*work.args)
            for make in contestants().values():  # once each: imports and the first compile of the process
                make(work)
            prelude.options()
            prelude.wait()
            for _ in range(repetitions):
                for name, make in contestants().items():
                    rows.setdefault(f"{work.name}: {name}", []).append(make(work))
    found = conditions()
    found["samples"] = f"median of {repetitions} interleaved repetitions"
    return {
        "kind": "cold",
        "conditions": found,
        "rows": {
            name: {"median_ms": round(statistics.median(ms), 1), "all_ms": [round(m, 1) for m in ms]}
            for name, ms in rows.items()
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest/cold.json"))
    parser.add_argument("--repetitions", type=int, default=7)
    options = parser.parse_args()
    from benchmarks.report import publish

    publish(run(options.repetitions), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
