"""Puts the conditions of a run into pytest-benchmark's JSON."""

from __future__ import annotations


def pytest_benchmark_update_machine_info(config, machine_info) -> None:
    from benchmarks.device import conditions

    machine_info["trident_hook"] = conditions()
    machine_info.pop("node", None)  # the name of a machine is nobody's business
