"""benchmarks.figures on small result files: every figure, its table, and which run they are taken from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from benchmarks import figures, flag_gems_ops, models, trace

CONDITIONS = {
    "date": "2030-01-02",
    "device": "NVIDIA Testing",
    "driver": "1.2",
    "python": "3.12",
    "torch": "2",
    "triton": "3",
}


def spread(median: float) -> dict:
    return {"median": median, "p10": median * 0.9, "p90": median * 1.2}


def latency() -> dict:
    us = {"eager": 30.0, "torch.compile": 60.0, "trident_hook, call door": 5.0, "floor (C++)": 4.5}
    rows = {name: {"route": name, "host_us": spread(us), "e2e_us": spread(us + 8)} for name, us in us.items()}
    return {
        "kind": "host_latency",
        "conditions": CONDITIONS,
        "workloads": [{"name": "rms_norm", "shape": "x", "rows": rows}],
    }


def operators() -> dict:
    """Two operators at two shapes. By the paper's procedure ours is 8 and 4 times as fast on the host, by medians 10 and 5."""
    rows = []
    for name, factor in (("mm", 8.0), ("sort", 4.0)):
        for index in range(2):
            eager = {clock: {"mean": 80.0, "median": 100.0} for clock in ("host", "e2e")}
            ours = {"host": {"mean": 80.0 / factor, "median": 80.0 / factor}, "e2e": {"mean": 40.0, "median": 50.0}}
            row = {"operator": name, "dtype": "bf16", "shape": f"{index}", "index": index, "route": "scm"}
            rows.append(row | {"eager": eager, "ours": ours | {"equal": True}})
    return {"kind": "flag_gems_ops", "conditions": CONDITIONS | {"flag_gems": "5.0.2"}, "rows": rows}


def model() -> dict:
    rows = []
    for mode, ms in (("native", 10.0), ("gems", 20.0), ("ours", 8.0)):
        line = {"dataset": "gsm8k", "number": 0, "mode": mode, "tokens": [1, 2]}
        rows.append(line | {"ttft": ms, "tpot": ms, "e2e": 2 * ms, "itl": [ms]})
    return {"kind": "models", "model": "tiny", "conditions": CONDITIONS, "rows": rows, "summary": models.summary(rows)}


def event(
    name: str, category: str, begin: float, duration: float, correlation: int | None = None, thread: int = 7
) -> dict:
    args = {} if correlation is None else {"correlation": correlation}
    return {"ph": "X", "name": name, "cat": category, "ts": begin, "dur": duration, "tid": thread, "args": args}


def recorded(duration: float, *inner: dict) -> list[dict]:
    """Three calls at 1000, 2000 and 3000 us, the second of the median duration, with its inner events; and others."""
    calls = [event(trace.CALL, "user_annotation", 1000.0 * (n + 1), duration + n - 1) for n in (0, 1, 2)]
    calls[0]["dur"], calls[1]["dur"] = calls[1]["dur"] - 1, calls[0]["dur"] + 1
    moved = [e | {"ts": e["ts"] + 2000.0} for e in inner]
    strangers = [
        event("kernel of another call", "kernel", 2010.0, 5.0, correlation=99, thread=0),
        event("another thread", "cpu_op", 2001.0, 2.0, thread=8),
        event("before the call", "cpu_op", 1990.0, 2.0),
    ]
    return [*calls, *moved, *strangers]


def compiled_call() -> list[dict]:
    return trace.one_call(recorded(
        60.0,
        event("cuLaunchKernelEx", "cuda_driver", 40.0, 6.0, correlation=5),
        event(trace.GUARDS, "cpu_op", 8.0, 7.0),
        event("Torch-Compiled Region: 0/0", "cpu_op", 16.0, 42.0),
        event("rms_norm_kernel", "kernel", 50.0, 3.0, correlation=5, thread=0),
    ))  # fmt: skip


def our_call() -> list[dict]:
    return trace.one_call(recorded(
        10.0,
        event(trace.OURS + "rms_norm", "user_annotation", 2.0, 6.0),
        event("cuLaunchKernel", "cuda_driver", 4.0, 3.0, correlation=6),
        event("rms_norm_kernel", "kernel", 9.0, 3.0, correlation=6, thread=0),
    ))  # fmt: skip


def traced() -> dict:
    ways = {}
    for name, events in (("torch.compile", compiled_call()), ("trident_hook, call door", our_call())):
        us = {"host_us": spread(events[0]["dur"] - 2), "e2e_us": spread(events[0]["dur"])}
        ways[name] = {
            "events": events,
            "parts": trace.parts(events),
            "empty_range_us": 1.5,
            "note": "",
            "unprofiled_us": us,
        }
    about = {"kind": "trace", "name": "rms_norm", "shape": "x", "ways": ways, "conditions": CONDITIONS}
    return {"traceEvents": [], "otherData": about}


