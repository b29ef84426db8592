"""The judge of programs for as long as it is told: python -m tests.judges.programs.run --programs 20000 --seconds 3600 --jobs 8

Programs are known by seed and number. Each process takes every n-th; one that dies is a difference, and another takes its
place. Prints progress, writes a JSON result and a script for each difference (`--out`)."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import itertools
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .draft import FEATURES
from .known import OFF
from .write import plan_of

ROOT = Path(__file__).resolve().parents[3]
_STUCK_S = 240  # a program takes a second or two


@dataclasses.dataclass
class Total:
    """What came of all programs so far."""

    programs: int = 0
    refused: int = 0
    outcomes: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    differences: list[dict] = dataclasses.field(default_factory=list)
    features: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    @property
    def calls(self) -> int:
        return sum(self.outcomes.values())

    def add(self, found: dict) -> None:
        self.programs += 1
        self.refused += found["refused"]
        self.outcomes.update(found["outcomes"])
        self.features.update(found["features"])
        if found["difference"] is not None:
            self.differences.append(found)

    def kinds(self) -> dict[int, int]:
        """Kind -> how many programs with a difference have, reduced, a feature that looks for it."""
        counted: collections.Counter = collections.Counter()
        for found in self.differences:
            counted.update({kind for name in found["features"] for kind in FEATURES.get(name, (0, (), 0))[1]})
        return dict(sorted(counted.items()))

    def line(self) -> str:
        share = 100 * self.outcomes["hits"] / max(1, self.calls)
        return f"{self.programs} programs, {self.calls} calls, {share:.0f} % hits, {self.refused} refused, {len(self.differences)} differences"

    def as_json(self, **run) -> dict:
        """What is kept of a run. Nothing in it names the machine."""
        import torch
        import triton

        by_feature = collections.Counter(" + ".join(sorted(f["features"])) for f in self.differences)
        return {
            "date": datetime.date.today().isoformat(), **run,
            "versions": {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__},
            "programs": self.programs, "calls": self.calls, "outcomes": dict(self.outcomes), "refused": self.refused,
            "differences": len(self.differences), "kinds": self.kinds(), "by_features": dict(by_feature.most_common()),
            "examples": [{k: f[k] for k in ("number", "door", "features", "outcome", "difference")} for f in self.differences[:200]],
        }  # fmt: skip


class Worker:
    """A process that judges the programs `first`, `first + stride`, ..."""

    def __init__(self, args, first: int, stride: int, folder: Path) -> None:
        self.args, self.next, self.stride, self.folder = args, first, stride, folder
        self.file = folder / f"results_{first}.jsonl"
        self.read, self.last = 0, time.monotonic()
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "tests.judges.programs.run", "--worker", str(self.file), "--seed", str(self.args.seed),
                   "--first", str(self.next), "--stride", str(self.stride), "--cache", self.args.cache or str(self.folder),
                   "--only", self.args.only]  # fmt: skip
        command += ["--all"] if self.args.all else []
        command += ["--no-reduce"] if self.args.no_reduce else []
        self.log = open(self.folder / f"log_{self.next}.txt", "w")  # noqa: SIM115  the process has it
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=self.log, stderr=subprocess.STDOUT)

    def results(self) -> list[dict]:
        """Those that are new; the process is started again where it has ended."""
        text = self.file.read_text()[self.read :] if self.file.exists() else ""
        text = text[: text.rfind("\n") + 1]
        self.read += len(text)
        found = [json.loads(line) for line in text.splitlines()]
        if found:
            self.next, self.last = found[-1]["number"] + self.stride, time.monotonic()
        stuck = time.monotonic() - self.last > _STUCK_S
        if stuck:
            self.process.kill()
            self.process.wait()
        if self.process.poll() is not None and not text:
            if not (found and found[-1]["poisoned"]) and self.process.returncode:
                found.append(
                    self._fatal("it did not end" if stuck else f"the process ended with {self.process.returncode}")
                )
                self.next += self.stride
            self.last = time.monotonic()
            self._start()
        return found

    def _fatal(self, what: str) -> dict:
        from .session import door_of

        self.log.flush()
        tail = Path(self.log.name).read_text()[-1500:]
        names = tuple(name for name, _ in plan_of(self.args.seed, self.next, off(self.args)).parts)
        return {"number": self.next, "door": door_of(self.next), "outcomes": {}, "features": names, "difference": f"{what}: {tail}",
                "outcome": "", "script": "", "refused": False, "poisoned": False, "plan": None}  # fmt: skip

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()


def off(args) -> frozenset[str]:
    """Features that programs do without."""
    if args.only:
        return frozenset(FEATURES) - set(args.only.split(","))
    return frozenset() if args.all else frozenset(OFF)


def work(args) -> None:
    """A worker: one line of JSON for each program."""
    import trident_hook

    from . import session, twin

    trident_hook.config.cache_dir = args.cache
    session.prepare()
    if args.all:
        twin.LEFT_OUT = frozenset()
    with open(args.worker, "a") as out:
        for found in session.run_many(
            args.seed, itertools.count(args.first, args.stride), off(args), not args.no_reduce
        ):
            out.write(json.dumps(dataclasses.asdict(found)) + "\n")
            out.flush()


def judge(args, progress) -> Total:
    """All workers, until there are enough programs or the time is over."""
    total, end = Total(), time.monotonic() + args.seconds
    with tempfile.TemporaryDirectory() as folder:
        workers = [Worker(args, args.first + i, args.jobs, Path(folder)) for i in range(args.jobs)]
        try:
            while total.programs < args.programs and time.monotonic() < end:
                time.sleep(0.5)
                for found in (one for worker in workers for one in worker.results()):
                    if total.programs < args.programs:
                        total.add(found)
                        progress(total, found)
        finally:
            for worker in workers:
                worker.end()
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--stride", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--cache", default="", help="folder for compiled modules (default: a temporary one)")
    parser.add_argument("--only", default="", help="names of features, separated by commas")
    parser.add_argument("--all", action="store_true", help="also the features that are switched off in known.py")
    parser.add_argument("--no-reduce", action="store_true")
    parser.add_argument("--out", type=Path, help="a folder for result.json and a script for each difference")
    args = parser.parse_args()
    if args.worker:
        work(args)
        return 0
    shown = time.monotonic()

    def progress(total: Total, found: dict) -> None:
        nonlocal shown
        if found["difference"] is not None:
            print(
                f"program {found['number']} ({', '.join(found['features'])}; {found['outcome']}): {found['difference'][:300]}",
                flush=True,
            )
            if args.out and found["script"]:
                args.out.mkdir(parents=True, exist_ok=True)
                (args.out / f"program_{found['number']}.py").write_text(found["script"])
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            print(total.line(), flush=True)
            keep(total)

    def keep(total: Total) -> None:
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            run = {"seed": args.seed, "first": args.first, "features_left_out": sorted(off(args))}
            (args.out / "result.json").write_text(json.dumps(total.as_json(**run), indent=1) + "\n")

    total = judge(args, progress)
    keep(total)
    print(total.line())
    print("kinds:", total.kinds())
    return 1 if total.differences else 0


if __name__ == "__main__":
    sys.exit(main())
