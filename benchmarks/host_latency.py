"""Host and end-to-end latency of every rival, in one process and one run: the ratios that the documentation quotes.

python -m benchmarks.host_latency --out benchmarks/results/host_latency.json
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import rivals
from benchmarks.device import conditions, simulated, use_device, without_interpretation
from benchmarks.report import publish
from benchmarks.timing import measure


def run(rounds: int, per_round: int, cpp_wrapper: bool) -> dict:
    use_device()
    import trident_hook

    trident_hook.config.build = "sync"
    result = {"kind": "host_latency", "conditions": conditions(), "workloads": []}
    result["conditions"]["samples"] = f"{rounds} interleaved rounds of {per_round} calls per row"
    with without_interpretation():
        for work in rivals.workloads():
            contestants = []
            left_out = {}
            for make in rivals.makers(cpp_wrapper):
                try:
                    rival = make(work)
                    with rival.scope():
                        rival.call(*work.args)
                except Exception as error:  # a rival that cannot run is a row that says so, not the end of the run
                    if make in (rivals.eager, rivals.floor, rivals.frame_door, rivals.call_door, rivals.jit_door):
                        raise
                    left_out[make.__name__] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                    print(f"{work.name}: {make.__name__} left out: {left_out[make.__name__]}", file=sys.stderr)
                    continue
                contestants.append(rival)
            rows = measure(contestants, work.args, rounds, per_round)
            for rival in contestants:
                rows[rival.name]["note"] = rival.note
            result["workloads"].append({"name": work.name, "shape": work.shape, "rows": rows, "left_out": left_out})
    if simulated():
        result["conditions"]["note"] = "launches checked, not executed: nothing here says anything about a GPU"
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest/host_latency.json"))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--per-round", type=int, default=50)
    parser.add_argument("--no-cpp-wrapper", action="store_true", help="leave out a compile of about a minute")
    options = parser.parse_args()
    publish(run(options.rounds, options.per_round, not options.no_cpp_wrapper), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
