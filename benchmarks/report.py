"""Turns result files into the markdown tables of the documentation. Ratios are within one run, never across runs.

python -m benchmarks.report benchmarks/results/*.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def conditions_line(result: dict) -> str:
    found = result["conditions"]
    parts = [str(found.get("device"))]
    for key in ("driver", "python", "torch", "triton", "commit", "date", "samples", "note"):
        if found.get(key):
            value = str(found[key])
            parts.append(value if key in ("date", "samples", "note") else f"{key} {value}")
    return "; ".join(parts) + "."


def latency_tables(result: dict) -> str:
    parts = []
    for work in result["workloads"]:
        rows = work["rows"]
        floor = next((row for name, row in rows.items() if name.startswith("floor")), None)
        lines = []
        for name, row in rows.items():
            cells = [f"{name} {row['note']}".strip() if row.get("note") else name, row["route"]]
            for clock in ("host_us", "e2e_us"):
                mine = row[clock]
                cells.append(f"{mine['median']:.1f} ({mine['p10']:.1f}..{mine['p90']:.1f})")
                cells.append(f"{rows['eager'][clock]['median'] / mine['median']:.2f}x" if "eager" in rows else "")
                cells.append(f"{mine['median'] / floor[clock]['median']:.2f}x" if floor else "")
            lines.append(cells)
        head = [work["name"], "route", "host us (p10..p90)", "faster than eager", "of the floor"]
        parts.append(f"`{work['name']}`: {work['shape']}. Median microseconds per call, device idle before each.")
        parts.append(table([*head, "e2e us (p10..p90)", "faster than eager", "of the floor"], lines))
        for name, why in work.get("left_out", {}).items():
            parts.append(f"Left out: {name}: {why}")
    return "\n\n".join([*parts, conditions_line(result)])


def interference_table(result: dict) -> str:
    lines = []
    for name, row in result["programs"].items():
        cells = [name]
        for variant in result["variants"]:
            cells.append(f"{row[variant]['median_ms']:.2f} ms ({row[variant]['ratio']:.3f}x)")
        lines.append(cells)
    recursion = ", ".join(f"{variant}: {'ok' if fine else 'FAILED'}" for variant, fine in result["recursion"].items())
    head = ["unrelated Python", *result["variants"]]
    return "\n\n".join([table(head, lines), f"Recursion {result['depth']} deep: {recursion}.", conditions_line(result)])


def cold_table(result: dict) -> str:
    lines = [[name, f"{row['median_ms']:.0f}", ", ".join(f"{ms:.0f}" for ms in row["all_ms"])] for name, row in
             result["rows"].items()]  # fmt: skip
    head = ["first call of a new function", "median ms", "repetitions, ms"]
    return "\n\n".join([table(head, lines), conditions_line(result)])


def pytest_benchmark_table(result: dict) -> str:
    groups: dict[str, list[dict]] = {}
    for bench in result["benchmarks"]:
        groups.setdefault(bench.get("group") or "", []).append(bench)
    parts = []
    for group, benches in groups.items():
        medians = {b["extra_info"].get("rival", b["name"]): b["stats"]["median"] * 1e6 for b in benches}
        eager = medians.get("eager")
        floor = next((us for name, us in medians.items() if name.startswith("floor")), None)
        rows = [
            [name, f"{us:.1f}", f"{eager / us:.2f}x" if eager else "", f"{us / floor:.2f}x" if floor else ""]
            for name, us in medians.items()
        ]
        parts.append(table([group, "median us", "faster than eager", "of the floor"], rows))
    info = result.get("machine_info", {})
    conditions = {**info.get("trident_hook", {}), "date": result.get("datetime", "")[:10]}
    return "\n\n".join([*parts, conditions_line({"conditions": conditions})])


KINDS = {"host_latency": latency_tables, "interference": interference_table, "cold": cold_table}


def render(path: Path) -> str:
    result = json.loads(path.read_text())
    if "benchmarks" in result:
        return pytest_benchmark_table(result)
    return KINDS[result["kind"]](result)


def main() -> int:
    if not sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    for name in sys.argv[1:]:
        print(f"## {Path(name).stem}\n\n{render(Path(name))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
