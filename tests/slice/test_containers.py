"""Containers of the standard library, changed and made in all their ways: each program gives what the plain function gives, and
leaves behind what it leaves, from the first call on. Served or refused: both are right."""

from __future__ import annotations

import collections
import copy
import dataclasses
import itertools
import types
from typing import NamedTuple

import pytest
import torch

import trident_hook

X = torch.arange(4.0)


class Pair(NamedTuple):
    first: object
    second: object = 7


class Named(Pair):
    @property
    def both(self):
        return self.first, self.second

    def with_second(self, second):
        return self._replace(second=second)


Old = collections.namedtuple("Old", "a b c", defaults=(1, 2))


@dataclasses.dataclass
class Point:
    x: object
    y: int = 1
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.sum = self.y + 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: object
    y: int = 1


@dataclasses.dataclass(slots=True)
class Slotted:
    x: object
    y: int = 1


@dataclasses.dataclass(order=True)
class Ordered:
    y: int
    x: object = dataclasses.field(compare=False, default=None)


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


class Table(dict):
    note = "t"


class Row(list):
    pass


def ordered(*keys):
    return collections.OrderedDict((key, i) for i, key in enumerate(keys or "abc"))


def chain_map():
    return collections.ChainMap({"a": 1}, {"a": 2, "b": 3})


def multiplied(x, v):
    w = v
    w *= 2
    return x * len(v), v is w


def lengthened(x, v):
    w = v
    w += [5]
    return x * len(v), v is w


def united(x, v):
    w = v
    w |= {5}
    return x * len(v), v is w


