"""Several runs of benchmarks.flag_gems_tests as one file: each test from the last of the given runs that compared it.

python -m benchmarks.flag_gems_tests_merge OUT.json RUN.json ...

A long suite takes several campaigns on lent machines. OUT.json is short: a list for each test, whose columns it names. Tests
that only one of the two halves of every run reached are listed with their outcome. Exit status 1 where an outcome differs."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from benchmarks.flag_gems_tests import RUNS

COLUMNS = (
    "outcome without us",
    "outcome with us",
    "hits with us",
    "seconds without us",
    "seconds with us (builds included)",
)


def merge(results: list[dict]) -> dict:
    """Results of flag_gems_tests ("runs" of both, "conditions") as one of the kind "flag_gems_tests_merged"."""
    tests: dict[str, list] = {}
    alone: dict[str, dict[str, str]] = {name: {} for name in RUNS}
    for result in results:
        without, ours = (result["runs"][name]["tests"] for name in RUNS)
        for test in without.keys() | ours.keys():
            if test in without and test in ours:
                one, two = without[test], ours[test]
                hits = two.get("calls", {}).get("hits", 0)
                tests[test] = [one["outcome"], two["outcome"], hits, one["seconds"], two["seconds"]]
            else:
                name = RUNS[0] if test in without else RUNS[1]
                alone[name][test] = result["runs"][name]["tests"][test]["outcome"]
    alone = {name: {test: found[test] for test in sorted(found.keys() - tests.keys())} for name, found in alone.items()}
    return {
        "kind": "flag_gems_tests_merged",
        "columns": list(COLUMNS),
        "compared": len(tests),
        "only": {name: len(found) for name, found in alone.items()},
        "counts": {name: dict(Counter(test[i] for test in tests.values())) for i, name in enumerate(RUNS)},
        "differences": [{"test": name, "without": test[0], "with": test[1]} for name, test in sorted(tests.items()) if test[0] != test[1]],
        "tests_with_hits": sum(test[2] > 0 for test in tests.values()),
        "by_function": {name: _of_function(tests, name) for name in sorted(set(map(_function, tests)))},
        "campaigns": [result["conditions"] | {"seconds": {name: result["runs"][name]["seconds"] for name in RUNS},
                                              "status": {name: result["runs"][name]["status"] for name in RUNS}}
                      for result in results],
        "tests": dict(sorted(tests.items())),
        "tests_alone": alone,
    }  # fmt: skip


def _function(test: str) -> str:
    """`tests/test_x.py::test_add[float-3]` -> `test_add`"""
    return test.partition("[")[0].rpartition("::")[2]


def _of_function(tests: dict, name: str) -> dict:
    own = [test for full, test in tests.items() if _function(full) == name]
    return {"compared": len(own), "with_hits": sum(test[2] > 0 for test in own)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", type=Path, nargs="+", help="files that benchmarks.flag_gems_tests wrote")
    options = parser.parse_args(arguments)
    results = [json.loads(path.read_text()) for path in options.runs]
    for path, result in zip(options.runs, results, strict=True):
        if result.get("kind") != "flag_gems_tests" or set(result.get("runs", ())) != set(RUNS):
            parser.error(
                f"{path} is no result of benchmarks.flag_gems_tests with both runs; it is {result.get('kind')!r} with "
                f"{sorted(result.get('runs', ()))}"
            )
    merged = merge(results)
    options.out.write_text(
        json.dumps(merged, indent=None, separators=(",", ":")).replace('],"tests/', '],\n"tests/') + "\n"
    )
    print(
        f"{merged['compared']} tests compared, {len(merged['differences'])} differences, {merged['tests_with_hits']} with hits; "
        f"{merged['only']['without']} only without us, {merged['only']['with']} only with us"
    )
    return 1 if merged["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
