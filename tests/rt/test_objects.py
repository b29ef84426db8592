"""Attribute look-up and dicts, for guards on Python objects."""

from __future__ import annotations

import ctypes as C
import sys
import types

import pytest

from trident_hook import _rt

C.pythonapi.PyCapsule_GetPointer.restype = C.c_void_p
C.pythonapi.PyCapsule_GetPointer.argtypes = [C.py_object, C.c_char_p]
_table = C.pythonapi.PyCapsule_GetPointer(_rt.api, b"trident_hook._rt.api")
_functions = (C.c_void_p * 19).from_address(_table + 8)
_attr_find = C.PYFUNCTYPE(C.c_int, C.py_object, C.py_object, C.POINTER(C.c_void_p))(_functions[15])
_dict_of = C.PYFUNCTYPE(C.c_void_p, C.py_object)(_functions[16])


def attr_find(obj, name):
    found = C.c_void_p()
    code = _attr_find(obj, name, C.byref(found))
    if code != 1:
        assert not found.value
        return code, None
    value = C.cast(found, C.py_object).value
    C.pythonapi.Py_DecRef(C.py_object(value))
    return code, value


def dict_of(obj):
    pointer = _dict_of(obj)
    return None if pointer is None else C.cast(pointer, C.py_object).value


class Thing:
    kind = "class"

    def __init__(self):
        self.size = [1]

    @property
    def broken(self):
        raise ValueError("no")

    @property
    def absent(self):
        raise AttributeError("no")


class Slotted:
    __slots__ = ("size",)


def test_attributes():
    thing = Thing()
    before = sys.getrefcount(thing.size)
    assert attr_find(thing, "size") == (1, [1])
    assert attr_find(thing, "kind") == (1, "class")
    assert attr_find(thing, "nothing") == (0, None)
    assert attr_find(thing, "absent") == (0, None)
    with pytest.raises(ValueError, match="no"):
        _attr_find(thing, "broken", C.byref(C.c_void_p()))
    after = sys.getrefcount(thing.size)  # not in the assert: pytest holds on to what it shows
    assert after == before


def test_dicts():
    thing = Thing()
    assert dict_of(sys) is vars(sys)
    assert dict_of(thing) is vars(thing)
    assert dict_of(thing) == {"size": [1]}
    assert dict_of(Thing)["kind"] == "class"
    assert dict_of(types.SimpleNamespace(a=1)) == {"a": 1}
    assert dict_of(Slotted()) is None
    assert dict_of(1) is None
    assert dict_of("text") is None


def test_dicts_keep_their_references():
    thing = Thing()
    before = sys.getrefcount(vars(thing))
    for _ in range(10):
        dict_of(thing)
    after = sys.getrefcount(vars(thing))
    assert after == before
