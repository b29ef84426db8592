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


if __name__ == "__main__":
    main()
