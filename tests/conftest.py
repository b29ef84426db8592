"""Rules for the whole suite: tests that need a GPU say so; a run that skipped them all beside a GPU is not green."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("TRIDENT_HOOK_CHECKS", "1")  # before the import: for this process and for those that tests start
_gpu_outcomes = {"ran": 0, "skipped": 0}


def cuda_available() -> bool:
    import torch

    return torch.cuda.is_available()


def machine_has_gpu() -> bool:
    """Whether there is an NVIDIA GPU, whatever PyTorch thinks of it. Hiding the devices on purpose counts as none."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    return Path("/proc/driver/nvidia/version").exists() or Path("/dev/nvidia0").exists()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not cuda_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device: torch.cuda.is_available() is False"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """torch.testing._internal forbids its process to set the flags of torch.backends; tests of other files set them."""
    backends = sys.modules.get("torch.backends")
    if backends is not None and backends.flags_frozen():
        backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = True


@pytest.fixture(autouse=True)
def states_of_functions_follow_each_other():
    """What functions/states.py found wrong: the doors keep it from the test's own calls."""
    yield
    states = sys.modules.get("trident_hook.functions.states")
    if states is not None:
        broken, states.broken[:] = list(states.broken), []
        assert not broken, broken


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory) -> Path:
    """Compiled modules of the session, for tests on the simulated driver. tests/gpu has its own."""
    if cuda_available():
        pytest.skip("this machine has a GPU: the simulated driver cannot be loaded beside the real one")
    return tmp_path_factory.mktemp("modules")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "gpu" not in report.keywords:
        return
    if report.when == "call" and not report.skipped:
        _gpu_outcomes["ran"] += 1
    elif report.skipped:
        _gpu_outcomes["skipped"] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _skipped_beside_a_gpu() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter) -> None:
    if not any(_gpu_outcomes.values()):
        return
    terminalreporter.write_line(f"GPU tests: {_gpu_outcomes['ran']} ran, {_gpu_outcomes['skipped']} skipped")
    if _skipped_beside_a_gpu():
        terminalreporter.write_line("NOT GREEN: this machine has a GPU and every GPU test was skipped", red=True)


def _skipped_beside_a_gpu() -> bool:
    return _gpu_outcomes["ran"] == 0 and _gpu_outcomes["skipped"] > 0 and machine_has_gpu()
