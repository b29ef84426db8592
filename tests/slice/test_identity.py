"""Objects that are no tensors: which of them are one and which are two is part of what a capture assumes. Each program is called
until it is served, then with another picture of the same values; twins of the objects go through the plain function."""

from __future__ import annotations

import copy
import types
from time import perf_counter_ns

import pytest
import torch
from support.routes import counts, twin

import trident_hook
from trident_hook import _core
from trident_hook.testing.specialize import specialize

X = torch.ones(2)


class Box:
    def __init__(self, **fields) -> None:
        self.__dict__.update(fields)


def fill_two(a, b, x):
    a.append(1)
    b.append(2)
    return x * len(b)


def merge_dicts(a, b, x):
    a["n"] = 5
    return x * b["n"]


def compare(a, b, x):
    return x * (3 if a is b else 2)


def is_member(o, items, x):
    return x * (3 if o in items else 2)


def position(o, items, x):
    return x * items.index(o)


def toggle(p, x):
    first = p.current is p.left
    p.current = p.right if first else p.left
    return x * (2 if first else 3)


def counts_both(pair, x):
    pair[0].n += 1
    pair[1].n += 1
    return x * pair[1].n


def looks_up(table, key, x):
    return x * table.get(key, 7)


def through_namespace(o, d, x):
    d["n"] = 9
    return x * o.n


ITEMS: list = []
DEFAULT = object()


def fills_a_global(a, x):
    a.append(1)
    ITEMS.append(2)
    return x * len(a)


def has_sentinel(o, x):
    return x * (3 if o is DEFAULT else 2)


def with_default(x, o=DEFAULT, seen=[]):  # noqa: B006
    seen.append(1)
    return x * (3 if o is DEFAULT else 2)


def two_tuples(a, b, x):
    a[0].append(1)
    return x * len(b[0])


def two_functions(f, g, x):
    return x * (3 if f is g else 2)


def deep(a, b, x):
    a.child.n += 1
    return x * b.child.n


def boxes():
    return Box(n=1)


def distinct(make):
    return lambda: (make(), make())


def one(make):
    def both():
        made = make()
        return made, made

    return both


def member_of(own: bool):
    def make():
        o = Box(n=1)
        return o, [Box(n=2), o if own else Box(n=1), Box(n=3)]

    return make


def sides(current: str):
    def make():
        p = Box(left=object(), right=object())
        p.current = getattr(p, current)
        return (p,)

    return make


def pair(same: bool):
    def make():
        a = Box(n=1)
        return ([a, a if same else Box(n=1)],)

    return make


def keyed(known: bool):
    def make():
        key = Box()
        return {Box(): 1, (key if known else Box()): 2}, key

    return make


def tupled(same: bool):
    def make():
        inner = []
        return (inner, 1), (inner if same else [], 2)

    return make


def space(same: bool):
    def make():
        o = Box(n=1)
        return o, (vars(o) if same else {"n": 1})

    return make


def functions(same: bool):
    def make():
        f = types.FunctionType(boxes.__code__, globals())
        return f, (f if same else types.FunctionType(boxes.__code__, globals()))

    return make


def nested(same: bool):
    def make():
        child = Box(n=1)
        return Box(child=child), Box(child=child if same else Box(n=1))

    return make


CASES = {
    "lists": (fill_two, distinct(list), one(list)),
    "dicts": (merge_dicts, distinct(lambda: {"n": 1}), one(lambda: {"n": 1})),
    "is": (compare, distinct(object), one(object)),
    "is of instances": (compare, distinct(boxes), one(boxes)),
    "is of lists": (compare, distinct(list), one(list)),
    "is of sets": (compare, distinct(set), one(set)),
    "in a list": (is_member, member_of(True), member_of(False)),
    "index of a list": (position, member_of(True), lambda: (lambda o: (o, [o, Box(n=2), Box(n=3)]))(Box(n=1))),
    "members": (toggle, sides("left"), sides("right")),
    "items": (counts_both, pair(False), pair(True)),
    "keys of a dict": (looks_up, keyed(True), keyed(False)),
    "in tuples": (two_tuples, tupled(False), tupled(True)),
    "a namespace": (through_namespace, space(False), space(True)),
    "functions": (two_functions, functions(False), functions(True)),
    "members of members": (deep, nested(False), nested(True)),
}


