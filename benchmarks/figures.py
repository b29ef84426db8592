"""Draws the newest committed results into docs/benchmarks/: `make figures`.

python -m benchmarks.figures [--results benchmarks/results/<run>] [--out docs/benchmarks]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "trident_hook"  # the same file for the same figures
import matplotlib.pyplot as plt  # noqa: E402 - the backend must be chosen first

OURS, RIVAL, FLOOR = "#1b7f5c", "#8a93a3", "#c9a227"
RESULTS = Path(__file__).parent / "results"


def newest(folder: Path) -> Path:
    runs = sorted(p.parent for p in folder.glob("*/host_latency.json"))
    if not runs:
        raise SystemExit(f"no host_latency.json under {folder}; run scripts/gpu.sh bench there first")
    return runs[-1]


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
    c = conditions
    figure.suptitle(f"{work['name']}: {work['shape']}", fontsize=11)
    text = f"{c['device']}, driver {c.get('driver')}, CPython {c['python']}, torch {c['torch']}, triton {c['triton']}, {c['date']}"
    figure.text(0.01, 0.005, text, fontsize=7, color="#555")
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    target = out / f"{work['name']}.svg"
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)
    return target


def versions(conditions: dict) -> str:
    c = conditions
    return (f"{c['device']}, driver {c.get('driver')}, CPython {c['python']}, torch {c['torch']}, triton {c['triton']}, "
            f"flag-gems {c.get('flag_gems')}, {c['date']}")  # fmt: skip


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
    """How many times faster than FlagGems eager each operator is: the mean of its per-shape ratios."""
    from benchmarks.flag_gems_ops import MODES, tables

    lines = result["summary"]
    modes = [m for m in MODES[1:] if any(f"{m} host mean" in line for line in lines)]
    names = [line["operator"] for line in lines]
    figure, axes = plt.subplots(1, 2, figsize=(11, 0.3 * len(names) + 1.8), sharey=True)
    for axis, clock, title in zip(axes, ("host", "e2e"), ("host", "end to end"), strict=True):
        for place, mode in enumerate(modes):
            values = [line.get(f"{mode} {clock} mean", 0.0) for line in lines]
            at = [y + 0.8 * (place - (len(modes) - 1) / 2) / len(modes) for y in range(len(names))]
            axis.barh(at, values, height=0.8 / len(modes), color=MODE_COLOURS[mode], label=mode)
        axis.axvline(1.0, color="#444", lw=0.8)
        axis.set_title(f"{title}: times faster than FlagGems eager", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(names)), names, fontsize=8)
    axes[0].invert_yaxis()
    axes[1].legend(fontsize=8)
    figure.suptitle("FlagGems operators, five shapes, bf16 and fp32", fontsize=11)
    return save(figure, result["conditions"], out / "flag_gems_operators.svg", tables(result))


def draw_model(result: dict, out: Path) -> Path:
    """Times faster than FlagGems eager, by dataset and mode: end to end, and per token."""
    from benchmarks.models import MODES, table

    lines = {(line["dataset"], line["mode"]): line for line in result["summary"]}
    datasets = list(dict.fromkeys(dataset for dataset, _ in lines))
    modes = [m for m in MODES if any(mode == m for _, mode in lines)]
    figure, axes = plt.subplots(1, 2, figsize=(11, 3.4), sharey=True)
    for axis, metric, title in zip(axes, ("e2e", "tpot"), ("end to end", "time per output token"), strict=True):
        for place, mode in enumerate(modes):
            at = [x + 0.8 * (place - (len(modes) - 1) / 2) / len(modes) for x in range(len(datasets))]
            values = []
            for dataset in datasets:
                mine, gems = lines.get((dataset, mode)), lines.get((dataset, "gems"))
                values.append(gems[metric]["median"] / mine[metric]["median"] if mine and gems else 0.0)
            axis.bar(at, values, width=0.8 / len(modes), color=MODE_COLOURS[mode], label=mode)
        axis.axhline(1.0, color="#444", lw=0.8)
        axis.set_xticks(range(len(datasets)), datasets, fontsize=9)
        axis.set_title(f"{title}: times faster than FlagGems eager", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[1].legend(fontsize=8)
    figure.suptitle(f"{result['model']}, random weights, batch 1", fontsize=11)
    return save(figure, result["conditions"], out / f"models_{result['model']}.svg", table(result))


def newest_files(folder: Path, pattern: str) -> dict[str, Path]:
    """File name -> the one in the newest run that has it."""
    return {path.name: path for path in sorted(folder.glob(f"*/{pattern}"), key=lambda path: path.parent.name)}


def draw_flag_gems(folder: Path, out: Path) -> None:
    for path in newest_files(folder, "flag_gems_ops.json").values():
        result = json.loads(path.read_text())
        if "summary" in result:  # the first run's file has another layout
            print(f"{draw_operators(result, out)} from {path.parent.name}")
    for path in newest_files(folder, "models_*.json").values():
        print(f"{draw_model(json.loads(path.read_text()), out)} from {path.parent.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "docs" / "benchmarks")
    options = parser.parse_args()
    run = options.results or newest(RESULTS)
    data = json.loads((run / "host_latency.json").read_text())
    options.out.mkdir(parents=True, exist_ok=True)
    for work in data["workloads"]:
        print(f"{draw(work, data['conditions'], options.out)} from {run.name}")
    draw_flag_gems(RESULTS if options.results is None else options.results.parent, options.out)


if __name__ == "__main__":
    main()
