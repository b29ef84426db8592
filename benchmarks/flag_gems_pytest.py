"""A pytest plugin for FlagGems' own tests: short tuning, beside what benchmarks/library_pytest.py does for any library's.

Used by benchmarks/flag_gems_tests.py, which sets the variables. FlagGems is imported here, before its tests' own
conftest.py asks for it, so that each process has tuning results and generated code of its own."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest

CONFIGS, DEVICES = "FLAG_GEMS_TESTS_CONFIGS", "FLAG_GEMS_TESTS_DEVICES"


def _import_flag_gems():
    home = Path(tempfile.mkdtemp(prefix="flag-gems-tests-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ["FLAGGEMS_CACHE_DIR"] = str(home)
    os.environ["FLAGGEMS_DB_URL"] = f"sqlite:///{home}/tuning.db"
    devices = int(os.environ.get(DEVICES, "1"))
    if devices > 1:  # each process sees one of them: the library is used as on a machine with one
        os.environ["CUDA_VISIBLE_DEVICES"] = str(int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % devices)
    from benchmarks.device import simulated
    from benchmarks.flag_gems_ops import load

    flag_gems = load(int(os.environ.get(CONFIGS, "0")) or None)
    if simulated():
        from benchmarks.flag_gems_sim import use_cpu_tensors

        use_cpu_tensors(flag_gems)
    return flag_gems


_import_flag_gems()


def pytest_sessionstart(session: pytest.Session) -> None:
    """The library's conftest.py keeps outcomes of tests that this process ran; those that xdist's workers ran are new to it."""
    for plugin in session.config.pluginmanager.get_plugins():
        if isinstance(getattr(plugin, "test_results", None), dict):
            plugin.test_results = defaultdict(dict)