def outcome(fn, args):
    """The answer, and what the arguments are afterwards."""
    try:
        answer = fn(*args, X).tolist()
    except Exception as error:
        answer = (type(error).__name__, str(error))
    return answer, shown(args)


def shown(value):
    if isinstance(value, (list, tuple)):
        return [shown(v) for v in value]
    if isinstance(value, dict):
        return [(shown(k), shown(v)) for k, v in value.items()]
    return sorted((k, shown(v)) for k, v in vars(value).items()) if isinstance(value, Box) else type(value).__name__ + (
        repr(value) if isinstance(value, (int, str)) else "")  # fmt: skip


@pytest.mark.parametrize("turn", ["changed", "back"])
@pytest.mark.parametrize("name", CASES)
def test_another_picture(name, turn, through):
    plain, *makers = CASES[name]
    first, second = makers if turn == "changed" else reversed(makers)
    fn = through(plain)
    for make in (first, first, first, second, second, first, second):
        assert outcome(fn, make()) == outcome(plain, make())


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"a namespace", "keys of a dict"}))
def test_it_is_served(name, served):
    """The first picture and, beside it, the second."""
    plain, first, second = CASES[name]
    fn = served(plain)
    for make in (first, first, second, second):
        outcome(fn, make())
    before = counts(fn)["hits"]
    outcome(fn, first()), outcome(fn, second())
    assert counts(fn)["hits"] == before + 2, trident_hook.explain(fn).refusals


# -- the environment ---------------------------------------------------------------------------------------------------


def test_an_argument_becomes_the_global(through):
    fn = through(fills_a_global)
    for _ in range(3):
        ITEMS.clear()
        assert outcome(fn, ([],))[0] == [1.0, 1.0]
    ITEMS.clear()
    assert outcome(fn, (ITEMS,))[0] == [2.0, 2.0]
    ITEMS.clear()
    assert outcome(fn, ([],))[0] == [1.0, 1.0]


def test_the_global_becomes_the_argument(served, monkeypatch):
    """What a call brings is compared with what the global is now."""
    fn, mine = served(fills_a_global), []
    for _ in range(3):
        ITEMS.clear()
        fn([], X)
    mine.clear()
    monkeypatch.setitem(fn.__wrapped__.__globals__, "ITEMS", mine)
    assert outcome(fn, ([],))[0] == [1.0, 1.0]
    mine.clear()
    assert outcome(fn, (mine,))[0] == [2.0, 2.0]


def test_a_sentinel(through, monkeypatch):
    fn = through(has_sentinel)
    for _ in range(3):
        assert outcome(fn, (object(),))[0] == [2.0, 2.0]
    assert outcome(fn, (DEFAULT,))[0] == [3.0, 3.0]
    other = object()
    monkeypatch.setitem(has_sentinel.__globals__, "DEFAULT", other)
    assert outcome(fn, (other,))[0] == [3.0, 3.0]
    assert outcome(fn, (object(),))[0] == [2.0, 2.0]


def test_a_default(served):
    fn = served(with_default)
    for _ in range(3):
        assert fn(X).tolist() == [3.0, 3.0]
    assert fn(X, object()).tolist() == [2.0, 2.0]
    other = [object()]
    assert fn(X, DEFAULT, other).tolist() == [3.0, 3.0]
    assert other[-1] == 1


