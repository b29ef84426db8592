"""Every way to call a function reaches its SCM, through every door, with the arguments that a frame would hold."""

import functools
import operator
import sys

import pytest
from hook_support import HAS_CALL_DOOR, Record


def make_sites():
    """(name, call site, function that the site calls)."""

    class C:
        def method(self, a=1):
            return "plain"

        @property
        def prop(self):
            return "plain"

        def __getitem__(self, key):
            return "plain"

        def __call__(self, *args):
            return "plain"

        def __add__(self, other):
            return "plain"

        def __iter__(self):
            return "plain"

        def __next__(self):
            return "plain"

        def __eq__(self, other):
            return "plain"

        __hash__ = None

        @staticmethod
        def static(a):
            return "plain"

        @classmethod
        def klass(cls):
            return "plain"

    class Getattribute:
        def __getattribute__(self, name):
            return "plain"

    def f(a):
        return "plain"

    def defaults(a, b=1, c=2):
        return "plain"

    def kwonly(a, *, k=1):
        return "plain"

    def var(*args, **kwargs):
        return "plain"

    o, ga, args = C(), Getattribute(), (1,)
    iterator = iter(lambda: None, 1)  # placeholder, so that `next` below is a plain C call
    del iterator
    attrs = C.__dict__
    return [
        ("function", lambda: f(1), f),
        ("defaults", lambda: defaults(1), defaults),
        ("keyword", lambda: defaults(1, c=3), defaults),
        ("kwonly", lambda: kwonly(1, k=2), kwonly),
        ("star", lambda: f(*args), f),
        ("double_star", lambda: var(1, z=1), var),
        ("method", lambda: o.method(), attrs["method"]),
        ("bound", lambda m=o.method: m(2), attrs["method"]),
        ("property", lambda: o.prop, attrs["prop"].fget),
        ("getitem", lambda: o[1], attrs["__getitem__"]),
        ("call", lambda: o(), attrs["__call__"]),
        ("add", lambda: o + 1, attrs["__add__"]),
        ("operator.add", lambda: operator.add(o, 1), attrs["__add__"]),
        ("next", lambda: next(o), attrs["__next__"]),
        ("eq", lambda: o == 1, attrs["__eq__"]),
        ("static", lambda: C.static(1), attrs["static"].__func__),
        ("class", lambda: C.klass(), attrs["klass"].__func__),
        ("getattribute", lambda: ga.anything, Getattribute.__getattribute__),
        ("map", lambda: next(map(f, [1])), f),
        ("partial", lambda: functools.partial(f, 1)(), f),
        ("reduce", lambda: functools.reduce(defaults, [1, 2]), defaults),
    ]


SITES = [name for name, _, _ in make_sites()]


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("way", ["frame", "both"])
def test_call_forms(core, serve, name, warm, way):
    if name == "getitem" and (3, 11) <= sys.version_info < (3, 11, 7):
        pytest.skip("early CPython 3.11 (seen on 3.11.2) inlines __getitem__ whatever evaluator is installed")
    _, site, func = next(s for s in make_sites() if s[0] == name)
    if warm:
        for _ in range(60):
            assert site() == "plain"
    serve(func, doors=1 if way == "frame" else 3)
    core.hook_install()
    for _ in range(60):
        assert site() == "scm"
    stats = core.entry_stats(func.__code__)
    assert stats["hits"] == 60
    promoted = way == "both" and HAS_CALL_DOOR
    assert stats["frame_hits"] == (1 if promoted else 60)
    assert core.is_promoted(func) is promoted
    core.hook_remove()
    for _ in range(60):
        assert site() == ("scm" if promoted else "plain")


def test_sort_key(core, serve):
    def key(v):
        return v

    serve(key, "const", 0)
    core.hook_install()
    assert sorted([3, 1, 2], key=key) == [3, 1, 2]


def pos(a, b, c):
    return (a, b, c)


def dflt(a, b=2, c=3):
    return (a, b, c)


def posonly(a, b=2, /, c=3):
    return (a, b, c)


def kwonly(a, *, k, m=5):
    return (a, k, m)


def var(a, *args, k=4, **kw):
    return (a, k, args, kw)


def posonly_kw(a, /, **kw):
    return (a, kw)


def none():
    return ()


def many(a0, a1=1, a2=2, a3=3, a4=4, a5=5, a6=6, a7=7, a8=8, a9=9, b0=0, b1=1, b2=2, b3=3, b4=4, b5=5, b6=6, b7=7,
         b8=8, b9=9, c0=0, c1=1, c2=2, c3=3, c4=4, c5=5):  # fmt: skip
    return (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, c0, c1, c2, c3, c4, c5)


CALLS = [
    (pos, (1, 2, 3), {}),
    (pos, (1,), {"c": 3, "b": 2}),
    (pos, (), {"c": 3, "b": 2, "a": 1}),
    (dflt, (1,), {}),
    (dflt, (1,), {"c": 9}),
    (dflt, (1, 8), {}),
    (posonly, (1,), {}),
    (posonly, (1, 7), {"c": 9}),
    (kwonly, (1,), {"k": 2}),
    (kwonly, (), {"a": 1, "m": 3, "k": 2}),
    (var, (1,), {}),
    (var, (1, 2, 3), {"k": 5, "z": 6}),
    (var, (), {"a": 1, "y": 2}),
    (posonly_kw, (1,), {"a": 2, "b": 3}),
    (none, (), {}),
    (many, (0,), {"c5": 50, "a5": 55}),
]


