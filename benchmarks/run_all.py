"""Runs every benchmark in a process of its own and writes JSON files and one table, flat, into a folder.

python -m benchmarks.run_all --out benchmarks/results/latest
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.report import render

PARTS = ["host_latency", "launch_path", "interference", "cold", "guard_cost", "aten_chain"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest"))
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--no-cpp-wrapper", action="store_true", help="leave out a compile of about a minute")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    failed, sections = [], ["# Benchmarks of one run"]
    for part in options.only:
        target = options.out / f"{part}.json"
        target.unlink(missing_ok=True)
        line = [sys.executable, "-m", f"benchmarks.{part}", "--out", str(target)]
        if part == "host_latency" and options.no_cpp_wrapper:
            line.append("--no-cpp-wrapper")
        print(f"--- {part}", flush=True)
        done = subprocess.run(line)
        if done.returncode or not target.exists():
            failed.append(part)
            sections.append(f"## {part}\n\nFailed (exit status {done.returncode}).")
        else:
            sections.append(f"## {part}\n\n{render(target)}")
    (options.out / "table.md").write_text("\n\n".join(sections) + "\n")
    if failed:
        print(f"benchmarks: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
