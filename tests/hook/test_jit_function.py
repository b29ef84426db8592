"""JitFunction stands in for a function: binding, metadata, copying, pickling."""

import copy
import functools
import gc
import inspect
import pickle
import sys
import weakref

import pytest
from hook_support import HAS_CALL_DOOR


def target(a, b: int = 2, *, k=3) -> str:
    """A docstring."""
    return ("plain", a, b, k)


target.mark = "set on the function"


def module_level(x):
    return x


@pytest.fixture
def jitted(core):
    return core.JitFunction(target)


def test_metadata(jitted):
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__defaults__", "__kwdefaults__", "__code__",
                 "__annotations__", "__globals__", "__closure__", "mark"):  # fmt: skip
        assert getattr(jitted, name) is getattr(target, name), name
    assert jitted.__wrapped__ is target
    assert inspect.signature(jitted) == inspect.signature(target)
    assert inspect.unwrap(jitted) is target
    assert "target" in repr(jitted)
    assert hasattr(jitted, "__type_params__") is HAS_CALL_DOOR
    jitted.extra = 1
    assert jitted.extra == 1
    assert not hasattr(target, "extra")


def test_function_attributes_write_through(core):
    def f(a=1):
        return a

    j = core.JitFunction(f)
    j.__defaults__ = (5,)
    assert f() == 5
    assert j() == 5


def test_update_wrapper_both_ways(jitted, core):
    functools.update_wrapper(jitted, target)
    assert jitted.__wrapped__ is target

    @functools.wraps(jitted)
    def wrapper(*args, **kwargs):
        return jitted(*args, **kwargs)

    assert wrapper.__name__ == "target"
    assert wrapper.__doc__ == "A docstring."
    assert inspect.signature(wrapper) == inspect.signature(target)
    assert wrapper(1) == ("plain", 1, 2, 3)


def test_only_functions(core):
    for wrong in (len, print, 3, functools.partial(target), core.JitFunction(target)):
        with pytest.raises(TypeError, match="expected a Python function"):
            core.JitFunction(wrong)


def test_methods(core, serve):
    def method(self, x):
        return ("plain", x)

    class C:
        m = core.JitFunction(method)
        s = staticmethod(core.JitFunction(method))
        c = classmethod(core.JitFunction(method))

    o = C()
    assert C.m is C.__dict__["m"]
    assert o.m.__self__ is o
    assert [o.m(1), C.m(o, 1), C.s(o, 1), o.c(1)] == [("plain", 1)] * 4
    serve(method, "arg0")
    assert [o.m(1), C.m(o, 1), C.s(o, 1)] == [o] * 3
    assert C.c(1) is C
    assert core.entry_stats(method.__code__)["call_hits"] == 4


def test_copies_are_the_object_itself(jitted):
    assert copy.copy(jitted) is jitted
    assert copy.deepcopy([jitted])[0] is jitted


def test_pickle_by_qualified_name(core, monkeypatch):
    j = core.JitFunction(module_level)
    monkeypatch.setattr(sys.modules[__name__], "module_level", j)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(j, protocol)) is j
    monkeypatch.undo()
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(j)


def test_weakref_and_gc(core):
    gc.collect()
    before = core.live_counts()["jit_functions"]

    def make():
        def f(x):
            return holder  # a cycle: f -> cell -> holder -> f

        holder = core.JitFunction(f)
        return weakref.ref(holder)

    gone = make()
    gc.collect()
    assert gone() is None
    assert core.live_counts()["jit_functions"] == before


def test_does_not_need_the_hook_and_skips_it_when_it_is_there(core, serve, fake):
    def f(x):
        return ("plain", x)

    serve(f, "miss")
    j = core.JitFunction(f)
    core.hook_install()
    assert j(1) == ("plain", 1)
    stats = core.entry_stats(f.__code__)
    assert stats["misses"] == 1
    assert stats["python"] == 1
    assert f(1) == ("plain", 1)
    assert core.entry_stats(f.__code__)["misses"] == 2


def test_recursive_function_is_asked_at_every_level(core, serve):
    def f(n):
        return n if n == 0 else j(n - 1)

    serve(f, "miss", doors=3)
    j = core.JitFunction(f)
    core.hook_install()
    assert j(5) == 0
    assert core.entry_stats(f.__code__)["misses"] == 6
