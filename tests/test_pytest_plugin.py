"""The pytest plugin on a small suite of somebody else's, in processes of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

pytest_plugins = ["pytester"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.cuda.is_available(), reason="the suite below runs on the simulated driver"),
]

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ("-p", "trident_hook.pytest_plugin", "-p", "no:cacheprovider")

CONFTEST = """
    from trident_hook.testing import simdriver
    simdriver.install()
"""
SUITE = """
    import pytest, torch
    from trident_hook.testing.workloads import silu

    @pytest.fixture
    def x():
        return torch.linspace(-2, 2, 64)

    def test_once(x):
        torch.testing.assert_close(silu(x), torch.nn.functional.silu(x))

    @pytest.mark.parametrize("n", [8, 9])
    def test_four_calls(n):
        x = torch.ones(n)
        for _ in range(4):
            torch.testing.assert_close(silu(x), torch.nn.functional.silu(x))

    def test_fails(x):
        assert silu(x).sum() == 123
"""


@pytest.fixture
def suite(pytester, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TRIDENT_HOOK_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "plugin-modules"))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(SUITE)
    return pytester


def summary(result) -> dict[str, int]:
    """The numbers of the plugin's line."""
    (line,) = [line for line in result.outlines if line.startswith("trident_hook:")]
    served, functions, hits, misses = map(
        int, re.search(r"(\d+) of (\d+) functions served, (\d+) hits, (\d+) misses", line).groups()
    )
    return {"served": served, "functions": functions, "hits": hits, "misses": misses}


def test_without_the_option_nothing_is_on(suite):
    result = suite.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.no_fnmatch_line("*trident_hook:*")


def test_outcomes_stay_and_functions_are_served(suite):
    result = suite.runpytest_subprocess(*PLUGIN, "--trident-hook", "--junit-xml=report.xml")
    result.assert_outcomes(passed=3, failed=1)
    found = summary(result)
    assert found["served"] == found["functions"] == 1
    # Ten calls: 64 and 8 and 9 elements; a capture for the first shape and for another, both built before the call ends.
    assert found["hits"] + found["misses"] == 10
    assert found["hits"] >= 6
    report = (suite.path / "report.xml").read_text()
    assert report.count('name="trident_hook"') == 4, "each test's report says how its calls went"


def test_a_repeated_test_meets_what_it_taught(suite):
    twice = suite.runpytest_subprocess(*PLUGIN, "--trident-hook", "--trident-hook-repeat=2", "-k", "test_once")
    twice.assert_outcomes(passed=1, deselected=3)
    assert summary(twice) == {"served": 1, "functions": 1, "hits": 1, "misses": 1}


def test_workers_of_xdist_are_added_up(suite):
    result = suite.runpytest_subprocess(*PLUGIN, "--trident-hook", "-n", "2", "--dist", "each", "-k", "test_four_calls")
    result.assert_outcomes(passed=4)
    found = summary(result)
    assert found["functions"] == found["served"] == 2, "one in each worker"
    assert found["hits"] + found["misses"] == 16


def test_switched_off_from_outside(suite, monkeypatch):
    monkeypatch.setenv("TRIDENT_HOOK_DISABLE", "1")
    result = suite.runpytest_subprocess(*PLUGIN, "--trident-hook", "-k", "test_once")
    result.assert_outcomes(passed=1, deselected=3)
    result.stdout.fnmatch_lines(["trident_hook: off, because TRIDENT_HOOK_DISABLE is set"])


REFUSED = """
    import torch
    from trident_hook.testing.workloads import _silu_kernel

    def breaks(x):
        y = torch.empty_like(x)
        _silu_kernel[(1,)](x, y, x.numel(), BLOCK=1024)
        print(y.sum().item())  # Dynamo breaks the graph here
        return y

    def test_breaks():
        for _ in range(4):
            breaks(torch.ones(8))
"""


def test_refusals_are_named(suite):
    suite.makepyfile(REFUSED)
    result = suite.runpytest_subprocess(*PLUGIN, "--trident-hook")
    result.assert_outcomes(passed=1)
    line = next(line for line in result.outlines if line.startswith("trident_hook:"))
    assert "0 of 1 functions served, 0 hits" in line
    assert line.endswith("1 refusals")
    result.stdout.re_match_lines([r"  1 x graph-break.*"])


BYPASSED = """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from trident_hook.testing.workloads import silu

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    def test_under_a_mode():
        x = torch.ones(8)
        for _ in range(3):
            silu(x)
        with Mode():
            for _ in range(4):
                silu(x)
"""


def test_bypasses_are_counted(suite):
    """A suite under a mode is served nothing, and nothing else would say so."""
    suite.makepyfile(BYPASSED)
    result = suite.runpytest_subprocess(*PLUGIN, "--trident-hook")
    result.assert_outcomes(passed=1)
    (line,) = [line for line in result.outlines if line.startswith("trident_hook:")]
    assert line.endswith(" 0 left to Python, 4 bypassed for the thread's state; 0 refusals"), line
