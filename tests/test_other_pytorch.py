"""An installation that was built beside another PyTorch says so in one sentence, and is off: `_rt` is not even loaded."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.processes import ROOT, environment

import trident_hook
from trident_hook import _compat

PROGRAM = """
import sys, warnings
warnings.simplefilter("error")
import trident_hook as th, torch

def doubles(x):
    return x * 2

with th.enable():
    served = th.jit(doubles)
    assert served is doubles
    assert served(torch.ones(2)).tolist() == [2.0, 2.0]
    print(th.status())
th.disable()
assert not th.explain(doubles).known and th.counts(doubles)["hits"] == 0
th.report(), th.settle()
assert not hasattr(sys.modules["trident_hook._rt"], "__file__")
"""


@pytest.fixture
def installation(tmp_path):
    """A copy of the package, whose `_rt` no process can load."""
    package = Path(trident_hook.__file__).parent
    copy = tmp_path / "trident_hook"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__", "_rt.*", "_ffi.*"))
    (copy / "_rt.so").write_bytes(b"no module")
    return copy


def run(folder: Path) -> subprocess.CompletedProcess:
    settings = {**environment(), "PYTHONPATH": str(folder.parent)}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=settings, cwd=folder.parent, capture_output=True, text=True, timeout=300
    )


def test_it_is_imported_and_off(installation):
    (installation / "_built_with.txt").write_text("2.9.0+cpu")
    done = run(installation)
    assert done.returncode == 0, done.stderr
    assert f"it was built beside PyTorch 2.9.0+cpu and runs beside {torch.__version__}" in done.stdout


def test_the_same_release_is_loaded(installation):
    (installation / "_built_with.txt").write_text(torch.__version__)
    done = run(installation)
    assert done.returncode != 0
    assert "_rt" in done.stderr


@pytest.mark.parametrize(
    ("built", "running", "is_other"),
    [
        ("2.11.0+cu130", "2.11.0+cpu", False),  # the same release, for another device
        ("2.11.0", "2.11.1", True),
        ("2.11.0", "2.12.1+cu130", True),
    ],
)
def test_releases_are_compared(monkeypatch, tmp_path, built, running, is_other):
    (tmp_path / "_built_with.txt").write_text(built)
    monkeypatch.setattr(_compat, "__file__", str(tmp_path / "_compat.py"))
    monkeypatch.setattr(torch, "__version__", running)
    _compat.other_torch.cache_clear()
    try:
        assert (_compat.other_torch() == built) is is_other
    finally:
        _compat.other_torch.cache_clear()


def test_the_build_says_what_it_was_built_beside():
    built = Path(trident_hook.__file__).with_name("_built_with.txt")
    if not built.exists():
        pytest.skip("the extensions were built before the file was written")
    assert _compat.parse_version(built.read_text()) == _compat.torch_version()
    assert "_built_with.txt" in (ROOT / "setup.py").read_text()
