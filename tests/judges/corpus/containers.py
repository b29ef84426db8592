"""Functions of tuples, lists, dicts, sets, named tuples, dataclasses, iterators."""

from __future__ import annotations

import collections
import types

import torch

from ..places import Keywords, Rest, Slot, argument, constants, subject
from ..values import Dict, Frozen, Int, List, OtherSettings, Pair, Settings, Tuple, Twin, layouts, ramp

X = argument("x", *layouts(4, 6)[:6])


def r(start=0.0):
    return ramp(4, 6, start=start)


@subject(
    X,
    argument(
        "t",
        *constants(
            (1, 2),
            (1, 2.0),
            (1, 3),
            (True, 2),
            (1, 2, 3),
            [1, 2],
            (1,),
            (),
            Tuple((1, 2)),
            Pair(1, 2),
            None,
            (1.0, 2),
            (-0.0, 2),
            (0.0, 2),
            ((1,), 2),
            torch.Size([1, 2]),
        ),
    ),
)
def pair_of_ints(x, t):
    a, b = t
    return x * a + b, t


@subject(X, argument("t", *constants((0.0, 2), (-0.0, 2), (0, 2), (False, 2), (0.0, 2.0))))
def zeros_in_tuples(x, t):
    return x + 1, t


@subject(
    argument(
        "t",
        lambda: (r(), r(1.0)),
        lambda: [r(), r(1.0)],
        lambda: (r(), r(1.0), r()),
        lambda: (r(),),
        lambda: (r(), 1.0),
        lambda: Pair(r(), r(1.0)),
        lambda: Tuple((r(), r(1.0))),
        lambda: (r(), None),
        lambda: (r().double(), r()),
        lambda: (lambda a: (a, a))(r()),
    )
)
def tuple_of_tensors(t):
    return t[0] * 2 + t[1], t


@subject(
    argument(
        "t",
        lambda: [r(), r(1.0)],
        lambda: (r(), r(1.0)),
        lambda: [r(), r(1.0), r()],
        lambda: [r()],
        lambda: [r(), 1.0],
        lambda: List([r(), r(1.0)]),
        list,
        lambda: [r(), None],
        lambda: (lambda a: [a, a])(r()),
    )
)
def list_of_tensors(t):
    return sum(t), len(t)


@subject(
    X,
    argument(
        "t",
        lambda: [1, 2],
        lambda: [1, 2.0],
        lambda: [1, 3],
        lambda: [True, 2],
        lambda: [1, 2, 3],
        list,
        lambda: (1, 2),
        lambda: List([1, 2]),
    ),
)
def list_changed(x, t):
    t.append(t[0] + 5)
    t[1] = x * 2
    return x + t[0]


@subject(
    argument(
        "d",
        lambda: {"a": r(), "b": 2},
        lambda: {"b": 2, "a": r()},
        lambda: {"a": r(), "b": 2.0},
        lambda: {"a": r(), "b": True},
        lambda: {"a": r()},
        lambda: {"a": r(), "b": 2, "c": 3},
        lambda: Dict(a=r(), b=2),
        lambda: {"a": r(), "B": 2},
        lambda: collections.OrderedDict(a=r(), b=2),
        lambda: collections.defaultdict(int, a=r(), b=2),
        lambda: types.MappingProxyType({"a": r(), "b": 2}),
        lambda: {"a": r().double(), "b": 2},
        lambda: None,
    )
)
def dict_read(d):
    return d["a"] * d["b"]


@subject(
    argument(
        "d",
        lambda: {"a": r(), "b": r(1.0)},
        lambda: {"b": r(1.0), "a": r()},
        lambda: {"a": r(), "b": r(1.0), "c": r()},
        lambda: {"a": r()},
        dict,
        lambda: {"b": r(), "a": r(1.0)},
        lambda: collections.OrderedDict(b=r(1.0), a=r()),
        lambda: {1: r(), "b": r()},
        lambda: {"a": r(), "b": 1},
    )
)
def dict_in_order(d):
    total = 0.0
    for n, (key, value) in enumerate(d.items()):
        total = total + value * (n + 1) * len(str(key))
    return total, list(d)


