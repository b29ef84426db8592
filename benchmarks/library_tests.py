"""A library's own tests, without us and with us under plain `enable()`: outcomes must be the same, test by test.

python -m benchmarks.library_tests CHECKOUT tests/ops tests/modules --name fla --out OUT --jobs 12 --most 4

CHECKOUT is a checkout of the library's repository; what follows are files or folders in it. Both runs draw the same random
numbers and call each test three times: with us a function may be found in the first call, captured in the second and served
in the third. What follows `--` is for pytest. Writes OUT/NAME_tests.json after each run; exit status 1 where an outcome
differs, 2 where nothing was run."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from benchmarks.library_pytest import MOST, OUTCOMES

RUNS = ("without", "with")
ROOT = Path(__file__).resolve().parent.parent
_WHY = 400  # characters of a failure that are kept


def pytest_line(run: str, options) -> list[str]:
    """The part of pytest's line that is the same for all libraries. Its settings are an empty file: neither the library's nor
    ours apply to these tests."""
    settings = options.out / "pytest.ini"
    settings.write_text("[pytest]\nfilterwarnings = ignore\n")
    line = [sys.executable, "-m", "pytest", "-c", str(settings), "--rootdir", str(options.checkout), "-q", "--tb=line"]
    line += ["-p", "no:cacheprovider", "-p", "benchmarks.library_pytest", "-p", "trident_hook.pytest_plugin"]
    line += ["--trident-hook-repeat", str(options.repeat)]
    line += ["--trident-hook"] if run == "with" else []
    if options.jobs > 1:
        line += ["-n", str(options.jobs), "--dist", "loadgroup"]
    if importlib.util.find_spec("pytest_timeout"):
        line += ["--timeout", str(options.timeout)]
    return line


def execute(run: str, line: list[str], variables: dict, options) -> dict:
    """Outcomes and times of one run of pytest, cut short at the end of `--seconds`."""
    outcomes = options.out / f"outcomes_{run}.jsonl"
    outcomes.unlink(missing_ok=True)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path, OUTCOMES: str(outcomes), MOST: str(options.most or 0)} | variables
    started = time.monotonic()
    with open(options.out / f"pytest_{run}.log", "w") as log:
        process = subprocess.Popen(line, cwd=options.out, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            status = process.wait(options.seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
            status = "cut short"
    lines = (options.out / f"pytest_{run}.log").read_text().splitlines()
    last = [i for i, line in enumerate(lines) if line.startswith("trident_hook:")]
    return {
        "status": status,
        "seconds": round(time.monotonic() - started, 1),
        "trident_hook": lines[last[-1] : last[-1] + 8] if last else [],
        "tests": read(outcomes),
    }


def read(path: Path) -> dict[str, dict]:
    """Test -> outcome ("passed", "failed", "skipped", "xfailed", "xpassed", "error" in set-up or tear-down), why, calls."""
    tests: dict[str, dict] = {}
    for text in path.read_text().splitlines() if path.exists() else ():
        line = json.loads(text)
        outcome = "error" if line["when"] != "call" and line["outcome"] == "failed" else line["outcome"]
        entry = {"outcome": outcome, "seconds": line["seconds"]}
        entry |= {key: line[key] for key in ("why", "calls", "worker") if key in line}
        known = tests.get(line["test"])
        if known is None or known["outcome"] == "passed":  # a test that passed can still fail in its tear-down
            tests[line["test"]] = entry
    return tests


def compare(runs: dict[str, dict]) -> dict:
    """Counts of both runs over the tests that both have, and each difference."""
    without, ours = (runs[name]["tests"] for name in RUNS)
    both = [test for test in without if test in ours]
    differences = [
        {
            "test": test,
            "without": without[test]["outcome"],
            "with": ours[test]["outcome"],
            "why": (ours[test].get("why") or without[test].get("why") or "")[-_WHY:],
        }
        for test in both
        if without[test]["outcome"] != ours[test]["outcome"]
    ]
    calls = [ours[test].get("calls", {}) for test in both]
    return {
        "compared": len(both),
        "only_without": sorted(set(without) - set(ours)),
        "only_with": sorted(set(ours) - set(without)),
        "counts": {name: dict(Counter(runs[name]["tests"][test]["outcome"] for test in both)) for name in RUNS},
        "differences": differences,
        "tests_with_hits": sum(call.get("hits", 0) > 0 for call in calls),
        "calls": dict(sum((Counter(call) for call in calls), Counter())),
    }


def render(result: dict) -> str:
    lines = [f"{result['kind']}: {result['compared']} in both runs."]
    for name in RUNS:
        counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(result["counts"][name].items()))
        lines.append(
            f"{name + ' us:':12} {counts} ({result['runs'][name]['seconds']} s, status {result['runs'][name]['status']})"
        )
    lines.append(f"With us, {result['tests_with_hits']} tests had hits; calls: {result['calls']}")
    lines += result["runs"]["with"]["trident_hook"]
    for name in ("only_without", "only_with"):
        lines += [f"{len(result[name])} tests {name.replace('_', ' ')} us" for _ in result[name][:1]]
    lines.append(f"{len(result['differences'])} differences")
    lines += [
        f"  {d['test']}: {d['without']} -> {d['with']}: {' '.join(d['why'].split())}" for d in result["differences"]
    ]
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest"))
    parser.add_argument("--most", type=int, help="tests of each test function, evenly spread over its parameters")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--repeat", type=int, default=3, help="calls of each test function")
    parser.add_argument("--seconds", type=float, help="for each of the two runs")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one test")
    parser.add_argument(
        "--runs", nargs="*", choices=RUNS, default=list(RUNS), help="one alone keeps the other's outcomes"
    )


def parse(parser: argparse.ArgumentParser, arguments: list[str] | None) -> argparse.Namespace:
    own, rest = list(sys.argv[1:] if arguments is None else arguments), []
    if "--" in own:
        own, rest = own[: own.index("--")], own[own.index("--") + 1 :]
    options = parser.parse_args(own)
    options.pytest, options.out, options.checkout = rest, options.out.resolve(), options.checkout.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    return options


def campaign(kind: str, line_of, variables: dict, options, chosen: dict) -> int:
    """Both runs, or the one that is asked for, and the comparison. `line_of(run)`: pytest's line."""
    from benchmarks.device import conditions

    target = options.out / f"{kind}.json"
    before = json.loads(target.read_text())["runs"] if target.exists() else {}
    runs = {name: before[name] for name in RUNS if name in before and name not in options.runs}
    for name in options.runs:
        runs[name] = execute(name, line_of(name), variables, options)
        print(f"{name} us: {len(runs[name]['tests'])} tests in {runs[name]['seconds']} s", flush=True)
        target.write_text(json.dumps({"kind": kind, "runs": runs}) + "\n")
    if set(runs) != set(RUNS):
        return 0
    result = {"kind": kind, **compare(runs), "runs": runs, "conditions": conditions() | chosen}
    target.write_text(json.dumps(result) + "\n")
    print(render(result))
    if not result["compared"]:
        print(f"nothing was compared; see {options.out}/pytest_*.log", file=sys.stderr)
        return 2
    return 1 if result["differences"] else 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("tests", nargs="+", help="files or folders of tests, relative to the checkout")
    parser.add_argument("--name", required=True, help="of the library")
    options = parse(parser, arguments)
    missing = [name for name in options.tests if not (options.checkout / name).exists()]
    if missing:
        parser.error(f"{options.checkout} has no {', '.join(missing)}; name files or folders of its tests")
    paths = [str(options.checkout / name) for name in options.tests]
    chosen = {name: getattr(options, name) for name in ("tests", "most", "jobs", "repeat", "pytest")}
    return campaign(
        f"{options.name}_tests", lambda run: [*pytest_line(run, options), *options.pytest, *paths], {}, options, chosen
    )


if __name__ == "__main__":
    sys.exit(main())
