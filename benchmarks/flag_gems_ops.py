"""FlagGems operators, eager and served: host and end-to-end latency, routes, equality bit for bit, reasons of refusals.

python -m benchmarks.flag_gems_ops --out benchmarks/results/latest          (needs a GPU and flag-gems==5.0.2)

Every row is written as soon as it is known, so a run that is cut short leaves what it had. FlagGems' own tuning, tens
of seconds for a new matmul shape, is part of the first eager call and is reported apart. "dispatched" rows call
PyTorch's operator with FlagGems registered for it (`use_gems`). A function whose launches stay in the library's Python,
though a specialization answers the call, has the route "partly": it is not served whole."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import statistics
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import trident_hook
from benchmarks.device import conditions
from trident_hook import _rt


@dataclass
class Case:
    name: str
    function: str  # of flag_gems
    shape: str
    args: tuple
    kwargs: dict
    dispatched: Callable | None = None  # PyTorch's call that reaches it


#: Measured last: their tuning may outlast the time there is.
_TUNED = ("addmm", "bmm", "mm")


def _randn(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, dtype=dtype, device="cuda")


def cases() -> list[Case]:
    """Dimensions of language models; one token or a few, where the host's time is what counts."""
    x, y, weight, hidden = _randn(16, 4096), _randn(16, 4096), _randn(4096), _randn(16, 4096)
    mask, table = torch.rand(16, 4096, device="cuda") > 0.5, _randn(32000, 4096)
    tokens = torch.randint(0, 32000, (16,), device="cuda")
    a, b, bias = _randn(16, 1024), _randn(1024, 1024), _randn(1024)
    left, right = _randn(8, 16, 128), _randn(8, 128, 64)
    F = torch.nn.functional
    return [
        Case("rms_norm", "rms_norm_forward", "16x4096 bf16", (x, (4096,), weight, 1e-6), {}),
        Case("embedding", "embedding", "16 of 32000x4096", (table, tokens), {}, lambda: F.embedding(tokens, table)),
        Case("silu", "silu", "16x4096 bf16", (x,), {}, lambda: F.silu(x)),
        Case("add", "add", "16x4096 bf16", (x, y), {}, lambda: torch.add(x, y)),
        Case("mul", "mul", "16x4096 bf16", (x, y), {}),
        Case("neg", "neg", "16x4096 bf16", (x,), {}),
        Case("gelu", "gelu", "16x4096 bf16", (hidden,), {}),
        Case("pow", "pow_tensor_scalar", "16x4096 bf16", (x, 2), {}),
        Case("lt", "lt", "16x4096 bf16", (x, y), {}),
        Case("where", "where_self", "16x4096 bf16", (mask, x, y), {}),
        Case("masked_fill", "masked_fill", "16x4096 bf16", (x, mask, 0.0), {}),
        Case("softmax", "softmax", "16x4096 bf16", (x, -1), {}),
        Case("layer_norm", "layer_norm", "16x4096 bf16", (x, (4096,), weight, weight), {}),
        Case("sum_dim", "sum_dim", "16x4096 bf16", (x, [1]), {}),
        Case("cumsum", "cumsum", "16x4096 bf16", (x, 1), {}),
        Case("cat", "cat", "2 of 16x4096 bf16", ([x, y], 0), {}),
        Case("sort", "sort", "16x4096 bf16", (x,), {}),
        Case("mm", "mm", "16x1024x1024 bf16", (a, b), {}, lambda: torch.mm(a, b)),
        Case("addmm", "addmm", "16x1024x1024 bf16", (bias, a, b), {}, lambda: torch.addmm(bias, a, b)),
        Case("bmm", "bmm", "8x16x128x64 bf16", (left, right), {}, lambda: torch.bmm(left, right)),
        Case("conv2d", "conv2d", "1x16x32x32 bf16", (_randn(1, 16, 32, 32), _randn(16, 16, 3, 3)), {}),
    ]


def twin(fn):
    """The same function with a code object that no door knows."""
    other = types.FunctionType(fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    other.__kwdefaults__ = fn.__kwdefaults__ and dict(fn.__kwdefaults__)
    other.__module__, other.__qualname__ = fn.__module__, fn.__qualname__
    return other


def same(a, b) -> bool:
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if not isinstance(a, torch.Tensor):
        return a == b
    if (a.shape, a.stride(), a.dtype, a.device) != (b.shape, b.stride(), b.dtype, b.device):
        return False
    return torch.equal(a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8))


def timed(call: Callable, n: int) -> list[tuple[int, int]]:
    """(host, e2e) nanoseconds of n calls, the device idle before each."""
    out = []
    for _ in range(n):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        result = call()
        returned = time.perf_counter_ns()
        torch.cuda.synchronize()
        out.append((returned - start, time.perf_counter_ns() - start))
        del result
    return out


def compare(plain: Callable, served: Callable, rounds: int, per_round: int) -> dict:
    """Interleaved rounds; medians in microseconds."""
    samples: dict[str, list] = {"eager": [], "served": []}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            samples["eager"] += timed(plain, per_round)
            samples["served"] += timed(served, per_round)
    finally:
        gc.enable()
    row = {}
    for name, times in samples.items():
        for index, what in enumerate(("host", "e2e")):
            row[f"{name}_{what}_us"] = round(statistics.median(t[index] for t in times) / 1000, 2)
    return row


def hits(fn) -> int:
    return trident_hook.counts(fn).get("hits", 0)


def launches() -> int:
    return _rt.counters()["launch"]


