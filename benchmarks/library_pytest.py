"""A pytest plugin for a library's own tests: a sample of them, the same random numbers in every run, outcomes as JSON lines.

Used by benchmarks/library_tests.py, which sets the variables."""

from __future__ import annotations

import json
import os
import zlib
from collections import Counter

import pytest

OUTCOMES, MOST = "LIBRARY_TESTS_OUTCOMES", "LIBRARY_TESTS_MOST"
#: Tests that a process takes together, all of one function and dtype: what was compiled for one serves the others.
_TOGETHER = 12
#: Bytes that PyTorch may keep after a test: the processes share one device.
_KEPT = 2 << 30


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """At most so many tests of each function, evenly spread over its parameters; and xdist's groups."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        functions.setdefault(item.nodeid.split("[")[0], []).append(item)
    most = int(os.environ.get(MOST, "0"))
    kept = []
    for tests in functions.values():
        kept += [tests[i * len(tests) // most] for i in range(most)] if 0 < most < len(tests) else tests
    chosen = set(map(id, kept))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
    items[:] = [item for item in items if id(item) in chosen]
    if config.pluginmanager.has_plugin("xdist"):
        seen: Counter = Counter()
        for item in items:
            dtype = item.callspec.params.get("dtype", "") if hasattr(item, "callspec") else ""
            key = f"{item.nodeid.split('::')[-1].split('[')[0]} {dtype}"
            item.add_marker(pytest.mark.xdist_group(f"{key} {seen[key] // _TOGETHER}"))
            seen[key] += 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Most of the tests draw random numbers and compare with a tolerance: both runs must draw the same."""
    import random

    import numpy
    import torch

    seed = zlib.crc32(item.name.encode())
    random.seed(seed)
    numpy.random.seed(seed)  # noqa: NPY002 - the generator that those tests use
    torch.manual_seed(seed)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    import torch

    if torch.cuda.is_available() and torch.cuda.memory_reserved() > _KEPT:
        torch.cuda.empty_cache()


class _Outcomes:
    """Of the process that has the reports: the only one, or xdist's controller."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "a", buffering=1)  # noqa: SIM115 - open as long as the session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        line = {"test": report.nodeid.split("]@")[0], "when": report.when, "outcome": report.outcome}
        line["test"] += "]" if "]@" in report.nodeid else ""  # xdist puts the group behind it
        line["seconds"] = round(report.duration, 3)
        if hasattr(report, "node"):  # xdist's worker that ran it
            line["worker"] = report.node.gateway.id
        if hasattr(report, "wasxfail"):
            line["outcome"] = "xpassed" if report.outcome == "passed" else "xfailed"
        if report.failed:
            line["why"] = str(report.longrepr)[-600:]
        for name, value in report.user_properties:
            if name == "trident_hook":
                line["calls"] = value
        self.file.write(json.dumps(line) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get(OUTCOMES) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Outcomes(os.environ[OUTCOMES]), "library_outcomes")
