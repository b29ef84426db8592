"""Cold start of FlagGems operators: from the first call until it is served, tuning and kernel compiles excluded.

python -m benchmarks.cold_flag_gems --out benchmarks/results/latest/cold_flag_gems.json         (flag-gems==5.0.2)

Each way in `--rounds` processes, one shape an operator; a number is the median. Before the clock starts the plain function has
been called with the same arguments, so Triton has compiled and FlagGems has tuned, and garbage was collected: a full
collection takes 0.2 s with PyTorch's heap, and would fall to whichever operator comes at its turn. `ours`: an empty disk cache;
`ours, cached`: a second process with the cache that the first one filled; `torch.compile`: its first call, Inductor's caches off."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WAYS = ("ours", "ours, cached", "torch.compile")
OPERATORS = ("silu", "add", "rms_norm", "softmax", "cumsum", "bmm")


def measure(way: str, names: list[str]) -> dict:
    """Operator -> seconds; a text where it did not work."""
    import torch

    import trident_hook
    from benchmarks import flag_gems_cases
    from benchmarks.device import simulated, synchronize
    from benchmarks.flag_gems_ops import load
    from benchmarks.rivals import copy_of
    from trident_hook._scm import prelude

    flag_gems = load(configs=2)
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    trident_hook.config.build = "sync"
    dims, device = (flag_gems_cases.SMALL, "cpu") if simulated() else (flag_gems_cases.FULL, "cuda")
    found = {}
    chosen = [o for o in flag_gems_cases.OPERATORS if o.name in names]
    unmeasured = next(o for o in flag_gems_cases.OPERATORS if o.name not in names)
    for operator in (unmeasured, *chosen):
        (case,) = flag_gems_cases.cases(operator, "bf16", device, dims, shapes=1)
        fn = getattr(flag_gems, operator.function)
        copy_of(fn)(*case.args)
        synchronize()
        gc.collect()
        try:
            if way == "torch.compile":
                backend = {"backend": "eager"} if simulated() else {}
                compiled = torch.compile(copy_of(fn), **backend)
                start = time.perf_counter()
                compiled(*case.args)
            else:
                with trident_hook.enable(include=[fn]):
                    start = time.perf_counter()
                    for _ in range(10):
                        fn(*case.args)
                        if trident_hook.counts(fn).get("hits", 0):
                            break
                    else:
                        raise AssertionError(f"not served: {trident_hook.explain(fn).refusals}")
            synchronize()
            found[operator.name] = round(time.perf_counter() - start, 4)
        except Exception as error:
            found[operator.name] = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
        if operator is unmeasured:  # what a process does once: imports, our precompiled header, Inductor's workers
            found.clear()
            prelude.options()
            prelude.wait()
    return found


def medians(found: list[dict]) -> dict:
    """Operator -> median seconds of several processes; the text where it did not work in one."""
    texts = {name: value for row in found for name, value in row.items() if isinstance(value, str)}
    return {name: texts.get(name) or round(statistics.median(row[name] for row in found), 4) for name in found[0]}


def table(rows: dict) -> str:
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    lines = [f"| operator | {' | '.join(f'{way}, s' for way in rows)} |", "| --- |" + " ---: |" * len(rows)]
    for name in names:
        lines.append(f"| {name} | {' | '.join(str(row.get(name, '')) for row in rows.values())} |")
    medians = []
    for row in rows.values():
        numbers = [value for value in row.values() if isinstance(value, float)]
        medians.append(f"{statistics.median(numbers):.3f}" if numbers else "")
    return "\n".join([*lines, f"| median | {' | '.join(medians)} |"]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest/cold_flag_gems.json"))
    parser.add_argument("--rounds", type=int, default=3, help="processes of each way")
    parser.add_argument("--ops", nargs="*", default=list(OPERATORS))
    parser.add_argument("--way", choices=WAYS, help="measure one way in this process and print it")
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way, options.ops)))
        return 0
    from benchmarks.device import conditions

    runs: dict[str, list[dict]] = {way: [] for way in WAYS}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as cache:
            environment = os.environ | {"TRIDENT_HOOK_CACHE_DIR": cache, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
            for way in WAYS:
                line = [sys.executable, "-m", "benchmarks.cold_flag_gems", "--way", way, "--ops", *options.ops]
                done = subprocess.run(line, env=environment, capture_output=True, text=True)
                if done.returncode:
                    print(done.stderr[-2000:], file=sys.stderr)
                    return 1
                runs[way].append(json.loads(done.stdout.splitlines()[-1]))
        rows = {way: medians(found) for way, found in runs.items()}
        result = {"kind": "cold_flag_gems", "conditions": conditions(), "rows": rows, "runs": runs}
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(table(rows))
    options.out.with_suffix(".md").write_text(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
