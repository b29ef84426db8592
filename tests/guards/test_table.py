"""docs/guards.md names every kind of guard that the installed PyTorch has. What becomes of ours: codegen/test_kind_tables.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch._dynamo.guards as dynamo_guards
from torch._C._dynamo import guards as native

from . import test_kinds, test_pairs, test_saved_tensor_hooks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guards.md"


def named() -> set[str]:
    return set(re.findall(r"`([^`]+)`", PAGE.read_text()))


def builder_methods() -> set[str]:
    return {name for name in vars(dynamo_guards.GuardBuilder) if name.isupper() and not name.startswith("_")}


def leaf_classes() -> set[str]:
    return {
        name for name, value in vars(native).items() if isinstance(value, type) and issubclass(value, native.LeafGuard)
    }


def accessors() -> set[str]:
    classes = {n for n, v in vars(native).items() if isinstance(v, type) and issubclass(v, native.GuardAccessor)}
    return {re.sub(r"(Guard)?Accessor$", "", name) for name in classes} - {""}


@pytest.mark.parametrize("installed", [builder_methods, leaf_classes, accessors])
def test_the_page_names_all(installed):
    missing = installed() - named()
    assert not missing, f"docs/guards.md does not say what becomes of {sorted(missing)}"


def rows(heading: str) -> list[dict[str, str]]:
    """The table below a heading of the page: one dict per row, by the names of its columns."""
    section = PAGE.read_text().split(f"## {heading}\n", 1)[1].split("\n## ")[0]
    lines = [line.strip().strip("|").split(" | ") for line in section.splitlines() if line.startswith("|")]
    columns = [cell.strip() for cell in lines[0]]
    return [dict(zip(columns, map(str.strip, line), strict=True)) for line in lines[2:]]


def in_backticks(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


@pytest.mark.parametrize(("heading", "column", "installed"), [
    ("`GuardBuilder` methods", "method", builder_methods), ("C++ leaf classes", "leaf", leaf_classes),
])  # fmt: skip
def test_each_kind_has_a_row_of_its_own(heading, column, installed):
    listed = [name for row in rows(heading) for name in in_backticks(row[column])]
    assert len(listed) == len(set(listed)), "two rows for one kind"
    assert installed() - set(listed) <= {"RelationalGuard", "LeafGuard"}


def test_each_method_has_a_class_a_way_a_cost_and_a_test():
    from judges import corpus  # noqa: F401
    from judges.places import SUBJECTS

    tests = {re.split(":", name)[0] for name in (*test_pairs.PAIRS, *test_pairs.CHANGES)}
    modules = (test_pairs, test_kinds, test_saved_tensor_hooks)
    tests |= {n.removeprefix("test_") for module in modules for n in vars(module) if n[:5] == "test_"}
    tests |= {subject.name for subject in SUBJECTS}
    for row in rows("`GuardBuilder` methods"):
        assert set(re.findall("[a-z]+", row["class"])) & {"input", "state", "environment"}, row
        assert any(way in row["here"] for way in ("native", "watched", "residual", "state", "refused", "as `")), row
        assert row["cost of a hit"], row
        named = in_backticks(row["test"])
        assert named, row
        assert named <= tests, f"{row['method']}: no test is called {sorted(named - tests)}"


def test_an_unknown_leaf_is_kept_or_refused():
    """A method that a newer PyTorch might add is recorded under its name, by its prefix."""
    from trident_hook.dynamo.patches import guard_recording

    calls = []
    add = guard_recording._wrap_method("add_brand_new_guard", lambda self, *args: calls.append(args))
    with guard_recording.recording() as log:
        manager = object()
        add(manager, 1, ["text"])
    assert calls == [(1, ["text"])]
    assert log.node_of(manager).leaves == [("brand_new", (1, ["text"]))]
