"""Puts contents back as a record has them: what one run of a call has changed, before the other run begins.

All is looked at before anything is changed. What cannot be put back (a tensor that has got a place in the graph of autograd, an
object of C that keeps its state to itself) is named, and then nothing is touched."""

from __future__ import annotations

import collections
import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch

from . import tensors
from .snapshot import MISSING, Node, Snapshot, base_of

#: Facts of tensors that are put back with their memory.
_OF_THE_MEMORY = ("values", "_version")


class CannotBe(Exception):
    """Something has changed that cannot be put back."""


def put_back(record: Snapshot) -> None:
    """Raises CannotBe, with everything as it was, where the record cannot be had again. Record it with `contents`."""
    todo: list[Callable[[], Any]] = []
    for node in list(record.nodes.values()):
        undo = _UNDO.get(node.kind)
        if undo is not None:
            todo += undo(node)
    for act in todo:
        act()


def _tensor(node: Node) -> list[Callable[[], Any]]:
    tensor, (attributes, grad, grad_fn) = node.value, node.kept
    then, now = dict(node.facts), dict(tensors.facts(tensor))
    changed = [name for name in then if then[name] != now.get(name) and name not in _OF_THE_MEMORY]
    if changed or tensor.grad_fn is not grad_fn:
        raise CannotBe(f"{', '.join(changed) or 'grad_fn'} of a tensor")
    todo: list[Callable[[], Any]] = []
    if then.get("_version") != now.get("_version"):
        todo.append(lambda: torch._C._autograd._unsafe_set_version_counter((tensor,), (then["_version"],)))
    if tensor.is_leaf and tensor.grad is not grad:
        todo.append(lambda: setattr(tensor, "grad", grad))
    return todo + _attributes(tensor, attributes)


def _storage(node: Node) -> list[Callable[[], Any]]:
    kept = node.value
    if kept.storage.nbytes() != kept.size:
        raise CannotBe("the size of a storage")
    if kept.content is None or kept.is_as_it_was():
        return []
    return [lambda: kept.storage.copy_(kept.content)]


def _refill(value: collections.deque, items) -> None:
    value.clear()
    value.extend(items)


def _sequence(node: Node) -> list[Callable[[], Any]]:
    value, (items, attributes) = node.value, node.kept
    if isinstance(value, tuple) or _are_same(list(value), items):
        return _attributes(value, attributes)
    if isinstance(value, collections.deque):
        return [functools.partial(_refill, value, items), *_attributes(value, attributes)]
    return [lambda: list.__setitem__(value, slice(None), items), *_attributes(value, attributes)]


def _mapping(node: Node) -> list[Callable[[], Any]]:
    value, (items, attributes) = node.value, node.kept
    base = base_of(value)
    if _are_same(list(base.keys(value)), list(items)) and _are_same(list(base.values(value)), list(items.values())):
        return _attributes(value, attributes)

    def refill() -> None:
        base.clear(value)
        for key, part in items.items():
            base.__setitem__(value, key, part)

    return [refill, *_attributes(value, attributes)]


def _set(node: Node) -> list[Callable[[], Any]]:
    value, (items, attributes) = node.value, node.kept
    if len(value) == len(items) and {id(item) for item in value} == {id(item) for item in items}:
        return _attributes(value, attributes)
    return [lambda: (set.clear(value), set.update(value, items)), *_attributes(value, attributes)]


def _function(node: Node) -> list[Callable[[], Any]]:
    value, (defaults, kwdefaults, code, attributes, places) = node.value, node.kept
    todo: list[Callable[[], Any]] = []
    for name, kept in (("__defaults__", defaults), ("__kwdefaults__", kwdefaults), ("__code__", code)):
        if getattr(value, name) is not kept:
            todo.append(functools.partial(setattr, value, name, kept))
    for names, name, kept in places:
        if names.get(name, MISSING) is not kept:
            todo.append(functools.partial(_put, names, name, kept))
    return todo + _attributes(value, attributes)


def _cell(node: Node) -> list[Callable[[], Any]]:
    cell, kept = node.value, node.kept
    try:
        now: tuple = (cell.cell_contents,)
    except ValueError:
        now = ()
    if len(now) == len(kept) and all(a is b for a, b in zip(now, kept, strict=True)):
        return []
    return [lambda: setattr(cell, "cell_contents", kept[0]) if kept else delattr(cell, "cell_contents")]


def _class(node: Node) -> list[Callable[[], Any]]:
    cls, kept = node.value, node.kept
    if kept is None:
        return []
    own = {name: part for name, part in vars(cls).items() if name in kept or not name.startswith("_")}
    changed = [name for name in kept if own.get(name, MISSING) is not kept[name]]
    more = [name for name in own if name not in kept]
    return [
        *(lambda name=name: type.__setattr__(cls, name, kept[name]) for name in changed),
        *(lambda name=name: type.__delattr__(cls, name) for name in more),
    ]


def _instance(node: Node) -> list[Callable[[], Any]]:
    return _attributes(node.value, node.kept)


def _array(node: Node) -> list[Callable[[], Any]]:
    if node.value.tobytes() == node.kept.tobytes():
        return []
    return [lambda: node.value.__setitem__(..., node.kept)]


def _generator(node: Node) -> list[Callable[[], Any]]:
    return [lambda: node.value.set_state(node.kept)]


def _attributes(value: Any, kept: dict | None) -> list[Callable[[], Any]]:
    """In `__dict__` and in slots."""
    if kept is None:
        return []
    own = getattr(value, "__dict__", None)
    own = own if isinstance(own, dict) else {}
    now = {name: _read(value, own, name) for name in {*kept, *own}}
    changed = [name for name in kept if now[name] is not kept[name]]
    more = [name for name in own if name not in kept and not str(name).startswith("_dynamo_")]
    order = [name for name in own if name in kept] != [name for name in kept if name in own]
    if not changed and not more and not order:
        return []

    def refill() -> None:
        slots = [name for name in changed if name not in own and not _goes_to_dict(value, name)]
        for name in slots:
            object.__setattr__(value, name, kept[name])
        left = {name: part for name, part in kept.items() if name not in slots and _goes_to_dict(value, name)}
        own.clear()
        own.update(left)

    return [refill]


def _goes_to_dict(value: Any, name: str) -> bool:
    return not any(name in vars(base) and hasattr(vars(base)[name], "__set__") for base in type(value).__mro__)


def _read(value: Any, own: dict, name: str) -> Any:
    if name in own:
        return own[name]
    with contextlib.suppress(AttributeError):
        return object.__getattribute__(value, name) if not _goes_to_dict(value, name) else MISSING
    return MISSING


def _put(names: dict, name: str, value: Any) -> None:
    if value is MISSING:
        names.pop(name, None)
    else:
        names[name] = value


def _are_same(now: list, then: list) -> bool:
    return len(now) == len(then) and all(a is b for a, b in zip(now, then, strict=True))


_UNDO: dict[str, Callable[[Node], list]] = {
    "tensor": _tensor, "storage": _storage, "sequence": _sequence, "mapping": _mapping, "set": _set, "function": _function,
    "cell": _cell, "class": _class, "instance": _instance, "array": _array, "generator": _generator,
}  # fmt: skip
