"""Opcodes differ between CPythons: the same source must give the same recipe on every one that is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def interpreter(minor: str) -> str:
    if sys.version.startswith(minor + "."):
        return sys.executable
    found = subprocess.run(["bash", str(ROOT / "scripts/find_python.sh"), minor], capture_output=True, text=True)
    return found.stdout.strip() or pytest.skip(f"no CPython {minor} on this machine")


@pytest.mark.parametrize("minor", ["3.11", "3.12", "3.13"])
def test_plain_bytecode(minor):
    script = Path(__file__).with_name("plain_bytecode.py")
    done = subprocess.run([interpreter(minor), "-B", str(script), str(ROOT)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"on {minor}." in done.stdout