@subject(
    X,
    argument(
        "d", lambda: {1: 2}, lambda: {True: 2}, lambda: {1.0: 2}, lambda: {1: 2.0}, lambda: {2: 2}, lambda: {1: 2, 2: 1}
    ),
)
def dict_of_ints(x, d):
    for key, value in d.items():
        x = x * key + value
    return x, list(d.keys())


@subject(X, argument("d", lambda: {"k": 1}, dict, lambda: {"j": 1}, lambda: {"k": 1, "j": 2}, lambda: {"k": None}))
def dict_asked(x, d):
    return x + 1 if "k" in d else x - 1


@subject(X, argument("d", lambda: {"k": 1}, dict, lambda: {"j": 1}, lambda: {"k": 1, "j": 2}, lambda: {"k": 2}))
def dict_changed(x, d):
    d["new"] = x * 2
    d.setdefault("k", 5)
    return x + d["k"]


@subject(
    X,
    argument(
        "s",
        lambda: {1, 2},
        lambda: {1, 3},
        lambda: {1, 2, 3},
        lambda: set(),
        lambda: frozenset({1, 2}),
        lambda: {True, 2},
        lambda: {1.0, 2},
        lambda: [1, 2],
    ),
)
def set_asked(x, s):
    return x + 1 if 2 in s else x - 1


@subject(
    X,
    argument(
        "s", *constants(frozenset({1, 2}), frozenset({1, 3}), frozenset({1.0, 2}), frozenset({True, 2}), frozenset())
    ),
)
def frozen_set(x, s):
    return x + len(s) if 1 in s else x - 1


@subject(
    argument(
        "p",
        lambda: Pair(r(), 2),
        lambda: Pair(r(), 2.0),
        lambda: Pair(r(), True),
        lambda: Twin(r(), 2),
        lambda: (r(), 2),
        lambda: Pair(2, r()),
        lambda: Pair(r().double(), 2),
        lambda: Pair(r(), r()),
    )
)
def named(p):
    return Pair(p.left * p.right, p.right)


@subject(
    X,
    argument(
        "s",
        lambda: Settings(),
        lambda: Settings(3.0),
        lambda: Settings(2),
        lambda: Settings(2.0, 4),
        lambda: Settings(name="other"),
        lambda: OtherSettings(),
        lambda: Settings(-2.0),
        lambda: Settings(2.0, True),
        lambda: Frozen(),
        lambda: types.SimpleNamespace(scale=2.0, shift=3, name="plain"),
    ),
)
def configured(x, s):
    return x * s.scale + s.shift if s.name == "plain" else x


@subject(
    X,
    argument(
        "s",
        lambda: Frozen(),
        lambda: Frozen(3.0),
        lambda: Frozen(2),
        lambda: Frozen(2.0, True),
        lambda: Frozen(-0.0),
        lambda: Frozen(0.0),
        lambda: Settings(),
    ),
)
def frozen_settings(x, s):
    return x * s.scale + s.shift


@subject(X, argument("s", lambda: Settings(), lambda: Settings(3.0), lambda: OtherSettings()))
def settings_changed(x, s):
    s.scale = s.scale + 1
    s.last = x * 2
    return x + s.shift


@subject(
    X,
    argument(
        "s",
        lambda: types.SimpleNamespace(a=1, b=2.0),
        lambda: types.SimpleNamespace(a=1.0, b=2.0),
        lambda: types.SimpleNamespace(a=1, b=2.0, c=3),
        lambda: types.SimpleNamespace(b=2.0, a=2),
        lambda: Settings(),
    ),
)
def namespace(x, s):
    return x * s.a + s.b if not hasattr(s, "c") else x


@subject(
    X,
    argument(
        "i",
        lambda: iter((1, 2)),
        lambda: iter((1, 2, 3)),
        lambda: iter([1, 2]),
        lambda: iter((1,)),
        lambda: iter((1, 2.0)),
        lambda: iter(range(2)),
    ),
)
def tuple_iterator(x, i):
    for a in i:
        x = x + a
    return x


@subject(
    X,
    argument(
        "i",
        lambda: iter(range(3)),
        lambda: iter(range(4)),
        lambda: iter(range(1, 4)),
        lambda: iter(range(0, 6, 2)),
        lambda: iter((0, 1, 2)),
    ),
)
def range_iterator(x, i):
    for a in i:
        x = x + a
    return x


