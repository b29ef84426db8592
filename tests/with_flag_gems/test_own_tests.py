"""The runner of FlagGems' own tests, on a small stand-in for the library and for its tests: both runs, the comparison."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path

import pytest
import torch

from benchmarks import flag_gems_tests as runner
from benchmarks import flag_gems_tests_merge as merger

ROOT = Path(__file__).resolve().parents[2]

LIBRARY = {
    "__init__.py": "from . import ops, runtime\ndevice = 'cuda'\n__version__ = 'stand-in'\n",
    "runtime.py": "class device:\n    name, dispatch_key = 'cuda', 'CUDA'\n",
    "ops/__init__.py": "from . import where\n",
    "ops/where.py": "def where_self_out(x):\n    return x != 'cpu'\n",
}
CONFTEST = """
    import flag_gems
    results = test_results = {}

    def pytest_addoption(parser):
        parser.addoption("--mode", default="normal", choices=["normal", "quick"])

    def pytest_runtest_protocol(item, nextitem):
        test_results[item.nodeid] = {}

    def pytest_runtest_logreport(report):  # as the library's own: it knows only tests of its process
        test_results[report.nodeid]["result"] = report.outcome
"""
SUITE = """
    import pytest, torch, trident_hook
    from trident_hook.testing.workloads import silu

    @pytest.mark.silu
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
    @pytest.mark.parametrize("n", [8, 64, 128])
    def test_silu(n, dtype):
        x = torch.randn(n).to(dtype)
        torch.testing.assert_close(silu(x), torch.nn.functional.silu(x), atol=1e-3, rtol=1e-3)

    @pytest.mark.neg
    def test_fails_in_both():
        assert torch.randn(()).item() > 9

    @pytest.mark.neg
    def test_fails_with_us():
        assert not trident_hook.status().enabled

    @pytest.mark.neg
    def test_passes_with_us():
        assert trident_hook.status().enabled

    @pytest.mark.neg
    @pytest.mark.skip(reason="so it is")
    def test_skipped():
        pass

    @pytest.mark.neg
    @pytest.mark.xfail(reason="known")
    def test_known():
        assert False

    @pytest.mark.neg
    def test_error(nothing_of_that_name):
        pass

    @pytest.mark.exp
    def test_another_operators():
        pass
