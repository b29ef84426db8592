"""docs/guards.md names every kind of guard that the installed PyTorch has; the code generator knows all of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch._dynamo.guards as dynamo_guards
from torch._C._dynamo import guards as native

from trident_hook.codegen import step_code
from trident_hook.codegen.guard_code import GuardWriter
from trident_hook.ir.guard import _WATCHED, KINDS

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


def test_every_kind_of_ours_can_be_written():
    """What is watched as steps, the rest (and what is read through an argument) as statements. The default device is a
    global of PyTorch's, so it is always watched, and `env_distinct` is of what is; `not_of_env` is written apart."""
    assert {kind for kind in KINDS if not hasattr(GuardWriter, f"_{kind}")} == {
        "default_device", "env_distinct", "not_of_env"}  # fmt: skip
    assert set(KINDS) >= _WATCHED == step_code.KINDS


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
