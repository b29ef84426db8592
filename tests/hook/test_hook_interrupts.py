"""What is no Exception was sent to the program: it reaches the caller through every border between C and Python."""

import sys

import pytest
from hook_support import HAS_CALL_DOOR, Record


class Interrupt(BaseException):
    """As a time limit raises it: without its argument it cannot be made."""

    def __init__(self, limit):
        super().__init__(limit)
        self.limit = limit


INTERRUPTS = [KeyboardInterrupt(), SystemExit(3), Interrupt(5)]


@pytest.fixture(params=INTERRUPTS, ids=lambda each: type(each).__name__)
def interrupt(request):
    return request.param


@pytest.fixture
def unraisable(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: seen.append(args.exc_value))
    return seen


@pytest.fixture
def dynamo(core):
    """What set_eval_frame does, seen from outside."""
    state = {"callback": None}

    def set_eval_frame(callback):
        old, state["callback"] = state["callback"], callback
        return old

    core.delegation_setup(set_eval_frame)
    return state


def make():
    def f(x, ran):
        ran.append(x)
        if x == "raise":
            raise KeyError(x)
        return ("plain", x)

    return f


def test_before_miss(core, serve, door, dynamo, unraisable, interrupt):
    f, record = make(), Record(interrupt)
    serve(f, "miss", record=record)
    call, ran = door(f), []
    with pytest.raises(type(interrupt)) as caught:
        call(1, ran)
    assert caught.value is interrupt
    assert caught.traceback[-2].name == "f"  # as if the function had been interrupted before its first line
    assert (ran, unraisable, record.after_calls, dynamo["callback"]) == ([], [], 0, None)
    record.callback = "callback"
    assert call(2, ran) == ("plain", 2)
    assert (ran, record.after_calls) == ([2], 1)


def test_after_miss(core, serve, door, dynamo, unraisable, interrupt):
    f = make()
    record = Record("callback", after=interrupt)
    serve(f, "miss", record=record)
    call, ran = door(f), []
    with pytest.raises(type(interrupt)) as caught:
        call(1, ran)
    assert caught.value is interrupt
    assert (ran, unraisable, dynamo["callback"]) == ([1], [], None)
    record.after = None
    assert call(2, ran) == ("plain", 2)


def test_after_a_call_that_raised_the_interrupt_goes_first(serve, door, dynamo, unraisable, interrupt):
    f = make()
    serve(f, "miss", record=Record("callback", after=interrupt))
    with pytest.raises(type(interrupt)) as caught:
        door(f)("raise", [])
    assert caught.value is interrupt
    assert isinstance(interrupt.__context__, KeyError)
    assert unraisable == []


def test_entering_dynamo(core, serve, door, unraisable, interrupt):
    def broken(callback):
        raise interrupt

    core.delegation_setup(broken)
    f, record, ran = make(), Record("callback"), []
    serve(f, "miss", record=record)
    with pytest.raises(type(interrupt)) as caught:
        door(f)(1, ran)
    assert caught.value is interrupt
    assert (ran, record.after_calls, unraisable) == ([], 1, [])


def test_leaving_dynamo_is_done_all_the_same(core, serve, door, unraisable, interrupt):
    state = {"callback": None, "left": 0}

    def set_eval_frame(callback):
        if callback is None:
            state["left"] += 1
            if state["left"] == 1:
                raise interrupt
        old, state["callback"] = state["callback"], callback
        return old

    core.delegation_setup(set_eval_frame)
    f, record = make(), Record("callback")
    serve(f, "miss", record=record)
    with pytest.raises(type(interrupt)) as caught:
        door(f)(1, [])
    assert caught.value is interrupt
    assert (state, record.after_calls, unraisable) == ({"callback": None, "left": 2}, 1, [])


def test_the_call_itself(serve, door, dynamo, unraisable, interrupt):
    def f(x, ran):
        raise interrupt

    record = Record("callback")
    serve(f, "miss", record=record)
    with pytest.raises(type(interrupt)) as caught:
        door(f)(1, [])
    assert caught.value is interrupt
    assert (record.after_calls, unraisable, dynamo["callback"]) == (1, [], None)


def by_frame(core):
    core.hook_install()


def by_sentinel(core):
    def quiet():
        return 1

    core.hook_install()
    core.quiet_after_set(50)
    for _ in range(200):
        quiet()
    assert core.hook_state() == "aside"


WAYS = [by_frame, pytest.param(by_sentinel, marks=pytest.mark.skipif(not HAS_CALL_DOOR, reason="CPython 3.12"))]


@pytest.mark.parametrize("way", WAYS)
def test_discovery(core, unraisable, interrupt, way):
    """The function is not lost for it: it is shown again."""
    shown, ran = [], []

    def discoverer(function):
        if function.__name__ == "new":
            shown.append(function)
            if len(shown) == 1:
                raise interrupt

    core.discoverer_set(discoverer)
    way(core)

    def new(x):
        ran.append(len(x))
        return x

    with pytest.raises(type(interrupt)) as caught:
        new([1])
    assert caught.value is interrupt
    assert (shown, ran) == ([new], [])
    assert new([1, 2]) == [1, 2]
    assert new([1, 2]) == [1, 2]
    assert (shown, ran) == ([new, new], [2, 2])
    assert unraisable == []


def test_faults_of_ours_stay_ours(core, serve, door, dynamo, unraisable):
    """The other side: an Exception of the record does not reach the caller."""
    trouble = MemoryError("ours")
    f = make()
    serve(f, "miss", record=Record(trouble))
    assert door(f)(1, []) == ("plain", 1)
    assert unraisable == [trouble]


def test_nothing_is_leaked(core, serve, door, dynamo):
    f = make()
    record = Record(KeyboardInterrupt())
    serve(f, "miss", record=record)
    call, argument = door(f), object()
    before = sys.getrefcount(argument), sys.getrefcount(f), sys.getrefcount(record)
    for answer, after in [(KeyboardInterrupt(), None), ("callback", KeyboardInterrupt())]:
        record.callback, record.after = answer, after
        for _ in range(100):
            with pytest.raises(KeyboardInterrupt):
                call(argument, [])
            (record.callback if after is None else after).__traceback__ = None
    record.callback = record.after = answer = after = None
    assert (sys.getrefcount(argument), sys.getrefcount(f), sys.getrefcount(record)) == before