"""


@pytest.fixture
def checkout(tmp_path) -> Path:
    for name, text in LIBRARY.items():
        path = tmp_path / "library" / "flag_gems" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    tests = tmp_path / "checkout" / "tests"
    tests.mkdir(parents=True)
    (tests / "__init__.py").write_text("")
    (tests / "conftest.py").write_text(textwrap.dedent(CONFTEST))
    (tests / "test_unary_pointwise_ops.py").write_text(textwrap.dedent(SUITE))
    return tmp_path / "checkout"


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="the stand-in works on the simulated driver")
def test_both_runs_and_every_difference(checkout, tmp_path, monkeypatch, capfd):
    library = str(tmp_path / "library")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([library, *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setenv("TRIDENT_HOOK_CACHE_DIR", str(tmp_path / "modules"))
    out = tmp_path / "out"
    line = [str(checkout), "--out", str(out), "--most", "4", "--jobs", "2", "--ops", "silu", "neg"]
    assert runner.main([*line, "--", "--mode", "quick"]) == 1
    result = json.loads((out / "flag_gems_tests.json").read_text())
    assert result["compared"] == 10, "four of six, and six others"
    assert result["counts"]["without"] == {"passed": 5, "failed": 2, "skipped": 1, "xfailed": 1, "error": 1}
    assert result["counts"]["with"] == result["counts"]["without"], "and yet not the same tests"
    changes = {d["test"].split("::")[1]: (d["without"], d["with"]) for d in result["differences"]}
    assert changes == {"test_fails_with_us": ("passed", "failed"), "test_passes_with_us": ("failed", "passed")}
    # A group is one dtype of one function, in one process: the three calls of its first test end in a hit.
    assert result["tests_with_hits"] == 4
    assert result["calls"]["hits"] >= 4
    assert "2 differences" in capfd.readouterr().out


def entry(outcome: str, **more) -> dict:
    return {"outcome": outcome, "seconds": 0.1, **more}


def runs(without: dict, ours: dict) -> dict:
    return {"without": {"tests": without}, "with": {"tests": ours}}


def test_a_test_that_one_run_lacks_is_no_difference_but_is_named():
    result = runner.compare(
        runs({"a": entry("passed"), "b": entry("failed")}, {"a": entry("passed"), "c": entry("passed")})
    )
    assert result["compared"] == 1
    assert (result["only_without"], result["only_with"], result["differences"]) == (["b"], ["c"], [])


def test_the_reason_of_a_difference_is_that_of_the_run_that_failed():
    result = runner.compare(runs({"a": entry("failed", why="off by one")}, {"a": entry("passed")}))
    assert result["differences"] == [{"test": "a", "without": "failed", "with": "passed", "why": "off by one"}]


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        ([("call", "passed")], "passed"),
        ([("call", "passed"), ("teardown", "failed")], "error"),
        ([("call", "failed"), ("teardown", "failed")], "failed"),
        ([("setup", "failed")], "error"),
        ([("setup", "skipped")], "skipped"),
    ],
)
def test_outcomes_of_phases(tmp_path, lines, outcome):
    path = tmp_path / "outcomes.jsonl"
    path.write_text("".join(json.dumps({"test": "a", "when": w, "outcome": o, "seconds": 0}) + "\n" for w, o in lines))
    assert runner.read(path)["a"]["outcome"] == outcome


# -- several campaigns as one --------------------------------------------------------------------------------------------


def campaign(path: Path, without: dict, ours: dict) -> Path:
    halves = {
        "without": {"tests": without, "seconds": 1.0, "status": 0},
        "with": {"tests": ours, "seconds": 2.0, "status": 0},
    }
    path.write_text(json.dumps({"kind": "flag_gems_tests", "runs": halves, "conditions": {"jobs": 1}}))
    return path


def test_campaigns_are_merged(tmp_path, capsys):
    """The last comparison of a test counts; one half alone is no comparison."""
    hits = {"calls": {"hits": 3}}
    first = campaign(
        tmp_path / "1.json",
        {"f.py::test_a[x::1]": entry("passed"), "f.py::test_b": entry("passed"), "f.py::test_c": entry("skipped")},
        {"f.py::test_a[x::1]": entry("failed"), "f.py::test_d": entry("passed")},
    )
    second = campaign(
        tmp_path / "2.json",
        {"f.py::test_a[x::1]": entry("passed"), "f.py::test_b": entry("passed")},
        {"f.py::test_a[x::1]": entry("passed", **hits), "f.py::test_b": entry("passed")},
    )
    out = tmp_path / "merged.json"
    assert merger.main([str(out), str(first), str(second)]) == 0
    merged = json.loads(out.read_text())
    assert merged["tests"] == {
        "f.py::test_a[x::1]": ["passed", "passed", 3, 0.1, 0.1],
        "f.py::test_b": ["passed", "passed", 0, 0.1, 0.1],
    }
    assert (merged["compared"], merged["tests_with_hits"], merged["differences"]) == (2, 1, [])
    assert merged["tests_alone"] == {"without": {"f.py::test_c": "skipped"}, "with": {"f.py::test_d": "passed"}}
    assert merged["by_function"]["test_a"] == {"compared": 1, "with_hits": 1}
    assert [c["seconds"] for c in merged["campaigns"]] == [{"without": 1.0, "with": 2.0}] * 2
    assert "2 tests compared, 0 differences, 1 with hits" in capsys.readouterr().out
    assert merger.main([str(out), str(second), str(first)]) == 1, "the other way round the last one differs"


@pytest.mark.parametrize("content", ['{"kind": "cold_flag_gems"}', '{"kind": "flag_gems_tests", "runs": {"with": {}}}'])
def test_what_is_no_result_is_not_merged(tmp_path, capsys, content):
    bad = tmp_path / "bad.json"
    bad.write_text(content)
    with pytest.raises(SystemExit):
        merger.main([str(tmp_path / "out.json"), str(bad)])
    assert f"{bad} is no result of benchmarks.flag_gems_tests with both runs" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()
