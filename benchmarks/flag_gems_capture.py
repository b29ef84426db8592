"""Which FlagGems operators are served, at which shapes and dtypes, and with FlagGems' own answers: no times, no GPU.

python -m benchmarks.flag_gems_capture --out served.json          (needs flag-gems==5.0.2)

Every operator sees its five shapes one after the other, then all of them in turns: by then each call must be a hit that
makes the launches itself. Answers are compared with FlagGems' own function bit for bit. On a machine without a GPU the
simulated driver runs small shapes (see flag_gems_sim); elsewhere the shapes are those of the benchmark."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import Counter
from pathlib import Path

import torch

import trident_hook
from benchmarks import flag_gems_cases, flag_gems_sim
from benchmarks.rivals import copy_of
from trident_hook import _rt

#: Calls with one shape until it must be served: one that is captured, and two where a number becomes a symbol first.
_CALLS = 4


def same(a, b) -> bool:
    """Bit for bit, layouts included."""
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if not isinstance(a, torch.Tensor):
        return a == b
    if (a.shape, a.stride(), a.dtype, a.device) != (b.shape, b.stride(), b.dtype, b.device):
        return False
    return torch.equal(a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8))


class Probe:
    """Calls of one function, each told apart by what the counters say. `called`: what is called where that is not the
    function itself, but something that reaches it."""

    def __init__(self, fn, called=None) -> None:
        self.fn, self.called = fn, called or fn

    def call(self, args: tuple) -> tuple[object, str]:
        """(answer, route): "scm", "partly" (a hit that launches nothing itself), "other"."""
        hits, launched, by_python = self._counts()
        answer = self.called(*args)
        hits_after, launched_after, by_python_after = self._counts()
        if hits_after != hits + 1:
            return answer, "other"
        return answer, "scm" if launched_after > launched and by_python_after == by_python else "partly"

    def _counts(self) -> tuple[int, int, int]:
        counters = _rt.counters()
        return trident_hook.counts(self.fn).get("hits", 0), counters["launch"], counters["launch_python"]


def check(flag_gems, operator, dtype: str, device: str, dims, shapes: int) -> list[dict]:
    """One row a shape."""
    fn = getattr(flag_gems, operator.function)
    plain, probe, rows = copy_of(fn), Probe(fn), []
    known = list(flag_gems_cases.cases(operator, dtype, device, dims, shapes))
    expected = [plain(*case.args) for case in known]
    with trident_hook.enable(include=[fn]):
        for case, right in zip(known, expected, strict=True):
            row = {"operator": operator.name, "shape": case.shape, "dtype": dtype, "equal": True}
            for _ in range(_CALLS):
                answer, row["first_route"] = probe.call(case.args)
                row["equal"] &= same(answer, right)
                if row["first_route"] != "other":
                    break
            rows.append(row)
        before = trident_hook.counts(fn)
        for _ in range(2):
            for row, case, right in zip(rows, known, expected, strict=True):
                answer, row["route"] = probe.call(case.args)
                row["equal"] &= same(answer, right)
        after = trident_hook.counts(fn)
        explanation = trident_hook.explain(fn)
    for row in rows:
        row["verdict"] = _verdict(row)
        row["specializations"] = len(explanation.specializations)
        row["misses_in_turns"] = after["misses"] - before["misses"]
        if row["verdict"] != "served":
            row["why"] = explanation.refused or "; ".join(map(str, explanation.refusals))
            row["last_miss"] = explanation.last_miss
    return rows


def _verdict(row: dict) -> str:
    if not row["equal"]:
        return "wrong"
    return {"scm": "served", "partly": "partly", "other": "refused"}[row["route"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--ops", nargs="*", help="names of operators")
    parser.add_argument("--dtypes", nargs="*", default=list(flag_gems_cases.DTYPES))
    parser.add_argument("--shapes", type=int, default=flag_gems_cases.SHAPES)
    options = parser.parse_args()
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    trident_hook.config.build, trident_hook.config.limit = "sync", 64
    if torch.cuda.is_available():
        import flag_gems

        device, dims = "cuda", flag_gems_cases.FULL
    else:
        flag_gems = flag_gems_sim.present()
        device, dims = "cpu", flag_gems_cases.SMALL
    result = {"kind": "flag_gems_capture", "flag_gems": flag_gems.__version__, "device": device, "rows": []}
    for operator in flag_gems_cases.OPERATORS:
        if options.ops and operator.name not in options.ops:
            continue
        for dtype in options.dtypes:
            started = time.perf_counter()
            try:
                rows = check(flag_gems, operator, dtype, device, dims, options.shapes)
            except Exception as error:
                what = f"{type(error).__name__}: {error}".splitlines()[0][:300]
                rows = [{"operator": operator.name, "dtype": dtype, "verdict": "error", "why": what}]
            result["rows"] += rows
            verdicts = Counter(row["verdict"] for row in rows)
            why = next((row["why"] for row in rows if row.get("why")), "")
            print(f"{operator.name:12} {dtype}  {dict(verdicts)}  {rows[0].get('specializations', 0)} specializations, "
                  f"{rows[0].get('misses_in_turns', 0)} misses in turns, {time.perf_counter() - started:.1f} s  "
                  f"{why[:200]}", flush=True)  # fmt: skip
            if options.out:
                options.out.write_text(json.dumps(result, indent=1, default=str) + "\n")
    verdicts = Counter(row["verdict"] for row in result["rows"])
    print(dict(verdicts))
    return 1 if set(verdicts) - {"served"} else 0


if __name__ == "__main__":
    sys.exit(main())
