"""A million hits through each door leave no reference, no block and no page behind."""

import contextlib
import gc
import sys

import pytest
from hook_support import assert_settles

N = 1_000_000


def positional(x):
    return None


def keywords(x, *args, k=3, **kw):
    return None


def captured(x):
    def inner():
        return x

    return inner


def make_free():
    z = object()

    def free(x, y=5):
        return x, y, z

    return free


CALLS = {
    "positional": (positional, "call(obj)"),
    "keywords": (keywords, "call(obj, 1, 2, k=4, z=5)"),
    "star": (keywords, "call(*args, **kw)"),
    "captured": (captured, "call(obj)"),
    "free": (make_free(), "call(obj)"),
}


def loop_of(source, **names):
    namespace = {}
    exec(f"def loop(n, call, obj, args, kw):\n    for _ in range(n):\n        {source}\n", namespace)
    return lambda n: namespace["loop"](n, **names)


@pytest.mark.parametrize("name", CALLS)
def test_hits(core, serve, door, name):
    func, source = CALLS[name]
    obj, args, kw = object(), (object(), 1, 2), {"z": 5}
    serve(func, "arg0")
    call = door(func)
    loop = loop_of(source, call=call, obj=obj, args=args, kw=kw)
    watched = (obj, args, args[0], kw, func, func.__code__, call)
    loop(1000)
    gc.collect()
    refs = [sys.getrefcount(o) for o in watched]
    assert_settles(lambda: loop(N if name == "positional" else N // 5))
    assert [sys.getrefcount(o) for o in watched] == refs
    assert core.entry_stats(func.__code__)["hits"] >= N // 5


def test_errors(core, serve, door):
    obj = object()
    serve(positional, "call", lambda func, args: int("x"))
    call = door(positional)

    def loop(n):
        for _ in range(n):
            with contextlib.suppress(ValueError):
                call(obj)

    loop(100)
    gc.collect()
    refs = sys.getrefcount(obj)
    assert_settles(lambda: loop(20_000))
    assert sys.getrefcount(obj) == refs


def test_misses(core, serve, door):
    obj = object()
    serve(positional, "miss")
    call = door(positional)
    loop = loop_of("call(obj)", call=call, obj=obj, args=(), kw={})
    loop(100)
    gc.collect()
    refs = sys.getrefcount(obj)
    assert_settles(lambda: loop(50_000))
    assert sys.getrefcount(obj) == refs


def test_frames_at_every_stack_depth(core, serve):
    """A discarded frame gives its place on the data stack back, also when it was the first of a chunk."""
    obj = object()
    serve(positional, "arg0", doors=1)
    core.hook_install()

    def down(n):
        if n:
            return down(n - 1)
        return positional(obj)

    def sweep():
        for n in range(280):
            assert down(n) is obj

    sweep()
    assert_settles(lambda: [sweep() for _ in range(20)] and None)


def test_closures(core, serve):
    def make(z):
        def f(x):
            return z

        return f

    serve(make(0), "arg0")
    core.hook_install()

    def loop(n):
        for _ in range(n):
            make(1)(2)

    loop(100)
    assert_settles(lambda: loop(20_000))
    assert core.live_counts()["promoted"] <= 1


def test_entries_come_and_go(core, fake):
    def cycle():
        namespace = {}
        exec("def f(x):\n    return len(x)\n", namespace)
        f = namespace.pop("f")  # no cycle: entry, SCM and code die with the last reference
        core.entry_create(f.__code__, object(), 3)
        core.entry_scm_set(f.__code__, fake.scm("const", 1))
        assert core.JitFunction(f)("x") == 1
        core.promote(f)

    for _ in range(50):
        cycle()
    gc.collect()
    gc.collect()  # what earlier tests left in cycles
    before = core.live_counts()

    def loop():
        for _ in range(500):
            cycle()

    assert_settles(loop)
    assert core.live_counts() == before
