"""A miss asks the record, delegates when it says so, tells it afterwards, and never raises anything of its own."""

import sys

import pytest
from hook_support import Record


def make():
    def f(x):
        if x == "raise":
            raise KeyError(x)
        return ("plain", x)

    return f


class Dynamo:
    """What set_eval_frame does, seen from outside: it remembers the callback and returns the old one."""

    def __init__(self):
        self.callback, self.calls = None, []

    def set_eval_frame(self, callback):
        old, self.callback = self.callback, callback
        self.calls.append(callback)
        return old


@pytest.fixture
def unraisable(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: seen.append(args.exc_value))
    return seen


@pytest.fixture
def dynamo(core):
    d = Dynamo()
    core.delegation_setup(d.set_eval_frame)
    return d


def kind(door):
    return "frame" if door.name == "frame" else "call"


def test_no_callback_is_plain(core, serve, door, dynamo):
    f, record = make(), Record(None)
    serve(f, "miss", record=record)
    assert door(f)(1) == ("plain", 1)
    assert record.before_calls == [(kind(door), 3, 7)]
    assert record.after_calls == 0
    assert dynamo.calls == []
    stats = core.entry_stats(f.__code__)
    assert (stats["misses"], stats["python"], stats["delegated"]) == (1, 1, 0)


def test_a_call_on_trial(core, serve, door, dynamo):
    f, record = make(), Record(("a kind",))
    serve(f, "miss", record=record)
    assert door(f)(1) == ("plain", 1)
    with pytest.raises(KeyError, match="raise"):
        door(f)("raise")
    assert record.trials == [(("a kind",), False), (("a kind",), True)]
    assert (record.after_calls, dynamo.calls) == (0, [])
    stats = core.entry_stats(f.__code__)
    assert (stats["misses"], stats["python"], stats["delegated"]) == (2, 2, 0)


def test_without_an_scm_every_call_is_a_miss(core, door):
    f, record = make(), Record(None)
    core.entry_create(f.__code__, record, 3)
    assert door(f)(1) == ("plain", 1)
    assert record.before_calls == [(kind(door), -1, -1)]
    core.entry_drop(f.__code__)


def test_without_record_and_scm_nothing_happens(core, door):
    f = make()
    core.entry_create(f.__code__, None, 3)
    assert door(f)(1) == ("plain", 1)
    assert set(core.entry_stats(f.__code__).values()) == {0}
    core.entry_drop(f.__code__)


def test_delegated(core, serve, door, dynamo):
    f, record = make(), Record("callback")
    serve(f, "miss", record=record)
    assert door(f)(1) == ("plain", 1)
    assert dynamo.calls == ["callback", None]
    assert dynamo.callback is None
    assert record.after_calls == 1
    assert len(record.before_calls) == 1  # the frame door was not asked again for the same call
    stats = core.entry_stats(f.__code__)
    assert (stats["misses"], stats["python"], stats["delegated"]) == (1, 0, 1)


def test_without_delegation_setup_it_is_plain(core, serve, door):
    f, record = make(), Record("callback")
    serve(f, "miss", record=record)
    assert door(f)(1) == ("plain", 1)
    assert core.entry_stats(f.__code__)["python"] == 1
    assert record.after_calls == 0


def test_the_programs_exception_survives_after_miss(serve, door, dynamo, unraisable):
    trouble = ValueError("after")
    f, record = make(), Record("callback", after=trouble)
    serve(f, "miss", record=record)
    with pytest.raises(KeyError, match="raise"):
        door(f)("raise")
    assert unraisable == [trouble]
    assert dynamo.callback is None


def test_before_miss_raises(core, serve, door, dynamo, unraisable):
    trouble = ValueError("before")
    f, record = make(), Record(trouble)
    serve(f, "miss", record=record)
    assert door(f)(1) == ("plain", 1)
    assert unraisable == [trouble]
    assert core.entry_stats(f.__code__)["python"] == 1
    assert dynamo.calls == []
    assert record.after_calls == 0


def test_set_eval_frame_raises(core, serve, door, unraisable):
    trouble = RuntimeError("no Dynamo today")

    def broken(callback):
        raise trouble

    core.delegation_setup(broken)
    f, record = make(), Record("callback")
    serve(f, "miss", record=record)
    assert door(f)(1) == ("plain", 1)
    assert unraisable == [trouble]
    stats = core.entry_stats(f.__code__)
    assert (stats["python"], stats["delegated"]) == (1, 0)
    assert record.after_calls == 1


def test_outer_callback_is_put_back(serve, door, dynamo):
    dynamo.callback = "outer"
    f = make()
    serve(f, "miss", record=Record("inner"))
    door(f)(1)
    assert dynamo.calls == ["inner", "outer"]
    assert dynamo.callback == "outer"


def test_record_may_swap_the_scm_for_the_next_call(core, fake, serve, door, dynamo):
    class Learns(Record):
        def after_miss(self, raised=False):
            core.entry_scm_set(f.__code__, fake.scm("const", "learned"))

    f = make()
    serve(f, "miss", record=Learns("callback"))
    call = door(f)
    assert [call(1), call(1)] == [("plain", 1), "learned"]


def test_record_may_drop_the_entry(core, serve, door, dynamo):
    class Drops(Record):
        def before_miss(self, *args):
            core.entry_drop(f.__code__)
            return "callback"

    f = make()
    serve(f, "miss", record=Drops())
    assert door(f)(1) == ("plain", 1)


def test_recursive_delegation(core, serve, dynamo):
    def rec(n):
        return n if n == 0 else rec(n - 1)

    record = Record("callback")
    serve(rec, "miss", doors=1, record=record)
    core.hook_install()
    assert rec(4) == 0
    assert len(record.before_calls) == 5
    assert record.after_calls == 5
    assert dynamo.callback is None


def test_delegation_setup_checks(core):
    with pytest.raises(TypeError, match="expected a callable or None"):
        core.delegation_setup(3)
    with pytest.raises(TypeError):
        core.delegation_setup(None, "address")
