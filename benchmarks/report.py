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


def guard_cost_tables(result: dict) -> str:
    rows = [[name, *(f"{row[key]:.0f}" for key in ("median_ns", "p10_ns", "p90_ns"))] for name, row in
            result["rows"].items()]  # fmt: skip
    bars = [[name, f"{bar['value']:.3f}", f"{bar['at_p10']:.3f}", f"{bar['at_most']}",
             "holds" if bar["holds"] else "FAILED"] for name, bar in result["bars"].items()]  # fmt: skip
    env, guards = (", ".join(f"{name}: {number}" for name, number in result[key].items()) for key in
                   ("environment_guards", "guards"))  # fmt: skip
    return "\n\n".join([
        table(["one call", "median ns", "p10", "p90"], rows), table(["bar", "of medians", "of p10", "at most", ""], bars),
        f"Environment guards of the functions, {env}. Guards of {guards}.", conditions_line(result),
    ])  # fmt: skip


def chain_table(result: dict) -> str:
    lines = []
    for name, rows in result["chains"].items():
        cells = [f"{row['wall_us']:.2f} ({row['cpu_us']:.2f})" for row in rows.values()]
        lines.append([name, *cells, f"{rows['ours']['wall_ratio']:.2f}x ({rows['ours']['cpu_ratio']:.2f}x)"])
    head = [
        "eight ATen operators",
        "at:: in C++, us (CPU time)",
        "ours",
        "eager",
        f"of the floor (bar {result['bar']}x)",
    ]
    boxed = result["boxed"]
    note = f"A boxed call of add costs {boxed['overhead_ns']:.0f} ns more than an unboxed one ({boxed['unboxed_add_ns']:.0f} ns)."
    return "\n\n".join([table(head, lines), note, conditions_line(result)])


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


def launch_path_tables(result: dict) -> str:
    def text(mine: dict) -> str:
        return f"{mine['median']:.3f} ({mine['p10']:.3f}..{mine['p90']:.3f})"

    launch, each, matmul = result["launch"], result["per_launch"], result["matmul"]
    rows = [[name, text(row)] for name, row in launch["rows"].items()]
    rows.append([f"difference (bar: {launch['bar_us']})", f"{launch['added_us']:.3f}"])
    calls = [[name, text(row["host_us"])] for name, row in each["calls"].items()]
    calls += [[f"{name}, each further launch", f"{us:.3f}"] for name, us in each["per_launch_us"].items()]
    matmuls = [[name, text(row["host_us"])] for name, row in matmul["rows"].items()]
    matmuls.append([f"eager / ours (bar: {matmul['bar']:g}x)", f"{matmul['ratio']:.2f}x"])
    head = "us (p10..p90)"
    return "\n\n".join([
        table(["one launch, in a C++ loop", head], rows), table(["a call, host", head], calls),
        table([f"autotuned matmul, host: {matmul['shape']}", head], matmuls), conditions_line(result),
    ])  # fmt: skip


KINDS = {
    "host_latency": latency_tables, "interference": interference_table, "cold": cold_table,
    "launch_path": launch_path_tables, "guard_cost": guard_cost_tables, "aten_chain": chain_table,
}  # fmt: skip


def render(path: Path) -> str:
    result = json.loads(path.read_text())
    if "benchmarks" in result:
        return pytest_benchmark_table(result)
    return KINDS[result["kind"]](result)


def publish(result: dict, out: Path) -> None:
    """Writes a result file, with the folders above it, and prints its tables."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(render(out))


def main() -> int:
    if not sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    for name in sys.argv[1:]:
        print(f"## {Path(name).stem}\n\n{render(Path(name))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
