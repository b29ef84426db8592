"""The call door on plain functions: given, kept, taken back. CPython 3.12 and newer; on 3.11 promote() says False."""

import copy
import gc
import types

import pytest
from hook_support import HAS_CALL_DOOR

needs_door = pytest.mark.skipif(not HAS_CALL_DOOR, reason="no call door on plain functions before CPython 3.12")


def fresh():
    def f(x):
        return ("plain", x)

    return f


@pytest.mark.skipif(HAS_CALL_DOOR, reason="CPython 3.11 only")
def test_not_on_311(core, serve):
    f = serve(fresh())
    assert core.promote(f) is False
    assert core.is_promoted(f) is False


@needs_door
def test_promote_and_demote(core, serve):
    f = fresh()
    assert core.promote(f) is False  # no entry
    serve(f, doors=1)
    assert core.promote(f) is False  # no call door
    core.entry_doors_set(f.__code__, 3)
    assert core.promote(f) is True
    assert core.promote(f) is True
    assert core.is_promoted(f)
    assert core.live_counts()["promoted"] == 1
    assert f(1) == "scm"
    assert core.demote(f) is True
    assert core.demote(f) is False
    assert f(1) == ("plain", 1)


@needs_door
def test_losing_the_door_demotes(core, serve):
    f = serve(fresh())
    core.promote(f)
    core.entry_doors_set(f.__code__, 1)
    assert not core.is_promoted(f)
    core.entry_doors_set(f.__code__, 3)
    core.promote(f)
    core.entry_drop(f.__code__)
    assert not core.is_promoted(f)
    assert f(1) == ("plain", 1)


@needs_door
def test_registry_keeps_nothing_alive(core, serve):
    f = serve(fresh())
    core.promote(f)
    g = types.FunctionType(f.__code__, {})
    assert core.promote(g)
    assert core.live_counts()["promoted"] == 2
    del g
    assert core.live_counts()["promoted"] == 1


@needs_door
def test_demote_all(core, serve):
    functions = [serve(types.FunctionType(fresh().__code__.replace(co_name=f"f{i}"), {})) for i in range(12)]
    more = [types.FunctionType(f.__code__, {}) for f in functions for _ in range(9)]
    for f in functions + more:
        assert core.promote(f)
    assert core.live_counts()["promoted"] == 120
    del more[::2]
    gc.collect()
    assert core.live_counts()["promoted"] == 66
    assert core.demote_all() == 66
    assert core.live_counts()["promoted"] == 0
    assert all(f(1) == ("plain", 1) for f in functions + more)


@needs_door
def test_new_code_object(core, serve):
    f = serve(fresh())
    core.promote(f)
    old = f.__code__
    f.__code__ = (lambda x: "other").__code__
    assert f(1) == "other"
    assert not core.is_promoted(f)
    f.__code__ = old
    assert core.promote(f)
    assert f(1) == "scm"


@needs_door
def test_somebody_elses_vectorcall_is_left_alone(core, fake, serve):
    f = serve(fresh())
    fake.foreign_vectorcall_set(f)
    assert core.promote(f) is False
    core.hook_install()
    assert f(1) is None


@needs_door
@pytest.mark.parametrize("warm", [0, 100])
def test_closures_made_anew_get_the_door_at_birth(core, serve, warm):
    """Also at call sites that CPython had specialised for this code before (they check only a version number)."""

    def make(z):
        def f(x):
            return ("plain", x, z)

        return f

    def site(g):
        return g(1)

    for i in range(warm):
        assert site(make(i)) == ("plain", 1, i)
    serve(make(0), "free")
    core.hook_install()
    keep = []
    for i in range(3):
        keep.append(make(i))
        assert site(keep[-1]) == (i,)
    core.hook_remove()
    for i in range(100):
        assert site(make(i)) == (i,)
    assert core.live_counts()["promoted"] == 3
    stats = core.entry_stats(make(0).__code__)
    assert stats["call_hits"] == 100
    assert stats["frame_hits"] == 3
    core.demote_all()
    for i in range(100):
        assert site(make(i)) == ("plain", 1, i)


@needs_door
def test_watcher_is_given_back(core, serve):
    """CPython has eight function watchers in all: promoting and demoting must not use them up."""
    f = serve(fresh())
    for _ in range(20):
        assert core.promote(f)
        core.demote(f)


@needs_door
def test_reference_counts_of_a_promoted_function_do_not_move(core, serve):
    import sys

    f = serve(fresh())
    before = sys.getrefcount(f), sys.getrefcount(f.__code__)
    core.promote(f)
    assert (sys.getrefcount(f), sys.getrefcount(f.__code__)) == before


def test_copied_functions_share_the_entry(core, serve):
    f = serve(fresh())
    core.hook_install()
    assert copy.copy(f) is f
    twin = types.FunctionType(f.__code__, {})
    assert [f(1), twin(1), f(1), twin(1)] == ["scm"] * 4
