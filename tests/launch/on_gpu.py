"""The corpus of the launcher test where launches run: what a specialization computes is what eager computes, bit for bit.

    python -m tests.launch.on_gpu --out FILE --jobs 6
    python -m tests.launch.on_gpu --out FILE --device cpu     # the simulated driver's interpreter, to try this program

Each case is called plainly and through a fresh function under jit until that is a hit, each time with the same memory
before. Memory of all arguments, results, and the compiled kernels that are handed on are compared. What this machine
cannot run is skipped with the reason, and counted."""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if not any((Path(entry) / "support" / "routes.py").is_file() for entry in sys.path):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from support.routes import outcome, same, twin

import trident_hook
from trident_hook import _rt
from trident_hook.testing import simdriver

from . import corpus
from .places import place


class Memory:
    """Copies of CPU tensors on a device. Views of one storage stay views of one storage; `restore()` makes all of it what
    it was at first."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._wholes: dict = {}  # storage of the original -> (its copy, as it was at first)
        self._copies: dict = {}  # id of the original -> (the original, its copy)

    def copy(self, value):
        if isinstance(value, (tuple, list)):
            return type(value)(map(self.copy, value))
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self._copies:
            self._copies[id(value)] = (value, self._copy(value))
        return self._copies[id(value)][1]

    def _copy(self, value):
        storage = value.untyped_storage()
        if storage.data_ptr() not in self._wholes:
            first = torch.empty(0, dtype=torch.uint8).set_(storage).to(self.device, copy=True)
            self._wholes[storage.data_ptr()] = (first.clone(), first)
        whole = self._wholes[storage.data_ptr()][0].untyped_storage()
        copy = torch.empty(0, dtype=value.dtype, device=self.device)
        copy.set_(whole, value.storage_offset(), value.size(), value.stride())
        return torch.nn.Parameter(copy, value.requires_grad) if isinstance(value, torch.nn.Parameter) else copy

    def restore(self) -> None:
        for copy, first in self._wholes.values():
            copy.copy_(first)

    def contents(self) -> list:
        return [copy.clone() for copy, _ in self._wholes.values()]


def examine(case, device: str) -> dict:
    """{"status": "served", "refused", "skipped" or "wrong", "why": ...}"""
    memory = Memory(device)
    args, earlier = memory.copy(case.args), memory.copy(case.before)
    served, plain = trident_hook.jit(twin(case.fn)), twin(case.fn)

    def call(fn):
        memory.restore()
        _synchronize(device)  # the call may be on a stream that does not wait for this one's
        answer = outcome(fn, args, {})
        _synchronize(device)
        return answer.error, [_portable(answer.value), memory.contents()]

    with case.around() if device == "cpu" else case.on_gpu():
        for some in earlier:
            served(*some)
        call(plain)  # tunes what Triton has to tune
        error, expected = call(plain)
        if error is not None:
            return {"status": "skipped", "why": f"eager raises {type(error).__name__}: {str(error).splitlines()[0]}"}
        for attempt in range(3):
            before, counters = trident_hook.counts(served)["hits"], _rt.counters()
            error, got = call(served)
            if error is not None or not same(got, expected):
                return {"status": "wrong", "why": f"call {attempt}: {error or f'{got} instead of {expected}'}"}
            hit = trident_hook.counts(served)["hits"] > before
        python = _rt.counters()["launch_python"] - counters["launch_python"]
    if hit and not python:
        return {"status": "served", "why": ""}
    explanation = trident_hook.explain(served)
    late = "launched through Triton inside a hit"
    return {"status": "refused", "why": late if hit else "; ".join(explanation.refusals) or explanation.last_miss}


def _portable(value):
    """Results by value: tensors as copies, compiled kernels by hash."""
    if isinstance(value, (tuple, list)):
        return [_portable(item) for item in value]
    if isinstance(value, torch.Tensor):
        return value.clone()
    return getattr(value, "hash", value)


def _synchronize(device: str) -> None:
    if device == "cpu":
        return simdriver.synchronize()
    for index in range(torch.cuda.device_count()):
        torch.cuda.synchronize(index)


def is_heavy(case) -> bool:
    """Too many programs for the interpreter."""
    return "65535" in case.name or case.name == "a large symbolic grid"


def run(cases: list, device: str) -> dict:
    found = {}
    for case in cases:
        begun = time.perf_counter()
        if device == "cpu" and is_heavy(case):
            answer = {"status": "skipped", "why": "too many programs for the interpreter"}
        else:
            try:
                answer = examine(case, device)
            except corpus.NotHere as missing:
                answer = {"status": "skipped", "why": str(missing)}
            except Exception as error:
                answer = {"status": "wrong", "why": f"{type(error).__name__}: {error}"}
        found[case.name] = {**answer, "seconds": round(time.perf_counter() - begun, 2)}
        if answer["status"] == "wrong":
            print(f"WRONG {case.name}: {answer['why']}", flush=True)
        torch._dynamo.reset()
    return found


def problems(found: dict, cases: list) -> list[str]:
    """What is not as the corpus says."""
    bad = [f"{name}: {answer['why']}" for name, answer in found.items() if answer["status"] == "wrong"]
    for case in cases:
        answer = found[case.name]
        if answer["status"] == "served" and case.refused is not None:
            bad.append(f"{case.name}: served, but said to be refused")
        if answer["status"] == "refused" and (case.refused is None or case.refused not in answer["why"]):
            bad.append(f"{case.name}: not served: {answer['why']}")
    return bad


def _in_processes(given, cases: list) -> dict:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for job in range(given.jobs):
            out = Path(folder) / f"{job}.json"
            line = [sys.executable, "-m", "tests.launch.on_gpu", "--device", given.device, "--out", str(out)]
            line += ["--part", f"{job}/{given.jobs}", *(("--only", given.only) if given.only else ())]
            running.append((subprocess.Popen(line), out))
        for process, out in running:
            process.wait()
            if not out.exists():
                raise SystemExit(f"a process ended with exit status {process.returncode} and no result")
            found |= json.loads(out.read_text())["cases"]
    return {case.name: found[case.name] for case in cases}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--device", choices=("cpu", "cuda"), default="cuda", help="cpu: the simulated driver")
    options.add_argument("--jobs", type=int, default=1, help="processes among which the cases are shared out")
    options.add_argument("--part", default="0/1", help="I/N: every N-th case, from the I-th on")
    options.add_argument("--only", help="cases whose name contains this")
    given = options.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device: nothing is tested here", file=sys.stderr)
        return 2
    first, step = map(int, given.part.split("/"))
    cases = [case for case in corpus.CASES if given.only is None or given.only in case.name][first::step]
    begun = time.perf_counter()
    if given.jobs > 1:
        found = _in_processes(given, cases)
    else:
        with place(given.device, n_devices=2):
            found = run(cases, given.device)
    counts = collections.Counter(answer["status"] for answer in found.values())
    why = {status: collections.Counter(a["why"] for a in found.values() if a["status"] == status)
           for status in ("refused", "skipped")}  # fmt: skip
    device = torch.cuda.get_device_name() if given.device == "cuda" else "simulated driver, interpreted"
    bad = problems(found, cases)
    given.out.write_text(json.dumps({
        "kind": "launch_corpus", "device": device, "torch": torch.__version__, "seconds": round(time.perf_counter() - begun),
        "counts": counts, **why, "problems": bad, "cases": found}, indent=1) + "\n")  # fmt: skip
    if given.part == "0/1":
        print(f"{len(found)} launches on {device}: {dict(counts)}, {time.perf_counter() - begun:.0f} s")
        for status, reasons in why.items():
            for reason, count in reasons.items():
                print(f"  {count} {status}: {reason}")
        for text in bad:
            print(f"PROBLEM {text}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
