"""The project's own files agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_dev_extra_and_dev_group_are_the_same():
    assert PROJECT["project"]["optional-dependencies"]["dev"] == PROJECT["dependency-groups"]["dev"]


def test_reference_environment_has_the_pinned_tools():
    reference = (ROOT / "requirements" / "reference.txt").read_text().splitlines()
    pins = [pin for pin in PROJECT["dependency-groups"]["dev"] if "==" in pin]
    assert pins
    assert [pin for pin in pins if pin not in reference] == []


def test_reference_environment_has_every_dependency():
    reference = (ROOT / "requirements" / "reference.txt").read_text().lower()
    for dependency in PROJECT["project"]["dependencies"]:
        name = re.match(r"[\w-]+", dependency).group().lower()
        assert re.search(rf"^{re.escape(name)}==", reference, re.MULTILINE), name
