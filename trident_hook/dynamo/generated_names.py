"""Names and objects that Dynamo's generated code refers to, and what they mean to a return recipe."""

from __future__ import annotations

import collections
import functools
import re
import sys
import weakref
from types import MethodType, ModuleType

#: Nested in collections.namedtuple, so every class made there shares it.
_NAMEDTUPLE_MAKE = collections.namedtuple("_Any", "field")._make.__func__.__code__  # type: ignore[attr-defined] # typeshed does not say it


def is_dynamos_global(name: str, value: object) -> bool:
    """Whether Dynamo added this global for its own code. It never rebinds those, and deletes some of them together
    with the cache entry, so the object is taken now."""
    if name.startswith("__import_"):  # OutputGraph.import_source
        return isinstance(value, ModuleType)
    if re.fullmatch(r"__(builtins_dict__|gen_rand_values)_\w+", name):  # OutputGraph.install_global
        return True
    by_id = re.fullmatch(r"\w*_(\d+)_c\d+", name)  # OutputGraph.install_global_by_id
    return by_id is not None and int(by_id[1]) == id(value)


@functools.cache
def helpers(torch: ModuleType | None) -> dict[int, tuple[object, str]]:
    """Callables of Dynamo's own code by id: the object, and what it means to the evaluator of return recipes."""
    if torch is None:
        return {}
    from torch._dynamo import utils

    meanings = {
        "record_pregraph_bytecode_enter": "nothing",
        "record_pregraph_bytecode_exit": "nothing",
        "call_size": "size of",
        "call_stride": "stride of",
        "call_storage_offset": "offset of",
        "tuple_iterator_getitem": "pure",
        "dict_getitem": "pure",
        "dict_keys_getitem": "a key",
        "list_getitem": "pure",
        "set_getitem": "pure",
    }
    found = [(getattr(utils, name), meaning) for name, meaning in meanings.items() if hasattr(utils, name)]
    found += [(torch.Size, "size"), (torch._as_tensor_fullprec, "pure"), (collections.OrderedDict, "ordered dict")]
    return {id(function): (function, meaning) for function, meaning in found}


def item_of_tuple_iterator(iterator: object, index: int) -> object:
    """What a guard of Dynamo's reads of an iterator over a tuple: an item, counted from where it stands."""
    from torch._dynamo.utils import tuple_iterator_getitem

    return tuple_iterator_getitem(iterator, index)


def meaning_of(function: object) -> str | None:
    """What a known callable does. "pure": it returns a value and does nothing else. None: it may do anything."""
    known = helpers(sys.modules.get("torch")).get(id(function))
    if known:
        return known[1]
    if function is iter or function is range or function is slice or type(function) is weakref.ref:
        return "pure"
    if isinstance(function, MethodType) and getattr(function.__func__, "__code__", None) is _NAMEDTUPLE_MAKE:
        # `_make` builds the tuple with tuple.__new__, whatever the class overrides.
        return "pure"
    return None
