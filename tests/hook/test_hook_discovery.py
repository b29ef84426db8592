"""The discoverer sees each new function once; the hook steps aside when there is nothing new, and comes back."""

import sys
import types

import pytest
from hook_support import HAS_CALL_DOOR, Record

needs_aside = pytest.mark.skipif(not HAS_CALL_DOOR, reason="the hook never steps aside before CPython 3.12")

HERE = "<discovered>"  # the file name of the code that these tests make: `<string>` is everybody's
SOURCE = """
def f(x):
    return len((x,))
"""


def fresh(source=SOURCE, name="f"):
    namespace = {}
    exec(compile(source, HERE, "exec"), namespace)
    return namespace[name]


@pytest.fixture
def found(core):
    """The functions that the discoverer was shown, as far as they were made by these tests."""
    seen = []
    core.discoverer_set(lambda func: seen.append(func) if func.__code__.co_filename == HERE else None)
    return seen


def test_once_per_code_object(core, found):
    core.hook_install()
    f, g = fresh(), fresh()
    f(1), f(1), g(1), f(1)
    twin = types.FunctionType(f.__code__, {})
    twin(1)
    assert found == [f, g]


def test_not_interesting(core, found):
    def sources():
        yield "def f(x):\n    return x + 1\n", lambda f: f(1)  # names nothing
        yield "def f(x):\n    yield len(x)\n", lambda f: list(f("a"))
        yield "async def f(x):\n    len(x)\n", lambda f: f("a").close()
        yield "def f(x):\n    class C:\n        y = len(x)\n    return None\n", lambda f: f("a")

    core.hook_install()
    for source, call in sources():
        call(fresh(source))
    assert [func.__name__ for func in found] in ([], ["f"])  # the last one's own `f` may name things; its body never
    exec("y = len('abc')", {})
    assert len(found) <= 1


def test_closures_are_interesting(core, found):
    make = fresh("def make(z):\n    def f(x):\n        return z\n    return f\n", "make")
    core.hook_install()
    f = make(1)
    f(1)
    assert f in found


def test_exceptions_are_swallowed(core, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(args.exc_value))
    error = RuntimeError("discoverer")

    def discoverer(func):
        if func.__code__.co_filename == HERE:
            raise error

    core.discoverer_set(discoverer)
    core.hook_install()
    assert fresh()(1) == 1
    core.hook_remove()
    assert unraisable == [error]


def test_not_reentrant(core):
    inner, seen = fresh(), []

    def discoverer(func):
        seen.append(func)
        inner(1)

    core.discoverer_set(discoverer)
    core.hook_install()
    outer = fresh()
    outer(1)
    assert outer in seen
    assert inner not in seen
    inner(1)
    assert inner in seen


def test_discovered_function_is_served_by_the_same_call(core, fake):
    def discoverer(func):
        if func.__code__.co_filename == HERE:
            core.entry_create(func.__code__, None, 3)
            core.entry_scm_set(func.__code__, fake.scm("const", "scm"))

    core.discoverer_set(discoverer)
    core.hook_install()
    f = fresh()
    assert f(1) == "scm"
    assert core.is_promoted(f) is HAS_CALL_DOOR
    core.entry_drop(f.__code__)


def settle(core, frames=300):
    def leaf():
        return None

    for _ in range(frames):
        leaf()
    return core.hook_state()


def test_311_stays(core):
    core.quiet_after_set(50)
    core.hook_install()
    assert settle(core) == ("aside" if HAS_CALL_DOOR else "on")


@needs_aside
def test_aside_discovers_new_code_and_stays_aside(core, fake, found):
    core.quiet_after_set(50)
    core.hook_install()
    assert settle(core) == "aside"
    assert fake.evaluator() == "default"
    assert "trident_hook" in [sys.monitoring.get_tool(i) for i in range(6)]
    f = fresh()
    f(1), f(1)
    assert found == [f]
    assert core.hook_state() == "aside"
    core.hook_remove()
    assert "trident_hook" not in [sys.monitoring.get_tool(i) for i in range(6)]
    g = fresh()
    g(1)
    assert found == [f]


@needs_aside
def test_aside_and_promoted(core, fake, serve):
    """What is promoted is served without the hook; a new function of known code gets its door from the sentinel."""
    f = serve(fresh())
    core.quiet_after_set(50)
    core.hook_install()
    assert f(1) == "scm"
    assert settle(core) == "aside"
    assert f(1) == "scm"
    twin = types.FunctionType(f.__code__, {"len": len})
    twin(1)
    assert core.is_promoted(twin)
    assert twin(1) == "scm"
    assert core.hook_state() == "aside"