# Programs: (x, *objects) -> anything. Named for what they do.
PROGRAMS = {
    "move_to_end": (lambda x, d: (d.move_to_end("a"), x * 2)[1], lambda: (ordered(),)),
    "move_to_end first": (lambda x, d: (d.move_to_end("c", last=False), x * 2)[1], lambda: (ordered(),)),
    "move_to_end and set": (lambda x, d: (d.move_to_end("a"), d.update(z=5), x * 2)[2], lambda: (ordered(),)),
    "move_to_end by its class": (lambda x, d: (collections.OrderedDict.move_to_end(d, "b"), x * 2)[1], lambda: (ordered(),)),
    "move_to_end missing": (lambda x, d: (d.move_to_end("q"), x * 2)[1], lambda: (ordered(),)),
    "popitem": (lambda x, d: (d.popitem(), x * 2), lambda: (ordered(),)),
    "popitem first": (lambda x, d: (d.popitem(last=False), x * 2), lambda: (ordered(),)),
    "pop and put back": (lambda x, d: (d.update(a=d.pop("a")), x * 2)[1], lambda: (ordered(),)),
    "popitem of a dict": (lambda x, d: (d.popitem(), x * 2), lambda: ({"a": 1, "b": 2},)),
    "delete and set": (lambda x, d: (d.pop("a"), d.__setitem__("a", 3), x * 2)[2], lambda: ({"a": 1, "b": 2},)),
    "clear and set": (lambda x, d: (d.clear(), d.__setitem__("b", 3), x * 2)[2], lambda: ({"a": 1, "b": 2},)),
    "dict union": (lambda x, d: (d | {"c": x}, x * 2), lambda: ({"a": 1, "b": 2},)),
    "dict union of ordered": (lambda x, d: (d | {"c": 3}, x * 2), lambda: (ordered(),)),
    "in-place union": (lambda x, d: (d.__ior__({"c": 3}), x * 2)[1], lambda: ({"a": 1},)),
    "fromkeys": (lambda x, d: (dict.fromkeys(d, 1), x * 2), lambda: ({"b": 1, "a": 2},)),
    "reversed": (lambda x, d: (list(reversed(d)), x * 2), lambda: ({"b": 1, "a": 2},)),
    "sorted items": (lambda x, d: (sorted(d.items()), x * 2), lambda: ({"b": 1, "a": 2},)),
    "setdefault": (lambda x, d: (d.setdefault("c", []).append(1), x * 2)[1], lambda: ({"a": []},)),
    "copy of a dict": (lambda x, d: (d.copy(), x * 2), lambda: (ordered(),)),
    "equal order": (lambda x, d, e: (d == e, x * 2), lambda: (ordered(*"ab"), collections.OrderedDict(b=1, a=0))),
    "default dict": (lambda x, d: (d["n"].append(1), x * 2)[1], lambda: (collections.defaultdict(list),)),
    "default dict of ints": (lambda x, d: (d.__setitem__("n", d["n"] + 1), x * 2)[1], lambda: (collections.defaultdict(int),)),
    "new default dict": (lambda x: collections.defaultdict(list, a=[x * 2]), lambda: ()),
    "default factory": (lambda x, d: (d.default_factory is list, x * 2), lambda: (collections.defaultdict(list),)),
    "copy of a default dict": (lambda x, d: (d.copy(), x * 2), lambda: (collections.defaultdict(int, a=1),)),
    "counter": (lambda x, c: (c.update("abca"), c.most_common(1), x * 2), lambda: (collections.Counter("ab"),)),
    "counter missing": (lambda x, c: (c["zz"], len(c), x * 2), lambda: (collections.Counter("ab"),)),
    "new counter": (lambda x: (collections.Counter("hello"), x * 2), lambda: ()),
    "counter minus": (lambda x, c: (c - collections.Counter("a"), x * 2), lambda: (collections.Counter("aab"),)),
    "chain map": (lambda x, c: (c["a"], c["b"], c.new_child({"b": 9})["b"], x * 2), lambda: (chain_map(),)),
    "dict subclass": (lambda x, d: (d.__setitem__("k", 1), setattr(d, "note", "n"), x * 2)[2], lambda: (Table(a=1),)),
    "new dict subclass": (lambda x: (Table(a=1, b=x * 2)), lambda: ()),
    "list subclass": (lambda x, r: (r.append(1), setattr(r, "note", 3), x * 2)[2], lambda: (Row([1]),)),
    "new list subclass": (lambda x: Row([x * 2, 1]), lambda: ()),
    "deque": (lambda x, d: (d.append(9), d.rotate(1), x * 2)[2], lambda: (collections.deque([1, 2, 3]),)),
    "deque with a length": (lambda x, d: (d.append(9), x * 2)[1], lambda: (collections.deque([1, 2, 3], 3),)),
    "deque from the left": (lambda x, d: (d.appendleft(9), x * 2)[1], lambda: (collections.deque([1, 2, 3], 3),)),
    "deque extended": (lambda x, d: (d.extend([7, 8]), d.extendleft([5, 6]), x * 2)[2], lambda: (collections.deque([1, 2, 3], 4),)),
    "deque rotated": (lambda x, d: (d.rotate(-1), x * 2)[1], lambda: (collections.deque([1, 2, 3]),)),
    "deque reversed": (lambda x, d: (d.reverse(), x * 2)[1], lambda: (collections.deque([1, 2, 3]),)),
    "deque inserted": (lambda x, d: (d.insert(1, 7), x * 2)[1], lambda: (collections.deque([1, 2, 3]),)),
    "new deque": (lambda x: collections.deque([1, 2, 3, x * 2], maxlen=2), lambda: ()),
    "length of a deque": (lambda x, d: (d.maxlen, x * 2), lambda: (collections.deque([1], 5),)),
    "replace": (lambda x, p: p._replace(second=x * 2), lambda: (Pair(1, 2),)),
    "replace nothing": (lambda x, p: (p._replace(), x * 2), lambda: (Pair(1, 2),)),
    "replace of a subclass": (lambda x, p: p._replace(first=x * 2), lambda: (Named(1, 2),)),
    "replace in a method": (lambda x, p: p.with_second(x * 2).both, lambda: (Named(1, 2),)),
    "replace unknown": (lambda x, p: (p._replace(third=1), x * 2), lambda: (Pair(1, 2),)),
    "replace of an old one": (lambda x, p: p._replace(b=x * 2), lambda: (Old(5),)),
    "new named tuple": (lambda x: (Pair(x * 2), Old(x), Named(x, 3).both), lambda: ()),
    "make": (lambda x: (Pair._make([x * 2, 5]), Old._make((1, 2, x))), lambda: ()),
    "asdict": (lambda x, p: (p._asdict(), x * 2), lambda: (Pair(1, 2),)),
    "fields": (lambda x, p: (p._fields, p._field_defaults, x * 2), lambda: (Pair(1, 2),)),
    "index of a tuple": (lambda x, p: (p.index(2), p.count(1), x * 2), lambda: (Pair(1, 2),)),
    "slice of a named tuple": (lambda x, p: (p[:1], p + (3,), p * 2, x * 2), lambda: (Pair(1, 2),)),
    "shape": (lambda x: (x.shape + (1,), x.shape[:1], tuple(x.shape), x.stride(), x * 2), lambda: ()),
    "dataclass": (lambda x: (lambda p: (p.tags.append(2), p)[1])(Point(x * 2)), lambda: ()),
    "dataclass replaced": (lambda x, p: dataclasses.replace(p, x=x * 2), lambda: (Point(1, 4, [3]),)),
    "dataclass as a dict": (lambda x, p: (dataclasses.asdict(p), x * 2), lambda: (Point(1, 4, [3]),)),
    "dataclass as a tuple": (lambda x, p: (dataclasses.astuple(p), x * 2), lambda: (Point(1, 4, [3]),)),
    "fields of a dataclass": (lambda x, p: ([f.name for f in dataclasses.fields(p)], x * 2), lambda: (Point(1),)),
    "frozen": (lambda x: Frozen(x * 2, 3), lambda: ()),
    "frozen replaced": (lambda x, p: dataclasses.replace(p, x=x * 2), lambda: (Frozen(1, 4),)),
    "frozen set": (lambda x, p: (setattr(p, "y", 3), x * 2), lambda: (Frozen(1, 4),)),
    "slotted": (lambda x, p: (setattr(p, "y", 3), Slotted(x * 2, 3), p), lambda: (Slotted(1, 4),)),
    "slotted replaced": (lambda x, p: dataclasses.replace(p, x=x * 2), lambda: (Slotted(1, 4),)),
    "ordered": (lambda x: (Ordered(1) < Ordered(2), max(Ordered(1), Ordered(2)).y, Ordered(1) == Ordered(1), x * 2), lambda: ()),
    "slots": (lambda x, s: (setattr(s, "a", s.b + 1), Slots(x * 2, 1), x * 2)[1:], lambda: (Slots(1, 2),)),
    "copy of an instance": (lambda x, p: (copy.copy(p), x * 2), lambda: (Point(1, 4, [3]),)),
    "deep copy": (lambda x, d: (copy.deepcopy(d), x * 2), lambda: ({"a": [1, {2}]},)),
    "copy of a list": (lambda x, d: (copy.copy(d), x * 2), lambda: ([1, [2]],)),
    "namespace": (lambda x, n: (setattr(n, "b", 3), x * 2, types.SimpleNamespace(a=x * 2)), lambda: (types.SimpleNamespace(a=1),)),
    "new set": (lambda x: (list({3, 1, 2}), {5, 4}, x * 2), lambda: ()),
    "set changed": (lambda x, s: (s.add(9), s.discard(1), x * 2)[2], lambda: ({1, 2, 3},)),
    "set popped": (lambda x, s: (s.pop(), x * 2), lambda: ({8, 0, 16},)),
    "set of strings": (lambda x, s: (list(s), sorted(s), x * 2), lambda: ({"b", "a"},)),
    "set operations": (lambda x, s: (s | {5}, s & {1, 2}, s - {1}, s ^ {1, 7}, x * 2), lambda: ({1, 2, 3},)),
    "set updated": (lambda x, s: (s.update([5], {6}), s.intersection_update({1, 5}), x * 2)[2], lambda: ({1, 2, 3},)),
    "symmetric difference": (lambda x, s: (s.symmetric_difference_update({1, 9}), x * 2)[1], lambda: ({1, 2, 3},)),
    "list in place": (lambda x, v: (v.insert(0, 5), v.reverse(), v.extend((1, 2)), x * 2)[3], lambda: ([3, 4],)),
    "list sorted": (lambda x, v: (v.sort(key=lambda n: -n), x * 2)[1], lambda: ([3, 4, 1],)),
    "list sliced": (lambda x, v: (v.__setitem__(slice(0, 1), [7, 8]), v.__delitem__(slice(2, 3)), x * 2)[2], lambda: ([3, 4, 1],)),
    "list times": (lambda x, v: (v.__imul__(2), x * 2)[1], lambda: ([3, 4],)),
    "list times by an operator": (multiplied, lambda: ([3, 4],)),
    "list plus by an operator": (lengthened, lambda: ([3, 4],)),
    "set by an operator": (united, lambda: ({3, 4},)),
    "order of a new set": (lambda x, v: (list({16, 8, v}), list({"b", "a"} | {"c"}), x * 2), lambda: (0,)),
    "order of a set of an argument": (lambda x, s: (list(s), x * 2), lambda: ({16, 8, 0},)),
    "deque read": (lambda x, d: (d[0], len(d), list(d), x * 2), lambda: (collections.deque([1, 2]),)),
    "list removed": (lambda x, v: (v.remove(4), v.pop(0), v.clear(), x * 2), lambda: ([3, 4],)),
    "list plus itself": (lambda x, v: (v.extend(v), x * 2)[1], lambda: ([3, 4],)),
    "iterators": (lambda x, v: (next(v), list(v), x * 2), lambda: (iter([1, 2, 3]),)),
    "enumerate": (lambda x, v: (next(v), x * 2), lambda: (enumerate([5, 6, 7]),)),
    "zip and chain": (lambda x, v: (list(zip(v, itertools.count())), list(itertools.chain(v, v)), x * 2), lambda: ([1, 2],)),
    "cycle": (lambda x, v: (next(v), next(v), x * 2), lambda: (itertools.cycle([1, 2, 3]),)),
    "generator": (lambda x, v: (next(v), x * 2), lambda: ((n for n in (1, 2, 3)),)),
    "bytearray": (lambda x, v: (v.append(1), x * 2)[1], lambda: (bytearray(b"a"),)),
    "nested": (lambda x, d: (d["a"]["b"].append(d["c"].pop()), x * 2)[1], lambda: ({"a": {"b": [1]}, "c": [2, 3]},)),
    "itself": (lambda x, d: (d.__setitem__("me", d), len(d), x * 2)[1:], lambda: ({"a": 1},)),
    "list of itself": (lambda x, v: (v.append(v), v[-1] is v, x * 2)[1:], lambda: ([1],)),
    "keys view": (lambda x, d: (d.keys() & {"a"}, list(d.values()), ("a", 0) in d.items(), x * 2), lambda: (ordered(),)),
    "proxy": (lambda x, d: (d["a"], len(d), x * 2), lambda: (types.MappingProxyType({"a": 1}),)),
}  # fmt: skip


