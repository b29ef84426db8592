"""21 FlagGems operators at five shapes and two dtypes: FlagGems eager, torch.compile, and served, host and end to end.

python -m benchmarks.flag_gems_ops --out benchmarks/results/latest --configs 2 --resume       (flag-gems==5.0.2)

Every row is written as soon as it is known, and `--resume` goes on where a run was cut short, so one GPU's eight minutes
can be several commands: `--ops mm addmm bmm`, `--modes eager ours compile`, `--dtypes bf16`. What takes the time is FlagGems'
own tuning of matrix products (hundreds of configs for each shape); `--configs N` leaves each tuner N of them, for every mode
alike. `--dispatched` measures PyTorch's operators with FlagGems registered for them (`use_gems`) instead of direct calls.
Without a GPU the simulated driver runs small shapes with kernels that do nothing: host times only.

Modes are interleaved; the device is idle before each call. A call of ours that is no hit, or whose launches stay in the
library's Python, shows in the column `route`."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import trident_hook
from benchmarks import flag_gems_cases, flag_gems_sim, paper
from benchmarks.device import conditions, simulated, synchronize, without_interpretation
from benchmarks.flag_gems_capture import Probe, same
from benchmarks.rivals import copy_of

MODES = ("eager", "ours", "compile", "compile-cpp")
CLOCKS = ("host", "e2e")
#: Calls with one shape until a specialization must serve it.
_WARM = 4


def load(configs: int | None):
    """FlagGems, on whatever this machine has, its tuners cut to `configs` configs if a number is given."""
    if torch.cuda.is_available():
        import flag_gems
    else:
        flag_gems = flag_gems_sim.present()
    if configs:
        from triton.runtime.autotuner import Autotuner  # FlagGems' LibTuner is one

        for tuner in (it for it in gc.get_objects() if isinstance(it, Autotuner)):
            tuner.configs = tuner.configs[:: max(1, len(tuner.configs) // configs)][:configs]
    return flag_gems


def timed(call: Callable, args: tuple, n: int) -> tuple[list[float], list[float]]:
    """(host, e2e) microseconds of n invocations in a row."""
    host, e2e = [], []
    for _ in range(n):
        synchronize()
        start = time.perf_counter_ns()
        result = call(*args)
        returned = time.perf_counter_ns()
        synchronize()
        done = time.perf_counter_ns()
        del result
        host.append((returned - start) / 1000)
        e2e.append((done - start) / 1000)
    return host, e2e


class Subject:
    """One operator at one dtype: every mode's callable, warm at all shapes."""

    def __init__(self, flag_gems, operator, dtype: str, options) -> None:
        self.operator, self.dtype, self.options = operator, dtype, options
        self.fn = getattr(flag_gems, operator.function)
        dims = flag_gems_cases.SMALL if simulated() else flag_gems_cases.FULL
        device = "cpu" if simulated() else "cuda"
        self.cases = list(flag_gems_cases.cases(operator, dtype, device, dims, options.shapes))
        self.probe = Probe(self.fn, operator.called if options.dispatched else None)
        self.calls = {mode: self._callable(mode) for mode in options.modes}

    def _callable(self, mode: str) -> Callable:
        if self.options.dispatched:
            return self.operator.called
        if mode == "eager":
            return copy_of(self.fn)
        if mode == "ours":
            return self.fn
        options = {"cpp_wrapper": True} if mode == "compile-cpp" else None
        backend = {"backend": "eager"} if simulated() else {"options": options}
        return torch.compile(copy_of(self.fn), **backend)

    def scope(self, mode: str):
        """Ours is on while it is called, and only then."""
        return trident_hook.enable(include=[self.fn]) if mode == "ours" else contextlib.nullcontext()

    def warm(self) -> dict[str, list]:
        """Seconds per mode for the first call at each shape, tuning and compiling included; answers are compared."""
        firsts: dict[str, list] = {}
        self.equal: dict[str, list] = {mode: [] for mode in self.calls}
        self.left_out: dict[str, str] = {}
        expected: list = []
        for mode in list(self.calls):
            try:
                with self.scope(mode):
                    firsts[mode] = [self._first(mode, case, index, expected) for index, case in enumerate(self.cases)]
            except Exception as error:
                if mode in ("eager", "ours"):
                    raise
                self.left_out[mode] = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
                del self.calls[mode]
        return firsts

    def _first(self, mode: str, case, index: int, expected: list) -> float:
        call = self.calls[mode]
        started = time.perf_counter()
        answer = call(*case.args)
        synchronize()
        seconds = time.perf_counter() - started
        for _ in range(_WARM):
            answer = call(*case.args)
        if mode == "eager":
            expected.append(answer)
        self.equal[mode].append(same(answer, expected[index]) if expected else None)
        return seconds

    def row(self, index: int, firsts: dict) -> dict:
        case, options = self.cases[index], self.options
        row = {"operator": self.operator.name, "dtype": self.dtype, "shape": case.shape, "index": index}
        row |= {"left_out": self.left_out} if self.left_out else {}
        runs: dict[str, dict] = {mode: {clock: [] for clock in CLOCKS} for mode in self.calls}
        gc.collect()
        gc.disable()
        try:
            with without_interpretation():
                for _ in range(options.rounds):
                    for mode, call in self.calls.items():
                        with self.scope(mode):
                            if mode == "ours":
                                _, row["route"] = self.probe.call(case.args)
                                misses = trident_hook.counts(self.fn)["misses"]
                            for clock, values in zip(CLOCKS, timed(call, case.args, paper.INVOCATIONS), strict=True):
                                runs[mode][clock].append(values)
                            if mode == "ours" and trident_hook.counts(self.fn)["misses"] != misses:
                                row["route"] = "misses"
        finally:
            gc.enable()
        for mode, clocks in runs.items():
            row[mode] = {"first_s": round(firsts[mode][index], 4), "equal": self.equal[mode][index]}
            for clock, lists in clocks.items():
                row[mode][clock] = {"mean": round(paper.warm_mean(lists), 2),
                                    "median": round(paper.warm_median(lists), 2)}  # fmt: skip
        if "ours" in self.calls and row["route"] != "scm":
            explanation = trident_hook.explain(self.fn)
            row["why"] = str(explanation.refused or "; ".join(map(str, explanation.refusals)))[:300]
        return row