RESULTS = {
    "host_latency.json": latency, "trace_rms_norm.json": traced, "flag_gems_ops.json": operators, "models_tiny.json": model,
}  # fmt: skip


def run_of(folder: Path, *names: str, **conditions: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        result = RESULTS[name]()
        about = result.get("otherData", result)
        about["conditions"] = about["conditions"] | conditions
        (folder / name).write_text(json.dumps(result))
    return folder


def test_each_figure_has_its_table_and_its_conditions(tmp_path):
    run_of(tmp_path / "results" / "2030-01-02", *RESULTS)
    drawn = figures.draw_all(tmp_path / "results", tmp_path / "out")
    assert [p.name for p in drawn] == [
        "rms_norm.svg",
        "trace_rms_norm.svg",
        "flag_gems_operators.svg",
        "models_tiny.svg",
    ]
    page = (tmp_path / "out" / "README.md").read_text()
    for picture in drawn:
        assert "<svg" in picture.read_text()[:2000]
        table = picture.with_suffix(".md").read_text()
        assert table.startswith("NVIDIA Testing, driver 1.2, CPython 3.12, torch 2, triton 3")
        assert "2030-01-02" in table.splitlines()[0]
        assert f"({picture.name})" in page
        assert table.rstrip() in page


def test_operators_by_the_papers_procedure_and_by_medians(tmp_path):
    table = figures.draw_operators(operators(), tmp_path).with_suffix(".md").read_text()
    assert "| mm | 2 of 2 | 2 of 2 | 8.00 (10.00) | 2.00 (2.00) |" in table
    assert "| geometric mean |  |  | 5.66 (7.07) | 2.00 (2.00) |" in table
    assert "| faster than eager |  |  | 2 of 2 (2 of 2) | 2 of 2 (2 of 2) |" in table
    assert flag_gems_ops.overall(flag_gems_ops.summary(operators()["rows"]))["ours host mean"]["faster"] == 2


def test_a_trace_is_one_call_without_what_others_did():
    assert [e["name"] for e in compiled_call()] == [
        "call", trace.GUARDS, "Torch-Compiled Region: 0/0", "cuLaunchKernelEx", "rms_norm_kernel",
    ]  # fmt: skip
    assert compiled_call()[0]["ts"] == 0
    assert [(e["ts"], e["dur"]) for e in our_call()[1:]] == [(2.0, 6.0), (4.0, 3.0), (9.0, 3.0)]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (compiled_call, {"enter": 8.0, "guards": 7.0, "wrapper": 39.0, "launch": 6.0}),
        (our_call, {"enter": 2.0, "guards, recipes, outputs": 2.0, "launch": 3.0, "return": 1.0, "leave": 2.0}),
    ],
)
def test_the_parts_of_a_call_fill_it(events, expected):
    found: dict[str, float] = {}
    for span in trace.parts(events()):
        found[span["name"]] = found.get(span["name"], 0.0) + span["dur"]
    assert found == pytest.approx(expected)
    assert sum(found.values()) == pytest.approx(events()[0]["dur"])


def test_the_newest_run_with_the_file_is_drawn(tmp_path):
    results = tmp_path / "results"
    run_of(results / "2030-01-01", "host_latency.json", "models_tiny.json", date="2030-01-01")
    run_of(results / "2030-01-02", "host_latency.json")
    run_of(results / "2030-01-03", "host_latency.json", device="simulated driver (no GPU): host times only")
    run_of(results / "latest", "host_latency.json", date="2031-01-01")
    drawn = figures.draw_all(results, tmp_path / "out")
    dates = {p.name: p.with_suffix(".md").read_text().splitlines()[0].rpartition(" ")[2] for p in drawn}
    assert dates == {"rms_norm.svg": "2030-01-02.", "models_tiny.svg": "2030-01-01."}
    named = figures.draw_all(results / "2030-01-03", tmp_path / "named")
    assert "simulated" in named[0].with_suffix(".md").read_text(), "a run that is named itself is drawn"


def test_nothing_to_draw(tmp_path, capsys):
    assert figures.draw_all(tmp_path, tmp_path / "out") == []
    assert not (tmp_path / "out" / "README.md").exists()
    assert "no host_latency.json" in capsys.readouterr().err


def test_the_same_results_give_the_same_file(tmp_path):
    first, second = (figures.draw_trace(traced(), run_of(tmp_path / name)).read_bytes() for name in "ab")
    assert first == second
