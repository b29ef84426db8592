"""Draws the newest committed results into docs/benchmarks/: `make figures`.

python -m benchmarks.figures [--results benchmarks/results] [--out docs/benchmarks]

The counterparts of the paper's figures 2 (rms_norm in every mode: host_latency.json), 3 (a warm call's trace:
trace_*.json), 6 (21 operators: flag_gems_ops.json) and 7 (models: models_*.json). Each comes from the newest run that has
its file; a figure that no run has is left out, and said so. Under each is its table; README.md of the folder has them all.
`--results` is a folder of runs or one run. Runs on the simulated driver and `latest` (not committed) count only where they
are named themselves."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "trident_hook"  # the same file for the same figures
import matplotlib.pyplot as plt  # noqa: E402 - the backend must be chosen first

OURS, RIVAL, FLOOR = "#1b7f5c", "#8a93a3", "#c9a227"
RESULTS = Path(__file__).parent / "results"


def colour(name: str) -> str:
    return OURS if name.startswith("trident_hook") else FLOOR if name.startswith("floor") else RIVAL


def draw(work: dict, conditions: dict, out: Path) -> Path:
    """Host and end-to-end medians of one workload, one bar a way of running it, with p10 to p90."""
    rows = work["rows"]
    names = list(rows)
    figure, axes = plt.subplots(1, 2, figsize=(11, 0.42 * len(names) + 1.6), sharey=True)
    for axis, key, title in zip(
        axes, ("host_us", "e2e_us"), ("host: until the call returns", "end to end"), strict=True
    ):
        medians = [rows[n][key]["median"] for n in names]
        spread = [
            [m - rows[n][key]["p10"] for m, n in zip(medians, names, strict=True)],
            [rows[n][key]["p90"] - m for m, n in zip(medians, names, strict=True)],
        ]
        axis.barh(names, medians, color=[colour(n) for n in names], xerr=spread, error_kw={"lw": 0.7, "ecolor": "#444"})
        eager = rows["eager"][key]["median"]
        for y, (name, median) in enumerate(zip(names, medians, strict=True)):
            axis.text(rows[name][key]["p90"], y, f"  {median:.1f} us  ({eager / median:.2f}x)", va="center", fontsize=8)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("us per call, median; lines p10 to p90; (times faster than eager)", fontsize=8)
        axis.set_xlim(0, max(r[key]["p90"] for r in rows.values()) * 1.35)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].invert_yaxis()
    figure.suptitle(f"{work['name']}: {work['shape']}", fontsize=11)
    from benchmarks.report import latency_tables

    alone = {"workloads": [work], "conditions": conditions}
    return save(figure, conditions, out / f"{work['name']}.svg", latency_tables(alone) + "\n")


def versions(conditions: dict) -> str:
    c = conditions
    parts = [c["device"], c.get("driver") and f"driver {c['driver']}", f"CPython {c['python']}", f"torch {c['torch']}",
             f"triton {c['triton']}", c.get("flag_gems") and f"flag-gems {c['flag_gems']}", c["date"]]  # fmt: skip
    return ", ".join(part for part in parts if part)


def save(figure, conditions: dict, target: Path, table: str) -> Path:
    """The figure, and the table that belongs under it."""
    figure.text(0.01, 0.005, versions(conditions), fontsize=7, color="#555")
    figure.tight_layout(rect=(0, 0.02, 1, 0.97))
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)
    target.with_suffix(".md").write_text(f"{versions(conditions)}.\n\n{table}")
    return target


MODE_COLOURS = {"native": "#c9a227", "gems": "#c3c8d1", "compile": RIVAL, "compile-cpp": "#5f6b80", "ours": OURS}


def draw_operators(result: dict, out: Path) -> Path:
    """How many times faster than FlagGems eager each operator is: bars by the paper's procedure, dots by medians."""
    from benchmarks.flag_gems_ops import MODES, summary

    lines = summary(result["rows"])
    modes = [m for m in MODES[1:] if any(f"{m} host mean" in line for line in lines)]
    names = [line["operator"] for line in lines]
    figure, axes = plt.subplots(1, 2, figsize=(11, 0.3 * len(names) + 1.8), sharey=True)
    for axis, clock, title in zip(axes, ("host", "e2e"), ("host", "end to end"), strict=True):
        for place, mode in enumerate(modes):
            at = [y + 0.8 * (place - (len(modes) - 1) / 2) / len(modes) for y in range(len(names))]
            values, medians = ([line.get(f"{mode} {clock} {what}") for line in lines] for what in ("mean", "median"))
            axis.barh(at, [v or 0.0 for v in values], height=0.8 / len(modes), color=MODE_COLOURS[mode], label=mode)
            known = [(median, y) for median, y in zip(medians, at, strict=True) if median]
            axis.plot(*zip(*known, strict=True), "o", ms=2, color="#222")
        axis.axvline(1.0, color="#444", lw=0.8)
        axis.set_title(f"{title}: times faster than FlagGems eager", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(names)), names, fontsize=8)
    axes[0].invert_yaxis()
    axes[1].legend(fontsize=8)
    figure.suptitle(f"{len(names)} FlagGems operators. Bars: the paper's procedure; dots: medians", fontsize=11)
    return save(figure, result["conditions"], out / "flag_gems_operators.svg", operator_table(lines, modes))


