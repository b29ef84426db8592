"""docs/guards.md names every kind of guard that the installed PyTorch has; the code generator knows all of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch._dynamo.guards as dynamo_guards
from torch._C._dynamo import guards as native

from trident_hook.codegen.guard_code import GuardWriter
from trident_hook.ir.guard import _WATCHED, KINDS

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


def test_every_kind_of_ours_can_be_written():
    assert {kind for kind in KINDS if not hasattr(GuardWriter, f"_{kind}")} == set()
    assert set(KINDS) >= _WATCHED


def test_an_unknown_leaf_is_kept_or_refused():
    """A method that a newer PyTorch might add is recorded under its name, by its prefix."""
    from trident_hook.capture import guard_log

    calls = []
    add = guard_log._wrap_method("add_brand_new_guard", lambda self, *args: calls.append(args))
    with guard_log.recording() as log:
        manager = object()
        add(manager, 1, ["text"])
    assert calls == [(1, ["text"])]
    assert log.node_of(manager).leaves == [("brand_new", (1, ["text"]))]