def _registered(flag_gems, operator):
    """PyTorch's operator is FlagGems' while this lasts."""
    if simulated():
        return flag_gems_sim.registered(flag_gems, [operator.function])
    return flag_gems.use_gems(include=[operator.function])


def measure(flag_gems, operator, dtype: str, options) -> list[dict]:
    torch._dynamo.reset()
    with _registered(flag_gems, operator) if options.dispatched else contextlib.nullcontext():
        subject = Subject(flag_gems, operator, dtype, options)
        firsts = subject.warm()
        return [subject.row(index, firsts) for index in range(len(subject.cases))]


# -- results -----------------------------------------------------------------------------------------------------------


def ratios(rows: list[dict], mode: str, clock: str, what: str) -> list[float]:
    return [row["eager"][clock][what] / row[mode][clock][what] for row in rows if mode in row and "eager" in row]


def summary(rows: list[dict]) -> list[dict]:
    """One line an operator: how many cases were served whole and equal, and how many times faster than eager each mode is
    (the mean of the per-shape ratios, by the paper's filter and by medians)."""
    lines = []
    for name in dict.fromkeys(row["operator"] for row in rows):
        mine = [row for row in rows if row["operator"] == name and "error" not in row]
        line = {"operator": name, "cases": sum(row["operator"] == name for row in rows)}
        line["served"] = sum(row.get("route") == "scm" for row in mine)
        line["equal"] = sum(bool(row.get("ours", {}).get("equal")) for row in mine)
        for mode in MODES[1:]:
            for clock in CLOCKS:
                for what in ("mean", "median"):
                    found = ratios(mine, mode, clock, what)
                    if found:
                        line[f"{mode} {clock} {what}"] = round(sum(found) / len(found), 3)
        lines.append(line)
    return lines


def overall(lines: list[dict]) -> dict:
    """Geometric means over the operators, and how many of them are faster than eager."""
    found = {}
    for key in dict.fromkeys(key for line in lines for key in line if key.endswith((" mean", " median"))):
        values = [line[key] for line in lines if key in line]
        found[key] = {
            "geometric mean": round(paper.geometric_mean(values), 3),
            "faster": sum(value > 1 for value in values),
            "of": len(values),
        }
    return found


