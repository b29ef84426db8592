"""Which device a measurement runs on, and under what conditions: the part of every result that is not a number."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from contextlib import contextmanager
from functools import cache

import torch


@cache
def use_device() -> str:
    """'cuda' where there is a GPU; otherwise the simulated driver is installed and tensors live on 'cpu'."""
    if torch.cuda.is_available():
        return "cuda"
    from trident_hook.testing import simdriver

    simdriver.install()
    return "cpu"


def simulated() -> bool:
    return use_device() == "cpu"


@contextmanager
def without_interpretation():
    """Launches are neither executed nor recorded while this context lasts. On a GPU it does nothing."""
    if not simulated():
        yield
        return
    from trident_hook.testing import simdriver

    with simdriver.no_interpret(), simdriver.record(False):
        yield


def synchronize() -> None:
    """torch.cuda.synchronize without its Python wrapper: a dozen frames of 2 us in all, which are no part of any rival, and
    which cost more while an eval-frame hook is installed (benchmarks.interference is about that)."""
    if not simulated():
        torch._C._cuda_synchronize()


def conditions() -> dict[str, object]:
    import triton

    import trident_hook

    found: dict[str, object] = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "device": "simulated driver (no GPU): host times only" if simulated() else torch.cuda.get_device_name(),
        "driver": None if simulated() else _driver_version(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "trident_hook": getattr(trident_hook, "__version__", None),
        "commit": _commit(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
    }
    if not simulated():
        found["sm_clock_mhz"] = _nvidia_smi("clocks.sm")
    return found


def _nvidia_smi(field: str) -> str | None:
    try:
        line = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits", "--id=0"]
        return subprocess.run(line, capture_output=True, text=True, timeout=20).stdout.strip() or None
    except (OSError, subprocess.TimeoutExpired):
        return None


def _driver_version() -> str | None:
    return _nvidia_smi("driver_version")


def _commit() -> str | None:
    try:
        line = ["git", "-C", os.path.dirname(__file__), "describe", "--always", "--dirty"]
        return subprocess.run(line, capture_output=True, text=True, timeout=20).stdout.strip() or None
    except (OSError, subprocess.TimeoutExpired):
        return None


def _cpu_name() -> str | None:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)
    except OSError:
        return None
