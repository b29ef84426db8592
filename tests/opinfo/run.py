"""A report over the operators of `op_db`:

    python -m tests.opinfo.run [--ops N | --only NAME ...] [--jobs 1] [--out report.json]

Operators are taken spread over the whole database. Each worker is a process of its own: one that dies is counted as a
wrong answer and replaced."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 180.0  # seconds for one operator


def operators(count: int | None, only: list[str] | None) -> list[str]:
    from .database import operators as database

    names = list(database())
    if only:
        return [n for n in names if n in only]
    if count is None or count >= len(names):
        return names
    return [names[i * len(names) // count] for i in range(count)]


def worker() -> None:
    """Reads names, writes verdicts, one JSON line each."""
    sys.path.insert(0, str(ROOT / "tests"))
    import torch

    import trident_hook
    from opinfo.check import check
    from opinfo.database import operators as database

    torch.set_num_threads(1)
    by_name = database()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever an operator prints
    with tempfile.TemporaryDirectory() as folder:
        trident_hook.config.build, trident_hook.config.cache_dir = "background", folder
        for line in sys.stdin:
            torch._dynamo.reset()
            started = time.perf_counter()
            verdict = check(by_name[line.strip()])
            record = {"name": verdict.name, "outcome": verdict.outcome, "reason": verdict.reason, "cases": verdict.cases,
                      "captured": verdict.captured, "seconds": round(time.perf_counter() - started, 2)}  # fmt: skip
            print(json.dumps(record), file=answers, flush=True)


class Worker:
    def __init__(self) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
            "CUDA_VISIBLE_DEVICES": "",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.opinfo.run", "--worker"], cwd=ROOT, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def ask(self, name: str) -> dict:
        """The verdict, or what the death of the process says."""
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
        code = self.process.wait()
        return {"name": name, "outcome": "wrong", "reason": f"the process ended with {code}", "cases": {}, "captured": True,
                "seconds": 0.0}  # fmt: skip

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def run(names: list[str], jobs: int) -> list[dict]:
    todo, verdicts, lock = list(reversed(names)), {}, threading.Lock()

    def serve() -> None:
        member = Worker()
        while True:
            with lock:
                if not todo:
                    break
                name = todo.pop()
            verdict = member.ask(name)
            with lock:
                verdicts[name] = verdict
                if verdict["outcome"] != "served":
                    print(
                        f"[{len(verdicts)}/{len(names)}] {name}: {verdict['outcome']}: {verdict['reason']}", flush=True
                    )
            if member.process.poll() is not None:
                member = Worker()
        member.close()

    threads = [threading.Thread(target=serve) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [verdicts[name] for name in names]


def summary(verdicts: list[dict]) -> dict:
    outcomes = Counter(v["outcome"] for v in verdicts)
    reasons = Counter(v["reason"].split(":")[0] for v in verdicts if v["outcome"] == "refused")
    captured = [v for v in verdicts if v["captured"] and v["outcome"] != "skipped"]
    share = sum(v["outcome"] == "served" for v in captured) / max(1, len(captured))
    return {"operators": len(verdicts), **outcomes, "refused_by_reason": dict(reasons.most_common()),
            "captured_by_dynamo": len(captured), "served_of_captured": round(share, 4)}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=int, help="how many operators (default: all)")
    parser.add_argument("--only", nargs="+", help="these operators, by formatted name")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="where the report goes, as JSON")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker()
        return 0
    started = time.perf_counter()
    verdicts = run(operators(options.ops, options.only), options.jobs)
    report = {"summary": summary(verdicts), "seconds": round(time.perf_counter() - started, 1), "operators": verdicts}
    if options.out:
        options.out.write_text(json.dumps(report, indent=1))
    print(json.dumps(report["summary"], indent=1))
    return 1 if report["summary"].get("wrong") else 0


if __name__ == "__main__":
    raise SystemExit(main())
