"""What is left behind in a process: nothing but what docs/footprint.md names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support import processes

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def seen() -> dict:
    process = processes.start(str(HERE / "pictures.py"))
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def documented() -> set[str]:
    text = (HERE.parent.parent / "docs" / "footprint.md").read_text()
    return set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))


def test_the_pictures_show_something(seen):
    assert seen["attributes"] > 50_000
    assert "torch._dynamo.convert_frame.FRAME_COUNTER" in seen["everybody's"]


def test_importing_changes_nothing_of_pytorch(seen):
    assert seen["stages"]["import"] == ["atexit handlers"]


@pytest.mark.parametrize("stage", ["enable", "calls", "disable"])
def test_only_what_is_documented_differs(seen, stage):
    assert set(seen["stages"][stage]) <= documented()


def test_all_that_is_documented_is_seen(seen):
    assert documented() == set().union(*seen["stages"].values())
