"""A report over the operators of `op_db`:

    python -m tests.opinfo.run [--ops N | --slice A:B | --only NAME ...] [--device cpu] [--jobs 1] [--out FOLDER]

`--ops N` takes N operators spread over the whole database. Each worker is a process of its own: one that dies is
counted as a wrong answer and replaced. FOLDER gets report.json and table.md; verdicts are kept in
FOLDER/verdicts.jsonl as they come, and a run that was cut off goes on from there (`--seconds` cuts it off itself)."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 240.0  # seconds for one operator, the worker's start included


def operators(options) -> list[str]:
    from .database import operators as database

    names = list(database())
    if options.only:
        return [n for n in names if n in options.only]
    if options.slice:
        begin, _, end = options.slice.partition(":")
        return names[int(begin or 0) : int(end or len(names))]
    if options.ops is None or options.ops >= len(names):
        return names
    return [names[i * len(names) // options.ops] for i in range(options.ops)]


# -- workers -----------------------------------------------------------------------------------------------------------


def worker(device: str) -> None:
    """Reads names, writes verdicts, one JSON line each."""
    sys.path.insert(0, str(ROOT / "tests"))
    import torch

    import trident_hook
    from opinfo.check import check
    from opinfo.database import operators as database

    torch.set_num_threads(1)
    # What the data decides is captured as well, as `fullgraph=True` does.
    torch._dynamo.config.capture_scalar_outputs = torch._dynamo.config.capture_dynamic_output_shape_ops = True
    by_name = database()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever an operator prints
    with tempfile.TemporaryDirectory() as folder:
        trident_hook.config.build, trident_hook.config.cache_dir = "background", folder
        for line in sys.stdin:
            torch._dynamo.reset()
            started = time.perf_counter()
            verdict = check(by_name[line.strip()], device=device)
            if device == "cuda":
                torch.cuda.synchronize()  # a fault of the device ends the process, which counts as wrong
            record = {"name": verdict.name, "outcome": verdict.outcome, "reason": verdict.reason, "cases": verdict.cases,
                      "seconds": round(time.perf_counter() - started, 2)}  # fmt: skip
            print(json.dumps(record), file=answers, flush=True)


class Worker:
    def __init__(self, device: str) -> None:
        paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.opinfo.run", "--worker", "--device", device], cwd=ROOT, text=True,
            env={**os.environ, **paths, **hidden},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def ask(self, name: str) -> dict:
        """The verdict, or what the death of the process says."""
        started = time.perf_counter()
        timer = threading.Timer(PATIENCE, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line:
            return json.loads(line)
        code, seconds = self.process.wait(), round(time.perf_counter() - started, 2)
        return {"name": name, "outcome": "wrong", "reason": f"the process ended with {code}", "cases": {},
                "seconds": seconds}  # fmt: skip

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def run(names: list[str], jobs: int, device: str = "cpu", seconds: float | None = None, known=None, keep=None) -> list:
    """Verdicts of `names`, in order, without those that `seconds` left no time for. `known`: verdicts of an earlier run.
    `keep(verdict)` is called with each new one."""
    verdicts, lock = dict(known or {}), threading.Lock()
    todo = [name for name in reversed(names) if name not in verdicts]
    deadline = time.monotonic() + (seconds or float("inf"))

    def serve() -> None:
        member = Worker(device)
        while True:
            with lock:
                if not todo or time.monotonic() > deadline:
                    break
                name = todo.pop()
            verdict = member.ask(name)
            with lock:
                verdicts[name] = verdict
                if keep is not None:
                    keep(verdict)
                if verdict["outcome"] != "served":
                    position = f"[{len(verdicts)}/{len(names)}]"
                    print(f"{position} {name}: {verdict['outcome']}: {verdict['reason']}", flush=True)
            if member.process.poll() is not None:
                member = Worker(device)
        member.close()

    threads = [threading.Thread(target=serve) for _ in range(min(jobs, max(1, len(todo))))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [verdicts[name] for name in names if name in verdicts]


# -- the report --------------------------------------------------------------------------------------------------------


def summary(verdicts: list[dict]) -> dict:
    """Counts of operators and of their cases. An operator is captured when Dynamo captures one of its cases at least;
    it is served when every case that Dynamo captures is."""
    outcomes = Counter(v["outcome"] for v in verdicts)
    cases = Counter(outcome for v in verdicts for outcome, _ in v["cases"].values())
    refused = [(v["name"], reason) for v in verdicts for outcome, reason in v["cases"].values() if outcome == "refused"]
    by_reason = {
        slug: sorted({n for n, reason in refused if _slug(reason) == slug}) for slug in {_slug(r) for _, r in refused}
    }
    captured = sum(outcomes[o] for o in ("served", "refused", "wrong"))
    captured_cases = sum(cases[o] for o in ("served", "refused", "wrong"))
    partly = sum(
        v["outcome"] == "served" and any(o == "not captured" for o, _ in v["cases"].values()) for v in verdicts
    )
    return {
        "operators": {"all": len(verdicts), **outcomes, "captured_by_dynamo": captured,
                      "served_of_captured": round(outcomes["served"] / max(1, captured), 4),
                      "served_but_for_cases_that_dynamo_does_not_capture": partly},
        "cases": {"all": cases.total(), **cases, "captured_by_dynamo": captured_cases,
                  "served_of_captured": round(cases["served"] / max(1, captured_cases), 4)},
        "refused_by_reason": dict(sorted(by_reason.items(), key=lambda item: -len(item[1]))),
        "not_captured_by_dynamos_words": dict(Counter(
            reason for v in verdicts if v["outcome"] == "not captured" for reason in {r for o, r in v["cases"].values() if o == "not captured"}
        ).most_common()),
    }  # fmt: skip


def _slug(reason: str) -> str:
    return reason.split(":")[0]


def environment(device: str) -> dict:
    import torch
    import triton

    import trident_hook

    about = {
        "date": datetime.date.today().isoformat(), "device": device, "python": platform.python_version(),
        "torch": torch.__version__, "triton": triton.__version__, "trident_hook": trident_hook.__version__,
    }  # fmt: skip
    if device != "cpu":
        about["device_name"] = torch.cuda.get_device_name()
    return about


def table(report: dict) -> str:
    about, found = report["environment"], report["summary"]
    ops, cases = found["operators"], found["cases"]
    lines = [
        f"# op_db through trident_hook.jit, {about['device']}",
        "",
        ", ".join(f"{name} {value}" for name, value in about.items() if name != "device"),
        "",
        "| | operators | cases |",
        "|---|---:|---:|",
    ]
    for outcome in ("served", "refused", "wrong", "not captured", "skipped"):
        lines.append(f"| {outcome} | {ops.get(outcome, 0)} | {cases.get(outcome, 0)} |")
    lines += [
        f"| all | {ops['all']} | {cases['all']} |",
        f"| served of those that Dynamo captures | {ops['served_of_captured']:.1%} | {cases['served_of_captured']:.1%} |",
        "",
        "An operator is served when every case of it that Dynamo captures without a graph break (`fullgraph=True`, data-dependent numbers "
        "included) is answered by a specialization; "
        f"{ops['served_but_for_cases_that_dynamo_does_not_capture']} of them have further cases that Dynamo does not capture. Every answer, of "
        "whatever route, is compared with eager's: bit for bit, or by its metadata where eager does not repeat itself.",
        "",
    ]
    for outcome in ("wrong", "refused", "not captured", "skipped"):
        rows = [
            (o["name"], case, reason)
            for o in report["details"]
            for case, (what, reason) in o["cases"].items()
            if what == outcome
        ]
        rows += [(o["name"], "-", o["reason"]) for o in report["details"] if not o["cases"] and o["outcome"] == outcome]
        grouped: dict = {}
        for name, case, reason in rows:
            grouped.setdefault(reason, {}).setdefault(name, []).append(case)
        if rows:
            lines += [f"## {outcome}", ""]
        for reason, names in sorted(grouped.items(), key=lambda item: -len(item[1])):
            told = ", ".join(f"{name} ({', '.join(which)})" for name, which in names.items())
            lines += [f"- {reason.replace('|', '/')}: {told}"]
        if rows:
            lines.append("")
    return "\n".join(lines)


def make_report(verdicts: list[dict], about: dict, seconds: float) -> dict:
    details = [
        {"name": v["name"], "outcome": v["outcome"], "reason": v["reason"],
         "cases": {case: found for case, found in v["cases"].items() if found[0] != "served"}}
        for v in verdicts if v["outcome"] != "served" or any(o != "served" for o, _ in v["cases"].values())
    ]  # fmt: skip
    counts = {v["name"]: sum(o == "served" for o, _ in v["cases"].values()) for v in verdicts}
    served = {name: count for name, count in counts.items() if count}  # cases, of operators that are refused as well
    return {"environment": about, "seconds": round(seconds, 1), "summary": summary(verdicts), "served": served,
            "details": details}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, help="how many operators (default: all)")
    parser.add_argument("--slice", help="operators A to B (exclusive) of the database, as A:B")
    parser.add_argument("--only", nargs="+", help="these operators, by formatted name")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="begin no operator later than this")
    parser.add_argument("--out", type=Path, help="folder of the report")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.device)
        return 0
    started, known, keep = time.perf_counter(), {}, None
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        journal = options.out / "verdicts.jsonl"
        if journal.exists():
            known = {v["name"]: v for v in map(json.loads, journal.read_text().splitlines())}

        def keep(verdict: dict) -> None:
            with journal.open("a") as file:
                file.write(json.dumps(verdict) + "\n")

    names = operators(options)
    verdicts = run(names, options.jobs, options.device, options.seconds, known, keep)
    report = make_report(verdicts, environment(options.device), time.perf_counter() - started)
    if options.out:
        (options.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
        (options.out / "table.md").write_text(table(report))
        if len(verdicts) == len(names):
            journal.unlink(missing_ok=True)
    print(json.dumps(report["summary"], indent=1))
    if len(verdicts) < len(names):
        print(f"cut off: {len(names) - len(verdicts)} operators were not begun")
    return 1 if report["summary"]["operators"].get("wrong") else 0


if __name__ == "__main__":
    raise SystemExit(main())
