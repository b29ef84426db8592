"""The table of Dynamo's names: each row finds something here, and a version finds the row that holds for it."""

from __future__ import annotations

import inspect
import types

import pytest

from trident_hook.dynamo import names
from trident_hook.dynamo.patches.registry import Changes

TABLE = names.table()


@pytest.mark.parametrize("name", TABLE["classes and functions"])
def test_classes_and_functions_are_found(name):
    found = getattr(names, name)
    assert inspect.isclass(found) or callable(found)
    assert found.__name__ == name


@pytest.mark.parametrize("name", TABLE["modules"])
def test_modules_are_found(name):
    assert isinstance(getattr(names, name), types.ModuleType)


@pytest.mark.parametrize("meaning", TABLE["methods"])
def test_methods_are_found(meaning):
    name = names.method(meaning)
    owners = (names.VariableTracker, names.ConstDictVariable, names.AutogradFunctionVariable)
    assert name is None or any(callable(getattr(owner, name, None)) for owner in owners)


@pytest.mark.parametrize(
    ("version", "module"),
    [((2, 11, 0), "variables.dicts"), ((2, 12, 1), "variables.sets"), ((2, 15, 0), "variables.sets")],
)
def test_a_version_finds_its_row(version, module):
    assert names.where("SetVariable", version) == module


def test_a_meaning_has_the_name_of_its_version(monkeypatch):
    monkeypatch.setattr(names._compat, "torch_version", lambda: (2, 14, 1))
    assert names.method("reads an attribute") == "tp_getattro_impl"
    assert names.method("is subscripted") == "mp_subscript_impl"
    monkeypatch.setattr(names._compat, "torch_version", lambda: (2, 11, 0))
    assert names.method("reads an attribute") == "var_getattr"
    assert names.method("is subscripted") is None
    assert names.method("has_new_items") == "has_new_items"


def test_what_is_not_there_is_an_import_error(monkeypatch):
    with pytest.raises(ImportError):
        from trident_hook.dynamo.names import NoSuchVariable  # noqa: F401
    monkeypatch.setitem(names._MOVED, "SetVariable", {(2, 11): "variables.lists"})
    with pytest.raises(ImportError, match="SetVariable"):
        from trident_hook.dynamo.names import SetVariable  # noqa: F401


def test_a_method_that_a_base_class_has_is_changed_in_the_class():
    """As where a class no longer has a method of its own in a newer PyTorch."""

    class Base:
        def call_method(self, tx):
            return "base"

    class Kind(Base):
        pass

    changes = Changes()
    changes.in_front(Kind, "calls a method", lambda self, tx: None)
    changes[0].put()
    try:
        assert "call_method" in vars(Kind)
        assert Kind().call_method(None) == "base"
    finally:
        changes[0].take_back()
    assert "call_method" not in vars(Kind)