@needs_aside
def test_discovered_while_aside_is_promoted_at_once(core, fake):
    def discoverer(func):
        if func.__code__.co_filename == HERE:
            core.entry_create(func.__code__, None, 3)
            core.entry_scm_set(func.__code__, fake.scm("const", "scm"))

    core.discoverer_set(discoverer)
    core.quiet_after_set(50)
    core.hook_install()
    assert settle(core) == "aside"
    f = fresh()
    assert f(1) == 1
    assert f(1) == "scm"
    assert core.hook_state() == "aside"
    core.entry_drop(f.__code__)


@needs_aside
def test_comes_back_for_a_frame_only_entry(core, fake):
    def discoverer(func):
        if func.__code__.co_filename == HERE:
            core.entry_create(func.__code__, None, 1)
            core.entry_scm_set(func.__code__, fake.scm("const", "scm"))

    core.discoverer_set(discoverer)
    core.quiet_after_set(50)
    core.hook_install()
    assert settle(core) == "aside"
    f = fresh()
    f(1)
    assert core.hook_state() == "on"
    assert f(1) == "scm"
    assert settle(core) == "on"  # it needs the frame door
    core.entry_state_set(f.__code__, core.REFUSED)
    assert settle(core) == "aside"
    core.entry_drop(f.__code__)


@needs_aside
@pytest.mark.parametrize("doors", [1, 3])
def test_comes_back_for_an_entry_made_by_hand(core, fake, serve, doors):
    f = fresh()
    f(1)
    core.quiet_after_set(50)
    core.hook_install()
    assert settle(core) == "aside"
    serve(f, doors=doors)
    assert core.hook_state() == "on"
    assert f(1) == "scm"


@needs_aside
def test_comes_back_for_a_discoverer(core):
    core.quiet_after_set(50)
    core.hook_install()
    assert settle(core) == "aside"
    core.discoverer_set(lambda func: None)
    assert core.hook_state() == "on"


@needs_aside
def test_dropped_by_what_it_came_back_over(core, fake):
    """Nobody tells us that the evaluator above which we came back has gone: the next new code object does."""
    core.quiet_after_set(50)
    core.hook_install()
    assert settle(core) == "aside"
    fake.foreign_install()
    core.discoverer_set(lambda func: None)
    assert fake.evaluator() == "other"
    fake.foreign_remove(True)
    assert fake.evaluator() == "default"
    fresh()(1)
    assert fake.evaluator() == "other"


@needs_aside
def test_dropped_by_a_delegation_that_it_came_back_in(core, fake, serve):
    """The evaluator that a delegation brings restores what it found when it goes: the default. No Python code runs after it."""
    nobody = lambda func: None

    def f(x):
        core.discoverer_set(nobody)
        return x

    def setter(callback):
        fake.foreign_remove(True) if callback is None else fake.foreign_install()

    serve(f, "miss", record=types.SimpleNamespace(before_miss=lambda *call: object(), after_miss=bool))
    core.promote(f)
    core.delegation_setup(setter)
    core.hook_install()
    for _ in range(2):
        core.quiet_after_set(50)
        assert settle(core) == "aside"
        core.quiet_after_set(0)
        got, evaluator = f(1), fake.evaluator()
        assert (got, evaluator, core.hook_state()) == (1, "other", "on")


@needs_aside
def test_again_and_again(core, fake, serve):
    f = serve(fresh())
    core.quiet_after_set(50)
    core.hook_install()
    for _ in range(10):
        assert f(1) == "scm"
        assert settle(core) == "aside"
        core.demote(f)
        core.entry_state_set(f.__code__, core.SERVE)
        assert core.hook_state() == "on"


@needs_aside
def test_stays_without_a_free_tool_id(core):
    m = sys.monitoring
    m.use_tool_id(3, "x"), m.use_tool_id(4, "y")
    try:
        core.quiet_after_set(50)
        core.hook_install()
        assert settle(core) == "on"
    finally:
        m.free_tool_id(3), m.free_tool_id(4)


@needs_aside
def test_stays_while_covered(core, fake):
    core.quiet_after_set(50)
    core.hook_install()
    fake.foreign_install()
    try:
        assert settle(core) == "covered"
    finally:
        fake.foreign_remove(False)
    assert settle(core) == "aside"


@needs_aside
def test_own_sentinel_is_no_watcher_but_others_are(core, serve):
    f = serve(fresh())
    core.promote(f)
    core.quiet_after_set(50)
    core.hook_install()
    assert settle(core) == "aside"
    assert f(1) == "scm"
    m = sys.monitoring
    m.use_tool_id(1, "coverage")
    m.set_events(1, m.events.PY_RETURN)
    try:
        assert f(1) == 1
    finally:
        m.set_events(1, 0)
        m.free_tool_id(1)
    assert f(1) == "scm"


def test_record_is_not_discovered(core, serve, found):
    helper = fresh()

    class Calls(Record):
        def before_miss(self, *args):
            return helper(1) and None

    f = fresh()
    serve(f, "miss", record=Calls())
    core.hook_install()
    f(1)
    assert helper not in found
