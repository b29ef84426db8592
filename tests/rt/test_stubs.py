"""What the stubs of the extension modules tell a type checker is what the modules have."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch  # noqa: F401 - its libraries must be in the process before _rt is loaded

from trident_hook import _core, _rt
from trident_hook.dynamo import names

PACKAGE = Path(_rt.__file__).parent


def said(stub: Path) -> set[str]:
    found = set()
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
    return found


@pytest.mark.parametrize("module", [_core, _rt], ids=lambda module: module.__name__)
def test_a_stub_names_what_its_module_has(module):
    name = module.__name__.rsplit(".", 1)[1]
    assert said(PACKAGE / f"{name}.pyi") == {n for n in vars(module) if not n.startswith("__")}


def test_the_stub_of_dynamos_names_has_the_functions_of_the_module():
    own = {n for n, v in vars(names).items() if callable(v) and getattr(v, "__module__", "") == names.__name__}
    assert said(PACKAGE / "dynamo" / "names.pyi") == own