def route(fn, hits_before: int, launches_before: int) -> tuple[str, int]:
    """How the one call in between was answered, and how many native launches it made."""
    launched = launches() - launches_before
    if hits(fn) != hits_before + 1:
        return "python", launched
    return ("scm" if launched else "partly"), launched


def warm(call: Callable, fn, seconds: float) -> None:
    """Until a specialization serves it, or it is left alone."""
    end = time.perf_counter() + seconds
    for _ in range(6):
        before = hits(fn)
        call()
        if hits(fn) > before or trident_hook.explain(fn).refused or time.perf_counter() > end:
            return


def measure(case: Case, options) -> dict:
    import flag_gems

    row = {"operator": case.name, "shape": case.shape}
    fn = getattr(flag_gems, case.function)
    plain = twin(fn)
    started = time.perf_counter()
    expected = plain(*case.args, **case.kwargs)
    torch.cuda.synchronize()
    row["first_eager_call_s"] = round(time.perf_counter() - started, 3)
    if not same(expected, plain(*case.args, **case.kwargs)):
        row["note"] = "eager itself is not repeatable bit for bit"
    with trident_hook.enable(include=[fn]):
        started = time.perf_counter()
        warm(lambda: fn(*case.args, **case.kwargs), fn, 40)
        row["served_after_s"] = round(time.perf_counter() - started, 3)
        before, launched = hits(fn), launches()
        got = fn(*case.args, **case.kwargs)
        row["route"], row["launches"] = route(fn, before, launched)
        row["equal"] = same(got, expected)
        explanation = trident_hook.explain(fn)
        row["refusals"] = explanation.refusals
        row["left_alone"] = explanation.refused
        before = hits(fn)
        row.update(compare(lambda: plain(*case.args, **case.kwargs), lambda: fn(*case.args, **case.kwargs),
                           options.rounds, options.per_round))  # fmt: skip
        row["hits_while_measured"] = hits(fn) - before
        row["calls_while_measured"] = options.rounds * options.per_round
    return row


def measure_dispatched(case: Case, options) -> dict:
    """The same function, called by PyTorch's dispatcher: FlagGems alone, then with us."""
    import flag_gems

    row = {"operator": case.name, "shape": case.shape}
    fn = getattr(flag_gems, case.function)
    with flag_gems.use_gems(include=[case.function]):
        expected = case.dispatched()
        for _ in range(5):
            case.dispatched()
        eager = timed(case.dispatched, options.rounds * options.per_round)
        with trident_hook.enable(include=[fn]):
            warm(case.dispatched, fn, 40)
            before, launched = hits(fn), launches()
            got = case.dispatched()
            row["route"], row["launches"] = route(fn, before, launched)
            row["equal"] = same(got, expected)
            served = timed(case.dispatched, options.rounds * options.per_round)
            row["left_alone"] = trident_hook.explain(fn).refused
    for name, times in (("eager", eager), ("served", served)):
        for index, what in enumerate(("host", "e2e")):
            row[f"{name}_{what}_us"] = round(statistics.median(t[index] for t in times) / 1000, 2)
    return row


def table(rows: list[dict], title: str) -> str:
    heads = ["operator", "shape", "route", "equal", "eager host us", "ours host us", "ratio"]
    heads += ["eager e2e us", "ours e2e us", "ratio", "refused because"]
    lines = [f"### {title}", "", f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['operator']} | {row['shape']} | - | - | | | | | | | {row['error']} |")
            continue
        host = (row["eager_host_us"], row["served_host_us"])
        e2e = (row["eager_e2e_us"], row["served_e2e_us"])
        why = (row["left_alone"] or "") if row["route"] != "scm" else ""
        times = [f"{a:.1f} | {b:.1f} | {a / b:.2f}" for a, b in (host, e2e)]
        cells = [row["operator"], row["shape"], row["route"], "yes" if row["equal"] else "NO", *times]
        lines.append(f"| {' | '.join(cells)} | {why.replace('|', '/')[:200]} |")
    return "\n".join(lines) + "\n"


def _write(result: dict, out: Path) -> None:
    text = table(result["direct"], "Called directly") + "\n" + table(result["dispatched"], "Called by the dispatcher")
    (out / "table.md").write_text(text)
    (out / "flag_gems_ops.json").write_text(json.dumps(result, indent=1, default=str) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest"))
    parser.add_argument("--only", nargs="*", help="names of operators")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--per-round", type=int, default=50)
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no other operator is begun")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("FlagGems does not import without a GPU", file=sys.stderr)
        return 2
    started = time.perf_counter()
    import flag_gems

    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    trident_hook.config.build = "sync"
    result = {"kind": "flag_gems_ops", "conditions": conditions() | {"flag_gems": flag_gems.__version__},
              "direct": [], "dispatched": [], "not_begun": []}  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [c for c in cases() if not options.only or c.name in options.only]
    slow = [c for c in chosen if c.name in _TUNED]
    steps = [("direct", measure, c) for c in chosen if c not in slow]
    steps += [("dispatched", measure_dispatched, c) for c in chosen if c not in slow and c.dispatched]
    for case in slow:
        steps += [("direct", measure, case), ("dispatched", measure_dispatched, case)]
    for part, step, case in steps:
        if time.perf_counter() - started > options.budget:
            result["not_begun"].append(f"{case.name} ({part})")
            continue
        try:
            row = step(case, options)
        except Exception as error:
            what = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            row = {"operator": case.name, "shape": case.shape, "error": what}
        result[part].append(row)
        print(f"{time.perf_counter() - started:6.1f} s  {part:10} {json.dumps(row, default=str)}", flush=True)
        _write(result, options.out)
    _write(result, options.out)
    print((options.out / "table.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