def test_cells_that_two_functions_share(served):
    def pair(shared: bool):
        def make():
            n = 0

            def add():
                nonlocal n
                n += 1
                return n

            return add, lambda: n

        add, read = make()
        return add, (read if shared else make()[1])

    def calls(add, read, x):
        add()
        return x * (5 + read())

    fn = served(calls)
    for shared in (False, False, False, True, False, True):
        assert fn(*pair(shared), X).tolist() == calls(*pair(shared), X).tolist()


def test_own_cells(served):
    """The captured function changes a free variable that a function it calls reads."""

    def make(shared: bool):
        n = 0

        def read():
            return n

        other = types.FunctionType(read.__code__, globals(), "read", None, (types.CellType(0),))

        def count(reader, x):
            nonlocal n
            n += 1
            return x * (5 + reader())

        return count, (read if shared else other)

    count, reader = make(False)
    fn = trident_hook.jit(count)
    for _ in range(6):
        assert fn(reader, X).tolist() == [5.0, 5.0]
    n = count.__closure__[[*count.__code__.co_freevars].index("n")]
    sharing = types.FunctionType(reader.__code__, globals(), "read", None, (n,))
    n.cell_contents = 40
    assert fn(sharing, X).tolist() == [46.0, 46.0]


# -- values -------------------------------------------------------------------------------------------------------------


def same_number(a, b, x):
    return x * (3 if a is b else 2)


def nested_question(a, b, x):
    return same_number(a, b, x)


def has_nan(a, items, x):
    return x * (3 if a in items else 2)


def address(a, b, x):
    return x * (3 if id(a) == id(b) else 2)


def methods(a, b, x):
    return x * (3 if a.append is b.append else 2)


def big() -> int:
    return int("123456789")


NAN = float("nan")
VALUES = {
    "ints": (same_number, lambda: (big(), big()), one(big)),
    "strings": (same_number, lambda: ("".join("ab!"), "".join("ab!")), one(lambda: "".join("ab!"))),
    "floats": (nested_question, lambda: (float("1.5"), float("1.5")), one(lambda: float("1.5"))),
    "tuples": (same_number, lambda: ((1, big()), (1, big())), one(lambda: (1, big()))),
    "a nan": (has_nan, lambda: (float("nan"), [1.0, float("nan")]), lambda: (NAN, [1.0, NAN])),
    "id": (address, distinct(boxes), one(boxes)),
    "id of lists": (address, distinct(list), one(list)),
    "bound methods": (methods, one(list), one(list)),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_that_are_compared_by_identity(name, through):
    plain, *makers = VALUES[name]
    fn = through(plain)
    for make in (makers[0], makers[0], makers[0], makers[1], makers[0]):
        assert outcome(fn, make()) == outcome(plain, make())


# -- cost ---------------------------------------------------------------------------------------------------------------


def best(*loops) -> list[float]:
    """Nanoseconds of one call of each, the loops taking turns. A loop is (callable of a number of calls, that number)."""
    times = [[] for _ in loops]
    for _ in range(30):
        for found, (run, calls) in zip(times, loops, strict=True):
            start = perf_counter_ns()
            run(calls)
            found.append((perf_counter_ns() - start) / calls)
    return [min(found) for found in times]


def reads_boxes(boxes, x):
    return x * sum([box.n for box in boxes])


def test_many_objects_are_compared_in_linear_time():
    many, few = [Box(n=1) for _ in range(400)], [Box(n=1) for _ in range(100)]
    loops = []
    for items in (few, many):
        fn = specialize(twin(reads_boxes), [(items, X)])
        assert _core.scm_check(fn.__wrapped__, (items, X)) is not None
        loops.append((lambda calls, fn=fn, items=items: _core.scm_check(fn.__wrapped__, (items, X), calls), 200))
    hundred, four_hundred = best(*loops)
    assert four_hundred < 6 * hundred, (hundred, four_hundred)
    other = copy.copy(many)
    other[7] = other[300]
    assert _core.scm_check(fn.__wrapped__, (other, X)) is None
