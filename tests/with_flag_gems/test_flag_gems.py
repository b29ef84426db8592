"""The real FlagGems on the simulated driver, where it is installed: in processes of their own, since the library takes
`torch.cuda` as it finds it when it is imported."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("flag_gems") is None, reason="flag-gems is not installed"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU benchmarks.flag_gems_capture covers this"),
    pytest.mark.slow,
]


def run(*line: str, cache: Path) -> str:
    environment = os.environ | {"TRIDENT_HOOK_CACHE_DIR": str(cache), "PYTHONPATH": os.pathsep.join(sys.path[1:])}
    done = subprocess.run(
        [sys.executable, *line], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=170
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("operator", ["add", "where", "mm"])
def test_served_whole_with_the_librarys_answers(operator, tmp_path):
    """Each stands for a way to launch: generated wrappers, those behind a device test, tensor descriptors."""
    line = ["-m", "benchmarks.flag_gems_capture", "--ops", operator, "--dtypes", "bf16", "--shapes", "3"]
    assert "{'served': 3}" in run(*line, cache=tmp_path)


def test_called_by_the_dispatcher(tmp_path):
    assert "all well" in run(str(HERE / "dispatched.py"), cache=tmp_path)
