"""Lays two records of `snapshot` side by side and names the first value that differs, with the words that lead to it.

Objects of one record correspond to objects of the other, one to one: where one side has the same object twice, so must the
other."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from . import tensors
from .snapshot import Node, Snapshot, is_plain, plain_fact

#: Objects that are made anew whenever they are asked for: which one it is means nothing.
_WITHOUT_IDENTITY = ("method", "leaf")


@dataclasses.dataclass(frozen=True)
class Difference:
    """`where` leads to it from a root; `seen` and `expected` are short texts."""

    where: str
    seen: str
    expected: str

    def __str__(self) -> str:
        return f"{self.where}: {self.seen}, expected {self.expected}"


def first_difference(
    seen: Snapshot, expected: Snapshot, *, same_world: set[int] | None = None, leave_out: frozenset[str] = frozenset()
) -> Difference | None:
    """The first that is met from the roots on, breadth first; None if there is none. `same_world`: ids of objects that both
    records have, each of which can only be itself. `leave_out`: names of facts of tensors that are not compared."""
    if list(seen.roots) != list(expected.roots):
        return Difference("names", ", ".join(seen.roots)[:300], ", ".join(expected.roots)[:300])
    there = {key: key for key in same_world or ()}
    back = dict(there)
    level = [(name, seen.roots[name], expected.roots[name]) for name in seen.roots]
    done: set[tuple[int, int]] = set()
    while level:
        following: list[tuple[str, Any, Any]] = []
        for where, mine, other in level:
            found = _compare(where, mine, other, seen, expected, there, back, leave_out)
            if isinstance(found, Difference):
                return found
            pair = (id(mine), id(other))
            if found is not None and pair not in done:
                done.add(pair)
                following += found
        level = following
    return None


def _compare(where: str, mine: Any, other: Any, seen: Snapshot, expected: Snapshot, there: dict, back: dict,
             leave_out: frozenset[str]) -> Difference | list | None:  # fmt: skip
    """A difference, or what is to be compared next."""
    a, b = seen.node(mine), expected.node(other)
    if a is None or b is None:
        if not (is_plain(mine) and is_plain(other)) or plain_fact(mine) != plain_fact(other):
            return Difference(where, text(mine), text(other))
        return None
    if a.kind != b.kind:
        return Difference(where, text(mine), text(other))
    problem = _facts(where, a, b, leave_out)
    if problem is not None:
        return problem
    alone = a.kind in _WITHOUT_IDENTITY or _is_empty_tuple(mine)
    if not alone and (
        there.setdefault(id(mine), id(other)) != id(other) or back.setdefault(id(other), id(mine)) != id(mine)
    ):
        return Difference(where, f"another object ({text(mine)})", f"one that is elsewhere too ({text(other)})")
    if len(a.parts) != len(b.parts):
        return Difference(where, _names(a), _names(b))
    pairs = zip(a.parts, b.parts, strict=True)
    return [(where + words, part, counterpart) for (words, part), (_, counterpart) in pairs]


def _facts(where: str, a: Node, b: Node, leave_out: frozenset[str]) -> Difference | None:
    if a.kind != "tensor":
        return None if a.facts == b.facts else Difference(where, _words(a), _words(b))
    theirs = dict(b.facts)
    for name, value in a.facts:
        if name in leave_out or theirs.get(name) == value:
            continue
        if name == "values":
            return Difference(where, _bits(value), _bits(theirs[name]))
        return Difference(f"{where}.{name}", repr(value), repr(theirs.get(name)))
    return None


def _bits(value: bytes | None) -> str:
    return "no values" if value is None else f"values (as bytes) {value[:32].hex(' ', 4)}"


def _words(node: Node) -> str:
    if node.kind in ("sequence", "mapping", "set"):
        return f"{type(node.value).__name__} of {node.facts}"[:200]
    return f"{node.kind} {node.facts}"[:200]


def _names(node: Node) -> str:
    return f"{node.kind} with {[words for words, _ in node.parts]}"[:200]


def _is_empty_tuple(value: Any) -> bool:
    return type(value) is tuple and not value


def text(value: Any) -> str:
    """A short text for people. Runs no code of the program."""
    if isinstance(value, torch.Tensor):
        return f"{type(value).__name__} {tensors.words(value)}"[:200]
    if is_plain(value):
        return repr(value)[:100]
    if type(value) in (list, tuple, dict, set):
        return f"{type(value).__name__} of {len(value)}"
    return f"{type(value).__name__} object"
