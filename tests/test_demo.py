"""`make demo`'s program: it exits with 0 only if every check of its own held."""

from __future__ import annotations

import re

import pytest
import torch
from support import processes

pytestmark = pytest.mark.slow


def test_the_demo(tmp_path):
    out, err = processes.run("-m", "trident_hook.demo", TRIDENT_HOOK_CACHE_DIR=str(tmp_path))
    lines = out.splitlines()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "simulated CUDA driver"
    assert lines[0].startswith("device: ")
    assert device in lines[0], "the first line says what it ran on"
    assert re.search(r"all \d+ checks held", lines[-1])
    assert "FAILED" not in out
    for name in ("rms_norm", "silu", "masked_fill"):
        rows = [line for line in lines if re.match(rf"  {name}\b.*\d+\.\d+ .*x", line)]
        assert len(rows) == 5, f"eager, torch.compile and three doors: {rows}"
        ours = [row for row in rows if "jit(" in row or "enable()" in row]
        assert len(ours) == 3
        assert all("1000 hits, 0 misses" in row for row in ours), ours
    assert "Traceback" not in err
