"""A pytest plugin for FlagGems' own tests: short tuning, the same random numbers in every run, outcomes as JSON lines.

Used by benchmarks/flag_gems_tests.py, which sets the variables. FlagGems is imported here, before its tests' own
conftest.py asks for it, so that each process has tuning results and generated code of its own."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
import zlib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

CONFIGS, OUTCOMES, MOST = "FLAG_GEMS_TESTS_CONFIGS", "FLAG_GEMS_TESTS_OUTCOMES", "FLAG_GEMS_TESTS_MOST"
DEVICES = "FLAG_GEMS_TESTS_DEVICES"
#: Tests that a process takes together, all of one function and dtype: what was compiled for one serves the others.
_TOGETHER = 12
#: Bytes that PyTorch may keep after a test: the processes share one device.
_KEPT = 2 << 30


def _import_flag_gems():
    home = Path(tempfile.mkdtemp(prefix="flag-gems-tests-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ["FLAGGEMS_CACHE_DIR"] = str(home)
    os.environ["FLAGGEMS_DB_URL"] = f"sqlite:///{home}/tuning.db"
    devices = int(os.environ.get(DEVICES, "1"))
    if devices > 1:  # each process sees one of them: the library is used as on a machine with one
        os.environ["CUDA_VISIBLE_DEVICES"] = str(int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % devices)
    from benchmarks.device import simulated
    from benchmarks.flag_gems_ops import load

    flag_gems = load(int(os.environ.get(CONFIGS, "0")) or None)
    if simulated():
        from benchmarks.flag_gems_sim import use_cpu_tensors

        use_cpu_tensors(flag_gems)
    return flag_gems


_import_flag_gems()


def pytest_sessionstart(session: pytest.Session) -> None:
    """The library's conftest.py keeps outcomes of tests that this process ran; those that xdist's workers ran are new to it."""
    for plugin in session.config.pluginmanager.get_plugins():
        if isinstance(getattr(plugin, "test_results", None), dict):
            plugin.test_results = defaultdict(dict)


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
        config.pluginmanager.register(_Outcomes(os.environ[OUTCOMES]), "flag_gems_outcomes")
