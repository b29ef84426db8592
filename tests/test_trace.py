"""benchmarks.trace in a process of its own: a trace file that viewers open, and its picture."""

from __future__ import annotations

import json

import pytest
import torch
from support import processes

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.slow


def test_one_warm_call_in_both_ways(tmp_path):
    settings = {"TRIDENT_HOOK_CACHE_DIR": str(tmp_path / "modules")}
    out, _ = processes.run("-m", "benchmarks.trace", "--rounds", "1", "--out", str(tmp_path), **settings)
    path = tmp_path / "trace_rms_norm.json"
    assert path.stat().st_size < 1 << 20
    result = json.loads(path.read_text())
    about = result["otherData"]
    compiled, ours = about["ways"].values()
    for way in (compiled, ours):
        call = way["events"][0]
        assert (call["name"], call["ts"]) == ("call", 0)
        assert sum(span["dur"] for span in way["parts"]) == pytest.approx(call["dur"], abs=0.01)
    assert "guards" in [span["name"] for span in compiled["parts"]]
    assert "guards, recipes, outputs" in [span["name"] for span in ours["parts"]]
    assert ours["unprofiled_us"]["route"] == "scm", "each call that was timed was a hit"
    on_gpu = torch.cuda.is_available()
    for way in (compiled, ours):
        assert ("launch" in [span["name"] for span in way["parts"]]) == on_gpu
        assert ("kernel" in [event["cat"] for event in way["events"]]) == on_gpu
    assert on_gpu or "simulated driver: no launches in the trace" in out
    # What a viewer needs: complete events of two processes, both named, all within the calls.
    complete = [line for line in result["traceEvents"] if line["ph"] == "X"]
    assert {line["pid"] for line in complete} == {1, 2}
    names = {line["pid"]: line["args"]["name"] for line in result["traceEvents"] if line["name"] == "process_name"}
    assert names == dict(enumerate(about["ways"], 1))
    assert all(line["ts"] >= 0 and line["dur"] >= 0 for line in complete)
    assert "<svg" in (tmp_path / "trace_rms_norm.svg").read_text()[:2000]
