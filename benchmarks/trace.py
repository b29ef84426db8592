"""One warm call of rms_norm under torch.compile and under ours, as the PyTorch profiler sees them, on one time axis.

python -m benchmarks.trace --out benchmarks/results/latest

Writes OUT/trace_rms_norm.json, which chrome://tracing and ui.perfetto.dev open (two processes: one a way, both from 0), and
its picture beside it. Of 40 recorded calls the one with the median duration is kept. Recording costs time itself, in every
event: an empty range is measured too, and the file has the medians of calls without a profiler. Without a GPU there are no
launches to see, torch.compile has its `eager` backend, and the file says so."""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
from pathlib import Path

import torch

import trident_hook
from benchmarks import rivals, timing
from benchmarks.device import conditions, simulated, synchronize, use_device, without_interpretation

CALL = "call"  # the range around every recorded call
OURS = "trident_hook: "  # what profiling.ranges() begins its names with
GUARDS = "TorchDynamo Cache Lookup"
_RECORDED, _SKIPPED = 40, 10


def _is_launch(event: dict) -> bool:
    return event.get("cat") in ("cuda_runtime", "cuda_driver") and "Launch" in event["name"]


def record(rival: rivals.Rival, args: tuple, stacks: bool) -> tuple[list[dict], float]:
    """The profiler's events of the calls of one warm rival, and an empty range's median microseconds. Its route is
    asserted."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if not simulated():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with rival.scope(), without_interpretation():
        timing.warm(rival, args)
        for measured in (False, True):  # the first profile of a process sets the device's tracing up
            rival.begin_route()
            with torch.profiler.profile(activities=activities, with_stack=stacks) as profile:
                for _ in range(_RECORDED):
                    synchronize()
                    with torch.profiler.record_function(CALL):
                        result = rival.call(*args)
                    synchronize()
                    del result
                for _ in range(_RECORDED):
                    with torch.profiler.record_function("empty"):
                        pass
            if measured:
                rival.assert_route(_RECORDED)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("ph") == "X"]
    empty = statistics.median(e["dur"] for e in events if e["name"] == "empty" and e.get("cat") == "user_annotation")
    return events, round(empty, 3)


def one_call(events: list[dict]) -> list[dict]:
    """Events of the call with the median duration, the call itself first, its device work last; times from its begin."""
    calls = [e for e in events if e["name"] == CALL and e.get("cat") == "user_annotation"]
    ordered = sorted(calls[_SKIPPED:] or calls, key=lambda e: e["dur"])
    call = ordered[len(ordered) // 2]
    begin, end = call["ts"], call["ts"] + call["dur"]
    host = [e for e in events if e.get("tid") == call["tid"] and begin <= e["ts"] and e["ts"] + e["dur"] <= end]
    launched = {e["args"]["correlation"] for e in host if _is_launch(e) and "correlation" in e.get("args", {})}
    device = [e for e in events if e.get("cat") == "kernel" and e.get("args", {}).get("correlation") in launched]
    host.sort(key=lambda e: (e["ts"], -e["dur"]))
    kept = [call, *(e for e in host if e is not call), *sorted(device, key=lambda e: e["ts"])]
    return [
        {"name": e["name"], "cat": e.get("cat", ""), "ts": round(e["ts"] - begin, 3), "dur": round(e["dur"], 3)}
        for e in kept
    ]


def parts(events: list[dict]) -> list[dict]:
    """The call's host time without gaps: what it is spent on, one span after the other.

    `guards` are Dynamo's, whose look-up has a range of its own. Ours has one range: before its launch it checks its
    guards, runs its recipes and allocates; after it, it builds what is returned."""
    call, end = events[0], events[0]["dur"]
    launches = [e for e in events if _is_launch(e)]
    guards = next((e for e in events if e["name"] == GUARDS), None)
    ours = next((e for e in events if e["name"].startswith(OURS)), None)
    edges = [(call["ts"], "enter")]
    if guards is not None:
        edges += [(guards["ts"], "guards"), (guards["ts"] + guards["dur"], "wrapper")]
    if ours is not None:
        edges += [(ours["ts"], "guards, recipes, outputs")]
    for launch in launches:
        edges += [(launch["ts"], "launch"), (launch["ts"] + launch["dur"], "wrapper" if ours is None else "return")]
    if ours is not None:
        edges += [(ours["ts"] + ours["dur"], "leave")]
    edges.sort(key=lambda edge: edge[0])
    stops = [*(start for start, _ in edges[1:]), end]
    spans = [
        {"name": name, "ts": start, "dur": round(stop - start, 3)}
        for (start, name), stop in zip(edges, stops, strict=True)
    ]
    return [span for span in spans if span["dur"] > 0]


def chrome_events(pid: int, name: str, way: dict) -> list[dict]:
    """A process of the trace: its parts, its ranges, its kernels."""
    lines = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}]
    for tid, label in enumerate(("parts", "host", "device")):
        lines.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": label}})
    for span in way["parts"]:
        lines.append({"ph": "X", "pid": pid, "tid": 0, "cat": "parts", **span})
    for event in way["events"]:
        lines.append({"ph": "X", "pid": pid, "tid": 2 if event["cat"] == "kernel" else 1, **event})
    return lines


def run(stacks: bool, rounds: int) -> dict:
    use_device()
    trident_hook.config.build = "sync"
    work = rivals.workloads()[0]
    ways: dict[str, dict] = {}
    contestants = [rivals.compiled(work), rivals.call_door(work)]
    with without_interpretation():
        medians = timing.measure(contestants, work.args, rounds, 50)
    with _named_ranges():
        for rival in contestants:
            recorded, empty = record(rival, work.args, stacks)
            events = one_call(recorded)
            ways[rival.name] = {"events": events, "parts": parts(events), "empty_range_us": empty, "note": rival.note,
                                "unprofiled_us": medians[rival.name]}  # fmt: skip
    lines = [line for pid, (name, way) in enumerate(ways.items(), 1) for line in chrome_events(pid, name, way)]
    about = {"kind": "trace", "name": work.name, "shape": work.shape, "ways": ways, "conditions": conditions()}
    if simulated():
        about["conditions"]["note"] = (
            "simulated driver: no launches in the trace, nothing here says anything about a GPU"
        )
    return {"traceEvents": lines, "displayTimeUnit": "ns", "otherData": about}


@contextlib.contextmanager
def _named_ranges():
    trident_hook.profiling.ranges()
    try:
        yield
    finally:
        trident_hook.profiling.ranges(False)


def table(about: dict) -> str:
    """Microseconds of each part, recorded; and of whole calls without a profiler."""
    names = list(dict.fromkeys(span["name"] for way in about["ways"].values() for span in way["parts"]))
    lines = [f"| `{about['name']}`, {about['shape']}: one warm call, us | {' | '.join(about['ways'])} |",
             f"| --- | {' | '.join('---:' for _ in about['ways'])} |"]  # fmt: skip
    for name in names:
        sums = [sum(s["dur"] for s in way["parts"] if s["name"] == name) for way in about["ways"].values()]
        lines.append(f"| {name} | {' | '.join(f'{us:.1f}' if us else '' for us in sums)} |")
    rows = {
        "the call, recorded": [way["events"][0]["dur"] for way in about["ways"].values()],
        "of that the range around it": [way["empty_range_us"] for way in about["ways"].values()],
        "host, not recorded, median": [way["unprofiled_us"]["host_us"]["median"] for way in about["ways"].values()],
        "end to end, not recorded, median": [
            way["unprofiled_us"]["e2e_us"]["median"] for way in about["ways"].values()
        ],
    }
    lines += [f"| {name} | {' | '.join(f'{us:.1f}' for us in values)} |" for name, values in rows.items()]
    notes = [f"{name}: {way['note']}." for name, way in about["ways"].items() if way["note"]]
    notes += [about["conditions"]["note"] + "."] if about["conditions"].get("note") else []
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest"))
    parser.add_argument("--rounds", type=int, default=4, help="of 50 calls without a profiler")
    parser.add_argument(
        "--stacks", action="store_true", help="Python functions too; recording them takes most of the time"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    result = run(options.stacks, options.rounds)
    target = options.out / f"trace_{result['otherData']['name']}.json"
    target.write_text(json.dumps(result) + "\n")
    print(table(result["otherData"]))
    from benchmarks.figures import draw_trace

    print(f"{target}, {draw_trace(result, options.out)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