@subject(
    X,
    argument(
        "n",
        lambda: {"a": [1, (2, {"b": 3})]},
        lambda: {"a": [1, (2, {"b": 3.0})]},
        lambda: {"a": [1, (2.0, {"b": 3})]},
        lambda: {"a": [1, [2, {"b": 3}]]},
        lambda: {"a": (1, (2, {"b": 3}))},
        lambda: {"a": [1, (2, {"b": 3, "c": 4})]},
        lambda: {"a": [True, (2, {"b": 3})]},
    ),
)
def nested(x, n):
    return x * n["a"][1][1]["b"] + n["a"][0]


@subject(
    X,
    Slot(
        "rest",
        Rest(),
        [
            lambda: (1, 2),
            lambda: (1, 2.0),
            lambda: (1,),
            lambda: (),
            lambda: (1, 2, 3),
            lambda: (True, 2),
            lambda: (r(), 1),
        ],
    ),
)
def with_rest(x, *rest):
    return x + sum(rest), len(rest)


@subject(
    X,
    Slot(
        "named",
        Keywords(),
        [
            lambda: {"p": 1, "q": 2},
            lambda: {"q": 2, "p": 1},
            lambda: {"p": 1},
            dict,
            lambda: {"p": 1, "q": 2.0},
            lambda: {"p": 1, "q": 2, "z": 3},
        ],
    ),
)
def with_keywords(x, **named):
    return x * len(named) + named.get("q", 0), list(named)


@subject(
    X,
    argument(
        "d",
        lambda: collections.deque([1, 2]),
        lambda: collections.deque([1, 2.0]),
        lambda: collections.deque([1, 2, 3]),
        lambda: [1, 2],
        lambda: collections.deque([1, 2], 5),
    ),
)
def queue(x, d):
    return x + d[0] + len(d)


ORDERED = [
    lambda: {"a": 2, "b": 3},
    lambda: {"b": 3, "a": 2},
    lambda: {"a": 2, "b": 3, "c": 4},
    lambda: {"a": 2, "c": 3},
    lambda: {"a": 2},
    lambda: {"a": 2, "b": 3.0},
    lambda: collections.OrderedDict(a=2, b=3),
    lambda: collections.OrderedDict(b=3, a=2),
]


@subject(X, argument("d", *ORDERED))
def dict_unpacked(x, d):
    first, *_ = d
    return x * d["a"], [*d], tuple(d), first


@subject(X, argument("d", *ORDERED))
def dict_copied(x, d):
    other = d.copy()
    other["z"] = x
    return x + 1, other, {**d, "y": 1}, dict(d)


@subject(X, argument("d", *ORDERED), argument("e", dict, lambda: {"b": 1}, lambda: {"c": 1, "b": 2}))
def dict_merged(x, d, e):
    e.update(d)
    return x * 2, d | {"q": x}


@subject(X, argument("d", *ORDERED))
def dict_popped(x, d):
    value = d.pop("a")
    return x * value


@subject(X, argument("d", *ORDERED))
def dict_popped_last(x, d):
    key, value = d.popitem()
    return x * value, key


@subject(X, argument("d", *ORDERED))
def dict_emptied(x, d):
    d.clear()
    return x * 2


@subject(X, argument("d", *ORDERED))
def dict_entry_deleted(x, d):
    del d["a"]
    return x * 2


def _in_order(**named):
    return list(named)


@subject(X, argument("d", *ORDERED))
def dict_as_keywords(x, d):
    return x + 1, _in_order(**d)


@subject(X, argument("d", *ORDERED))
def dict_sorted(x, d):
    return x + 1, sorted(d), max(d), min(d.values()), any(d), sum(d.values())


@subject(X, argument("d", *ORDERED))
def dict_in_words(x, d):
    return x + 1, str(d), f"{d}", "-".join(d)


@subject(X, argument("d", *ORDERED), argument("e", *ORDERED))
def dicts_compared(x, d, e):
    return x + 1 if d == e else x - 1


