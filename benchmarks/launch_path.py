"""What a launch costs on the host, beside a bare launch in C++; and an autotuned matmul wrapper beside eager.

python -m benchmarks.launch_path --out benchmarks/results/launch_path.json

launch     one launch in a C++ loop: checks, current stream, parameters, cuLaunchKernel; bare, and through the services
           that generated modules call (their difference is the bar)
per launch what each further launch adds to a call of a served function, and to a plain one: (17 launches - 1) / 16
matmul     an autotuned wrapper: its key, the tuner's choice, the grid and one launch
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

import torch
import triton
import triton.language as tl

from benchmarks.device import conditions, simulated, synchronize, use_device, without_interpretation
from benchmarks.report import publish
from benchmarks.rivals import Workload, eager, jit_door
from benchmarks.timing import measure, spread

BURST = 64  # launches that are never waited for: far fewer than a stream takes
BLOCK = 256
BAR_US, BAR_MATMUL = 0.3, 4.0


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def once(x, y):
    copy_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK)
    return y


def often(x, y):
    for _ in range(17):
        copy_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK)
    return y


def launch_loops(x, y, rounds: int) -> dict:
    """Nanoseconds per launch of bursts, interleaved: bare, through our services."""
    from benchmarks.floor.build import load
    from trident_hook.runtime import cubins

    grid = triton.cdiv(x.numel(), BLOCK)
    compiled = copy_kernel[(grid,)](x, y, x.numel(), BLOCK=BLOCK)
    metadata = compiled.metadata
    threads = 32 * metadata.num_warps
    device = 0 if simulated() else torch.cuda.current_device()
    if device != 0:
        raise RuntimeError("this benchmark launches on device 0")
    function = cubins.load(compiled.asm["cubin"], metadata.name, metadata.shared, threads, device)
    module = load("launch_loop")
    module.configure(function, metadata.name, threads, metadata.shared)
    samples: dict[bool, list[int]] = {False: [], True: []}
    for index in range(rounds + 5):
        for ours in (False, True) if index % 2 else (True, False):
            synchronize()
            taken = module.run(ours, x, y, x.numel(), grid, BURST)
            if index >= 5:
                samples[ours].append(taken // BURST)
    rows = {name: spread(sorted(samples[ours])) for name, ours in (("bare C++", False), ("our services", True))}
    pairs = [b - a for a, b in zip(samples[False], samples[True], strict=True)]
    return {"rows": rows, "added_us": round(statistics.median(pairs) / 1e3, 3), "bar_us": BAR_US}


def per_launch(x, y, rounds: int, per_round: int) -> dict:
    """What each further launch adds to a call."""
    contestants = {}
    for name, make in (("eager", eager), ("trident_hook, @jit", jit_door)):
        for count, fn in ((1, once), (17, often)):
            rival = make(Workload(fn.__name__, fn, (x, y), ""))
            rival.name = f"{name}, {count} launch{'es' if count > 1 else ''}"
            contestants[name, count] = rival
    calls = measure(list(contestants.values()), (x, y), rounds, per_round)

    def median(name: str, count: int) -> float:
        return calls[contestants[name, count].name]["host_us"]["median"]

    each = {name: round((median(name, 17) - median(name, 1)) / 16, 3) for name in ("eager", "trident_hook, @jit")}
    return {"calls": calls, "per_launch_us": each}


def matmul(device: str, rounds: int, per_round: int) -> dict:
    from trident_hook.testing import workloads

    a, b = torch.randn(128, 128, device=device).half(), torch.randn(128, 128, device=device).half()
    work = Workload("matmul", workloads.matmul, (a, b), "a, b (128, 128), fp16; 2 configs, key M, N, K")
    rows = measure([eager(work), jit_door(work)], work.args, rounds, per_round)
    ratio = rows["eager"]["host_us"]["median"] / rows["trident_hook, @jit"]["host_us"]["median"]
    return {"shape": work.shape, "rows": rows, "ratio": round(ratio, 2), "bar": BAR_MATMUL}


def run(rounds: int, per_round: int) -> dict:
    device = use_device()
    import trident_hook

    trident_hook.config.build = "sync"
    x, y = torch.randn(1024, device=device), torch.empty(1024, device=device)
    result = {"kind": "launch_path", "conditions": conditions()}
    result["conditions"]["samples"] = (
        f"{rounds} interleaved rounds of {per_round} calls; {20 * rounds} bursts of {BURST}"
    )
    with without_interpretation():
        result["launch"] = launch_loops(x, y, 20 * rounds)
        result["per_launch"] = per_launch(x, y, rounds, per_round)
        result["matmul"] = matmul(device, rounds, per_round)
    if simulated():
        result["conditions"]["note"] = "launches checked, not executed: the difference is ours, the rest says nothing"
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest/launch_path.json"))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--per-round", type=int, default=50)
    options = parser.parse_args()
    publish(run(options.rounds, options.per_round), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
