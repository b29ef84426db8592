"""A report on `trident.aten.*` over PyTorch's operator database:

    python -m tests.ffi.run_aten [--only NAME ...] [--samples 3] [--out benchmarks/results/<date>-trident-aten]

Each OpInfo's samples run with every ATen call under them made through TVM FFI's table, and are compared with eager. A
worker that dies is counted as a wrong answer and replaced. Writes report.json and table.md into the folder."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from collections import Counter
from pathlib import Path

WAYS = ("DLPack", "handles")
ROOT = Path(__file__).resolve().parents[2]


def worker(samples: int) -> None:
    """Reads names, writes verdicts, one JSON line each."""
    import torch
    from opinfo.database import operators

    from ffi.through_table import Verdict, check, register

    torch.set_num_threads(1)
    register()
    by_name = operators()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever an operator prints
    for line in sys.stdin:
        try:
            verdict = check(by_name[line.strip()], samples)
        except Exception as error:  # the check's own failure counts against us
            verdict = Verdict(line.strip(), "wrong", f"{type(error).__name__}: {error}"[:300])
        print(json.dumps(vars(verdict)), file=answers, flush=True)


class Worker:
    def __init__(self, samples: int) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        environment = {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""}
        line = [sys.executable, "-m", "tests.ffi.run_aten", "--worker", "--samples", str(samples)]
        self.process = subprocess.Popen(line, cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip

    def ask(self, name: str) -> dict:
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        return {"name": name, "outcome": "wrong", "detail": f"the process ended with {self.process.wait()}", "samples": 0,
                "called": {}}  # fmt: skip

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def run(names: list[str], samples: int) -> list[dict]:
    verdicts, member = [], Worker(samples)
    for name in names:
        verdict = member.ask(name)
        verdicts.append(verdict)
        if verdict["outcome"] == "wrong":
            print(f"[{len(verdicts)}/{len(names)}] {name}: wrong: {verdict['detail']}", flush=True)
        if member.process.poll() is not None:
            member = Worker(samples)
    member.close()
    return verdicts


def report(verdicts: list[dict], samples: int) -> dict:
    import torch
    import tvm_ffi

    from trident_hook import ffi

    registered = ffi.register_aten()
    outcomes = Counter(v["outcome"] for v in verdicts)
    called: dict[str, set] = {}
    for verdict in verdicts:
        for name, ways in (verdict["called"] if verdict["outcome"] == "equal" else {}).items():
            called.setdefault(name, set()).update(ways)
    return {
        "kind": "trident_aten",
        "conditions": {
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"), "device": "cpu",
            "python": platform.python_version(), "torch": torch.__version__, "tvm_ffi": tvm_ffi.__version__,
            "samples": f"the first {samples} of each operator of op_db",
        },
        "schemas": len(registered.names) + len(registered.inexpressible),
        "inexpressible": list(registered.inexpressible),
        "share_inexpressible": round(registered.share_left_out, 5),
        "operators_of_op_db": len(verdicts),
        "outcomes": dict(outcomes),
        "aten_operators_equal": len(called),
        "aten_operators": {name: sorted(ways) for name, ways in sorted(called.items())},
        "operators": [{k: v for k, v in verdict.items() if k != "called"} for verdict in verdicts],
    }  # fmt: skip


def table(found: dict) -> str:
    rows = [
        ("schemas in the aten namespace", found["schemas"]),
        ("of them without a form in TVM FFI", f"{len(found['inexpressible'])} ({found['share_inexpressible']:.2%})"),
        ("operators of op_db", found["operators_of_op_db"]),
        *((f"of them {outcome}", n) for outcome, n in sorted(found["outcomes"].items())),
        ("different ATen operators in those that were equal", found["aten_operators_equal"]),
        *((f"of them by {way}", sum(way in ways for ways in found["aten_operators"].values())) for way in WAYS),
    ]
    conditions = ", ".join(f"{k} {v}" for k, v in found["conditions"].items())
    lines = ["| `trident.aten.*` against eager | |", "| --- | ---: |", *(f"| {a} | {b} |" for a, b in rows)]
    left = ", ".join(f"`{name}`" for name in found["inexpressible"])
    return "\n".join([*lines, "", f"Without a form: {left}.", "", f"{conditions}."]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="these operators, by formatted name")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--out", type=Path, help="the folder that the report goes to")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.samples)
        return 0
    sys.path.insert(0, str(ROOT / "tests"))
    from opinfo.database import operators

    names = [n for n in operators() if options.only is None or n in options.only]
    found = report(run(names, options.samples), options.samples)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "report.json").write_text(json.dumps(found, indent=1) + "\n")
        (options.out / "table.md").write_text(table(found))
    print(table(found))
    return 1 if found["outcomes"].get("wrong") else 0


if __name__ == "__main__":
    raise SystemExit(main())