def operator_table(lines: list[dict], modes: list[str]) -> str:
    from benchmarks.flag_gems_ops import CLOCKS, overall
    from benchmarks.report import table

    whole, columns = overall(lines), [f"{mode} {clock}" for mode in modes for clock in CLOCKS]
    rows = []
    for line in lines:
        cells = [f"{line[f'{c} mean']:.2f} ({line[f'{c} median']:.2f})" if f"{c} mean" in line else "" for c in columns]
        rows.append([line["operator"], *(f"{line[what]} of {line['cases']}" for what in ("served", "equal")), *cells])
    for name, text in (("geometric mean", "{0[geometric mean]:.2f}"), ("faster than eager", "{0[faster]} of {0[of]}")):
        cells = [" ".join((text.format(whole[f"{c} mean"]), f"({text.format(whole[f'{c} median'])})")) for c in columns]
        rows.append([name, "", "", *cells])
    head = "Times faster than FlagGems eager: the mean of an operator's per-shape ratios, by the paper's procedure (by medians)."
    return f"{head}\n\n{table(['operator', 'served', 'equal', *columns], rows)}\n"


def draw_model(result: dict, out: Path) -> Path:
    """Times faster than FlagGems eager, by dataset and mode: to the first token, per token, end to end."""
    from benchmarks.models import MODES, table

    lines = {(line["dataset"], line["mode"]): line for line in result["summary"]}
    datasets = list(dict.fromkeys(dataset for dataset, _ in lines))
    modes = [m for m in MODES if any(mode == m for _, mode in lines)]
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True)
    titles = {"ttft": "first token (TTFT)", "tpot": "per token (TPOT)", "e2e": "end to end"}
    for axis, (metric, title) in zip(axes, titles.items(), strict=True):
        for place, mode in enumerate(modes):
            at = [x + 0.8 * (place - (len(modes) - 1) / 2) / len(modes) for x in range(len(datasets))]
            values = []
            for dataset in datasets:
                mine, gems = lines.get((dataset, mode)), lines.get((dataset, "gems"))
                values.append(gems[metric]["median"] / mine[metric]["median"] if mine and gems else 0.0)
            axis.bar(at, values, width=0.8 / len(modes), color=MODE_COLOURS[mode], label=mode)
        axis.axhline(1.0, color="#444", lw=0.8)
        axis.set_xticks(range(len(datasets)), datasets, fontsize=9)
        axis.set_title(title, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("times faster than FlagGems eager", fontsize=9)
    axes[-1].legend(fontsize=8)
    figure.suptitle(f"{result['model']}, random weights, batch 1", fontsize=11)
    return save(figure, result["conditions"], out / f"models_{result['model']}.svg", table(result))


PART_COLOURS = {
    "enter": "#c3c8d1", "guards": "#b5543c", "guards, recipes, outputs": OURS, "wrapper": RIVAL, "launch": FLOOR,
    "return": "#7fc4a8", "leave": "#c3c8d1",
}  # fmt: skip
#: Share of the figure's width below which a bar has no room for its name.
_ROOM = 0.05


def draw_trace(result: dict, out: Path) -> Path:
    """One warm call in each way from the same zero: its parts, the profiler's ranges below each other, its kernels."""
    from benchmarks.trace import table

    about = result["otherData"]
    end = max(event["ts"] + event["dur"] for way in about["ways"].values() for event in way["events"])
    figure, axes = plt.subplots(len(about["ways"]), 1, figsize=(11, 5.2), sharex=True)
    for axis, (name, way) in zip(axes, about["ways"].items(), strict=True):
        rows = ["parts", *(f"range {depth + 1}" for depth in range(1 + max(_depths(way["events"]).values()))), "device"]
        for span in way["parts"]:
            _bar(axis, 0, span, end, PART_COLOURS[span["name"]])
        depths = _depths(way["events"])
        for number, event in enumerate(way["events"]):
            if event["cat"] == "kernel":
                _bar(axis, len(rows) - 1, event, end, "#4a6fa5")
            else:
                _bar(axis, 1 + depths[number], event, end, "#e4e7ec")
        axis.set_yticks(range(len(rows)), ["parts", *("" for _ in rows[2:]), "device"], fontsize=8)
        axis.tick_params(axis="y", length=0)
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.set_xlim(0, end * 1.02)
        axis.set_title(f"{name}: {way['events'][0]['dur']:.1f} us recorded, {way['unprofiled_us']['host_us']['median']:.1f} us "
                       "without a profiler (median)", fontsize=10, loc="left")  # fmt: skip
        axis.spines[["top", "right", "left"]].set_visible(False)
    axes[-1].set_xlabel("us since the call's begin", fontsize=8)
    used = list(dict.fromkeys(span["name"] for way in about["ways"].values() for span in way["parts"]))
    patches = [plt.Rectangle((0, 0), 1, 1, color=PART_COLOURS[part]) for part in used]
    axes[-1].legend(patches, used, fontsize=8, loc="center right")
    figure.suptitle(f"A warm call of {about['name']}, {about['shape']}", fontsize=11)
    return save(figure, about["conditions"], out / f"trace_{about['name']}.svg", table(about))


def _depths(events: list[dict]) -> dict[int, int]:
    """Number of a host event -> how many others it lies in. They come in the order of their begin, the longer one first."""
    depths, open_ends = {}, []
    for number, event in enumerate(events):
        if event["cat"] == "kernel":
            continue
        while open_ends and open_ends[-1] <= event["ts"]:
            open_ends.pop()
        depths[number] = len(open_ends)
        open_ends.append(event["ts"] + event["dur"])
    return depths


def _bar(axis, row: int, event: dict, end: float, colour: str) -> None:
    axis.broken_barh([(event["ts"], event["dur"])], (row - 0.4, 0.8), facecolors=colour, edgecolor="white", lw=0.5)
    room = int(event["dur"] / end * 130)  # characters
    if event["dur"] > _ROOM * end:
        name = event["name"] if len(event["name"]) <= room else event["name"][: max(1, room - 2)] + ".."
        axis.text(event["ts"] + event["dur"] / 2, row, name, ha="center", va="center", fontsize=6.5, clip_on=True)


def newest_files(folder: Path, pattern: str) -> list[Path]:
    """Of each file name the one in the newest run that has it; `folder` holds runs or is one."""
    own = sorted(folder.glob(pattern))
    if own:
        return own
    found = {}
    for path in sorted(folder.glob(f"*/{pattern}"), key=lambda path: path.parent.name):
        if path.parent.name != "latest" and not _simulated(path):
            found[path.name] = path
    return list(found.values())


def _simulated(path: Path) -> bool:
    text = json.loads(path.read_text())
    conditions = text.get("conditions") or text.get("otherData", {}).get("conditions", {})
    return str(conditions.get("device")).startswith("simulated")


def draw_latency(result: dict, out: Path) -> list[Path]:
    return [draw(work, result["conditions"], out) for work in result["workloads"]]


#: What is drawn from which files, in the order of the paper's figures.
FIGURES = (
    ("A call in every mode", "host_latency.json", draw_latency),
    ("A warm call, traced", "trace_*.json", lambda result, out: [draw_trace(result, out)]),
    # The first run's file has another layout, and a table of its own.
    (
        "FlagGems operators",
        "flag_gems_ops.json",
        lambda result, out: [draw_operators(result, out)] if "rows" in result else [],
    ),
    ("Models", "models_*.json", lambda result, out: [draw_model(result, out)] if result.get("summary") else []),
)


def draw_all(folder: Path, out: Path) -> list[Path]:
    """Every figure that there are results for, its table beside it, and the page of them all."""
    out.mkdir(parents=True, exist_ok=True)
    drawn: list[Path] = []
    page = [
        "# Figures",
        "",
        "Drawn by `make figures` from the newest results of each kind; [how they are measured](../benchmarks.md).",
    ]
    for title, pattern, function in FIGURES:
        made = [
            (target, path)
            for path in newest_files(folder, pattern)
            for target in function(json.loads(path.read_text()), out)
        ]
        if not made:
            print(f"{title}: no {pattern} to draw under {folder}", file=sys.stderr)
            continue
        page += ["", f"## {title}"]
        for target, path in made:
            print(f"{target} from {path.parent.name}/{path.name}")
            page += ["", f"![{target.stem}]({target.name})", "", f"{path.name} of `{path.parent.name}`: "
                     + target.with_suffix(".md").read_text().rstrip()]  # fmt: skip
            drawn.append(target)
    if drawn:
        (out / "README.md").write_text("\n".join(page) + "\n")
    return drawn


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "docs" / "benchmarks")
    options = parser.parse_args()
    return 0 if draw_all(options.results, options.out) else 1


if __name__ == "__main__":
    sys.exit(main())