def shown(value, depth: int = 0):
    """A value as what can be compared, order and classes included."""
    kind = type(value).__name__
    if depth > 6:
        return "..."
    if isinstance(value, torch.Tensor):
        return kind, value.tolist()
    if isinstance(value, dict):
        items = [(shown(k, depth + 1), shown(v, depth + 1)) for k, v in value.items()]
        return kind, items, getattr(value, "default_factory", None), shown(getattr(value, "__dict__", None), depth + 1)
    if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        about = getattr(value, "maxlen", None), shown(getattr(value, "__dict__", None), depth + 1)
        return kind, [shown(v, depth + 1) for v in value], about
    if isinstance(value, collections.abc.Iterator):
        return kind, shown(list(itertools.islice(value, 8)), depth + 1)
    if hasattr(type(value), "__slots__") and not hasattr(value, "__dict__"):
        return kind, [shown(getattr(value, n, None), depth + 1) for n in type(value).__slots__]
    if hasattr(value, "__dict__") and not isinstance(value, (type, types.FunctionType)):
        return kind, shown(vars(value), depth + 1)
    return kind, repr(value)


def outcome(fn, objects):
    try:
        answer = shown(fn(X, *objects))
    except Exception as error:
        answer = type(error).__name__, str(error)
    return answer, shown(list(objects))


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_the_plain_function(name, served):
    plain, make = PROGRAMS[name]
    expected = outcome(plain, make())
    fn = served(plain)
    for _ in range(4):
        assert outcome(fn, make()) == expected


def test_what_is_served(served):
    """Programs of which a wrong answer was mended, not refused."""
    for name in ("move_to_end", "replace", "replace of an old one", "deque read"):
        plain, make = PROGRAMS[name]
        fn = served(plain)
        for _ in range(3):
            outcome(fn, make())
        assert trident_hook.counts(fn)["hits"] > 0, (name, trident_hook.explain(fn).refusals)


def test_another_length_of_a_deque(served):
    def push(x, d):
        d.append(1)
        return x * len(d)

    fn = served(push)
    for _ in range(3):
        assert fn(X, collections.deque([1, 2])).tolist() == (X * 3).tolist()
    assert fn(X, collections.deque([1, 2], 2)).tolist() == (X * 2).tolist()