@pytest.mark.parametrize(("func", "args", "kwargs"), CALLS, ids=lambda v: getattr(v, "__name__", None))
def test_binding(serve, door, func, args, kwargs):
    expected = func(*args, **kwargs)
    serve(func, "locals")
    call = door(func)
    assert call(*args, **kwargs) == expected
    spelled = {"".join(list(k)): v for k, v in kwargs.items()}  # equal names that are other objects
    assert call(*args, **spelled) == expected


BAD_CALLS = [
    (pos, (1, 2), {}),
    (pos, (1, 2, 3, 4), {}),
    (pos, (1, 2, 3), {"d": 4}),
    (pos, (1, 2, 3), {"a": 4}),
    (dflt, (), {}),
    (posonly, (), {"a": 1}),
    (kwonly, (1,), {}),
    (kwonly, (1, 2), {"k": 3}),
    (var, (), {}),
    (none, (1,), {}),
    (posonly_kw, (), {"a": 1}),
]


@pytest.mark.parametrize(("func", "args", "kwargs"), BAD_CALLS, ids=lambda v: getattr(v, "__name__", None))
def test_bad_calls_raise_the_functions_own_error(serve, door, func, args, kwargs):
    with pytest.raises(TypeError) as expected:
        func(*args, **kwargs)
    serve(func, "locals")
    call = door(func)
    with pytest.raises(TypeError) as seen:
        call(*args, **kwargs)
    assert str(seen.value) == str(expected.value)


def test_defaults_follow_the_function(serve, door):
    def f(a, b=1, *, k=2):
        return (a, b, k)

    serve(f, "locals")
    call = door(f)
    assert call(0) == (0, 1, 2)
    f.__defaults__ = (10, 11)
    f.__kwdefaults__ = {"k": 12}
    assert call() == (10, 11, 12)


def test_defaults_may_change_during_the_call(core, serve, door):
    def f(a, b=object(), *, k=object()):  # noqa: B008
        return None

    def rebind(func, args):
        func.__defaults__ = func.__kwdefaults__ = None
        return [type(a).__name__ for a in args]

    serve(f, "call", rebind)
    assert door(f)("x") == ["str", "object", "object"]


def test_free_variables_and_captured_arguments(serve, door):
    def outer(z):
        def f(x):
            def inner():
                return x, z

            return inner

        return f

    f = outer("free")
    serve(f, "free")
    call = door(f)
    assert call(1) == ("free",)
    serve(f, "arg0")
    marker = object()
    assert call(marker) is marker


def test_error_keeps_exception_and_names_the_function(serve, door):
    def failing(x):
        return x

    error = ValueError("from the specialization")
    serve(failing, "error", error)
    call = door(failing)
    with pytest.raises(ValueError) as seen:
        call(1)
    assert seen.value is error
    last = seen.traceback[-1]
    assert last.name == "failing"
    assert str(last.path) == failing.__code__.co_filename


def test_bypass_runs_plain_and_does_not_ask_the_record(core, serve, door):
    def f(x):
        return ("plain", x)

    record = Record()
    serve(f, "bypass", record=record)
    call = door(f)
    assert call(1) == ("plain", 1)
    stats = core.entry_stats(f.__code__)
    assert stats["bypasses"] == 1
    assert stats["python"] == 0
    assert record.before_calls == []


@pytest.mark.parametrize("mode", ["broken_hit", "broken_error"])
def test_an_scm_that_breaks_the_contract_is_an_error(serve, door, mode):
    def f(x):
        return x

    serve(f, mode)
    with pytest.raises(SystemError, match="without setting an exception"):
        door(f)(1)


def test_endless_recursion_inside_the_scm_is_survived(serve, door):
    """Through the frame door it ends by itself: deep down the evaluator is out, and the function runs plain."""

    def f(x):
        return ("plain", x)

    call = None
    serve(f, "call", lambda func, args: call(args[0]))
    call = door(f)
    if door.name == "frame":
        assert call(1) == ("plain", 1)
    else:
        with pytest.raises(RecursionError):
            call(1)


def test_states(core, serve, door):
    def f(x):
        return "plain"

    serve(f)
    call = door(f)
    assert call(1) == "scm"
    core.entry_state_set(f.__code__, core.OFF)
    assert call(1) == "plain"
    core.entry_state_set(f.__code__, core.SERVE)
    assert call(1) == "scm"
    core.entry_state_set(f.__code__, core.REFUSED)
    assert call(1) == "plain"
    assert not core.is_promoted(f)
    with pytest.raises(ValueError, match="seen 9, expected 0 to 2"):
        core.entry_state_set(f.__code__, 9)


def test_stats_reset(core, serve, door):
    def f(x):
        return x

    serve(f)
    door(f)(1)
    assert core.entry_stats(f.__code__)["hits"] == 1
    core.entry_stats_reset(f.__code__)
    assert set(core.entry_stats(f.__code__).values()) == {0}
    with pytest.raises(KeyError):
        core.entry_stats((lambda: 0).__code__)