def tables(result: dict) -> str:
    lines = summary(result["rows"])
    keys = [f"{m} {c} mean" for m in MODES[1:] for c in CLOCKS if any(f"{m} {c} mean" in line for line in lines)]
    text = ["Times faster than FlagGems eager: mean of the per-shape ratios, by the paper's filter.", ""]
    text += [f"| operator | served | equal | {' | '.join(k.removesuffix(' mean') for k in keys)} |"]
    text += ["| --- | ---: | ---: |" + " ---: |" * len(keys)]
    for line in lines:
        cells = [f"{line[key]:.2f}" if key in line else "" for key in keys]
        counts = [f"{line[what]} of {line['cases']}" for what in ("served", "equal")]
        text.append(f"| {' | '.join([line['operator'], *counts, *cells])} |")
    whole = overall(lines)
    cells = [
        f"{whole[key]['geometric mean']:.2f} ({whole[key]['faster']} of {whole[key]['of']} faster)" for key in keys
    ]
    text += [f"| geometric mean | | | {' | '.join(cells)} |", "", "Each case, medians in microseconds.", ""]
    modes = [mode for mode in MODES if any(mode in row for row in result["rows"])]
    heads = [f"{mode} {clock}" for mode in modes for clock in CLOCKS]
    text += [f"| operator | dtype | shape | route | {' | '.join(heads)} | |"]
    text += ["| --- | --- | --- | --- |" + " ---: |" * len(heads) + " --- |"]
    for row in result["rows"]:
        cells = [f"{row[mode][clock]['median']:.1f}" if mode in row else "" for mode in modes for clock in CLOCKS]
        why = (row.get("error") or row.get("why") or "").replace("|", "/")[:160]
        head = [row["operator"], row["dtype"], row.get("shape", ""), row.get("route", "")]
        text.append(f"| {' | '.join([*head, *cells, why])} |")
    return "\n".join(text) + "\n"


def write(result: dict, out: Path, name: str) -> None:
    result["summary"], result["overall"] = summary(result["rows"]), overall(summary(result["rows"]))
    (out / f"{name}.json").write_text(json.dumps(result, indent=1, default=str) + "\n")
    (out / f"{name}.md").write_text(tables(result))


def _missing(rows: list[dict], operator: str, dtype: str, options) -> bool:
    known = [row for row in rows if (row["operator"], row["dtype"]) == (operator, dtype) and "error" not in row]
    done = (mode in row or mode in row.get("left_out", {}) for row in known for mode in options.modes)
    return len(known) < options.shapes or not all(done)


def _replace(rows: list[dict], new: list[dict]) -> list[dict]:
    """Modes that only an earlier run measured are kept beside this run's eager figures for the table, not for ratios."""
    replaced = {(row["operator"], row["dtype"]) for row in new}
    return [row for row in rows if (row["operator"], row["dtype"]) not in replaced] + new


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest"))
    parser.add_argument("--ops", nargs="*", help="names of operators")
    parser.add_argument("--dtypes", nargs="*", default=list(flag_gems_cases.DTYPES))
    parser.add_argument("--shapes", type=int, default=flag_gems_cases.SHAPES)
    parser.add_argument("--modes", nargs="*", choices=MODES, default=["eager", "ours"])
    parser.add_argument("--rounds", type=int, default=2, help="runs of 30 invocations for each mode and case")
    parser.add_argument("--configs", type=int, help="configs that each of FlagGems' tuners keeps")
    parser.add_argument("--dispatched", action="store_true", help="PyTorch's operators, with FlagGems registered")
    parser.add_argument("--resume", action="store_true", help="keep the rows that are there")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no other operator is begun")
    options = parser.parse_args()
    started = time.perf_counter()
    flag_gems = load(options.configs)
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    torch._dynamo.config.recompile_limit = 64
    trident_hook.config.build, trident_hook.config.limit = "sync", 64
    options.out.mkdir(parents=True, exist_ok=True)
    name = "flag_gems_dispatched" if options.dispatched else "flag_gems_ops"
    target = options.out / f"{name}.json"
    result = {"kind": "flag_gems_ops", "rows": []}
    if options.resume and target.exists():
        result = json.loads(target.read_text())
    result["conditions"] = conditions() | {"flag_gems": flag_gems.__version__, "configs": options.configs or "all",
                                           "rounds": options.rounds}  # fmt: skip
    result["not_begun"] = []
    for operator in flag_gems_cases.OPERATORS:
        if (options.ops and operator.name not in options.ops) or (options.dispatched and operator.called is None):
            continue
        for dtype in options.dtypes:
            if options.resume and not _missing(result["rows"], operator.name, dtype, options):
                continue
            if time.perf_counter() - started > options.budget:
                result["not_begun"].append(f"{operator.name} {dtype}")
                continue
            try:
                rows = measure(flag_gems, operator, dtype, options)
            except Exception as error:
                what = f"{type(error).__name__}: {error}".splitlines()[0][:300]
                rows = [{"operator": operator.name, "dtype": dtype, "error": what}]
            result["rows"] = _replace(result["rows"], rows)
            write(result, options.out, name)
            (line,) = summary(rows)
            print(f"{time.perf_counter() - started:6.1f} s  {dtype}  {json.dumps(line)}", flush=True)
    write(result, options.out, name)
    print(json.dumps(result["overall"], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