# 0 and 8 share a place in a small set's table: which comes first depends on which was added first.
@subject(
    X,
    argument("s", lambda: {0, 8}, lambda: {8, 0}, lambda: {0, 8, 1}, lambda: {0}),
    argument("f", *constants(frozenset((0, 8)), frozenset((8, 0)))),
)
def sets_iterated(x, s, f):
    for n, item in enumerate(s):
        x = x + n * item
    return x, list(s), list(f)


@subject(
    X,
    argument(
        "items", lambda: [3, 1, 2], lambda: [3, 1], lambda: [1, 3, 2], lambda: [3.0, 1, 2], lambda: List([3, 1, 2])
    ),
)
def list_methods(x, items):
    items.sort()
    items.insert(0, 7)
    last = items.pop()
    return x * last, items.index(7), list(reversed(items))


@subject(X, argument("s", lambda: {1, 2}, lambda: {2, 1}, lambda: {1}, lambda: {1, 2, 3}, lambda: {True, 2}))
def set_changed(x, s):
    s.add(9)
    s.discard(2)
    return x * len(s)


@subject(X, argument("s", *constants("a b", "b a", "a", "", "A b", "a b c")))
def strings(x, s):
    parts = s.split()
    return x * len(parts), s.upper(), parts[-1:], s.startswith("a"), f"{s}!"


# Sets of which only questions are asked that equal sets answer alike, and functions that look like those but are not.
SETS = [
    lambda: {1, 2},
    lambda: {2, 1},
    lambda: {True, 2},
    lambda: {1.0, 2},
    lambda: {1, 2, 3},
    lambda: {1},
    lambda: set(),
    lambda: frozenset({1, 2}),
    lambda: {1, "2"},
    lambda: [1, 2],
    lambda: {1: 2, 2: 3},
]
MORE_SETS = [*SETS, lambda: {Int(1), 2}, lambda: {Liar(1), 2}, lambda: {1, Liar(2)}, lambda: frozenset({Liar(1), 2})]


class Liar(int):
    """Equal to nothing but what hashes like it, whatever it is."""

    def __eq__(self, other):
        return type(other) is int and other in (1, 2)

    __hash__ = int.__hash__


@subject(X, argument("s", *SETS))
def set_counted(x, s):
    if not s:
        return x * 3
    return x + len(s) if 1 in s and 3 not in s else x - len(s)


@subject(X, argument("s", *SETS))
def set_of_other_size(x, s):
    return x * 2 if len(s) == 2 and 2.0 in s else x * 3


@subject(X, argument("s", *MORE_SETS), decoy=True)
def set_counted_with_others(x, s):
    return x + len(s) if 1 in s and 3 not in s else x - len(s)


@subject(X, argument("s", *MORE_SETS), argument("k", *constants(2, 2.0, True, 7)), decoy=True)
def set_asked_for_an_argument(x, s, k):
    return x + 1 if k in s else x - 1


@subject(X, argument("s", *MORE_SETS), argument("k", *constants(True, False)), decoy=True)
def set_asked_for_either(x, s, k):
    return x + 1 if (1 if k else x.ndim) in s else x - 1


@subject(X, argument("s", *MORE_SETS), decoy=True)
def set_asked_and_shown(x, s):
    return x + 1 if 2 in s else x - 1, [*s]


@subject(X, argument("s", *MORE_SETS), decoy=True)
def set_asked_and_handed_on(x, s):
    return x + 1 if 2 in s else x - 1, listed(s)


@subject(X, argument("s", *MORE_SETS), decoy=True)
def set_asked_and_returned(x, s):
    return x + 1 if 2 in s else x - 1, s


@subject(X, argument("s", *MORE_SETS), decoy=True)
def set_asked_in_a_function(x, s):
    def inner():
        return [str(i) for i in s]

    return x + 1 if 2 in s else x - 1, inner()


@subject(X, argument("s", *MORE_SETS), decoy=True)
def set_asked_by_another_name(x, s):
    t = s
    return x + 1 if 2 in s else x - 1, str(t)


@subject(X, argument("s", *MORE_SETS), decoy=True)
def set_asked_and_changed(x, s):
    y = x + 1 if 2 in s else x - 1
    s |= {9}
    return y, s


def listed(s):
    return [str(i) for i in s]
