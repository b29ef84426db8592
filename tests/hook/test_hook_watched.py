"""While a tracer, profiler or monitoring tool watches, calls run as plain Python and produce their normal events."""

import sys
import threading

import pytest
from hook_support import HAS_CALL_DOOR


def make():
    def watched(x):
        return ("plain", x)

    return watched


@pytest.mark.parametrize("setter", ["settrace", "setprofile"])
def test_trace_and_profile(core, serve, door, setter):
    f = serve(make())
    call = door(f)
    assert call(1) == "scm"
    events = []

    def watch(frame, event, arg):
        if frame.f_code is f.__code__:
            events.append(event)
        return watch

    old = getattr(sys, setter.replace("set", "get"))()
    getattr(sys, setter)(watch)
    try:
        result = call(1)
    finally:
        getattr(sys, setter)(old)
    assert result == ("plain", 1)
    assert events[0] == "call"
    assert events[-1] == "return"
    assert call(1) == "scm"


def test_another_threads_tracer_does_not_matter(serve, door):
    call = door(serve(make()))
    results, traced, done = [], threading.Event(), threading.Event()

    def other():
        sys.settrace(lambda *a: None)
        traced.set()
        done.wait()
        sys.settrace(None)

    t = threading.Thread(target=other)
    t.start()
    traced.wait()
    results.append(call(1))
    done.set()
    t.join()
    assert results == ["scm"]


@pytest.mark.skipif(not HAS_CALL_DOOR, reason="sys.monitoring came with CPython 3.12")
@pytest.mark.parametrize("scope", ["global", "local"])
def test_monitoring(serve, door, scope):
    f = serve(make())
    call = door(f)
    m = sys.monitoring
    seen = []
    m.use_tool_id(0, "test debugger")
    try:
        m.register_callback(0, m.events.PY_START, lambda code, offset: seen.append(code))
        if scope == "global":
            m.set_events(0, m.events.PY_START)
        else:
            m.set_local_events(0, f.__code__, m.events.PY_START)
        assert call(1) == ("plain", 1)
        assert f.__code__ in seen
    finally:
        if scope == "local":
            m.set_local_events(0, f.__code__, 0)
        m.set_events(0, 0)
        m.register_callback(0, m.events.PY_START, None)
        m.free_tool_id(0)
    assert call(1) == "scm"


def test_a_hit_shows_no_frame(serve, door):
    seen = []
    f = make()
    serve(f, "call", lambda func, args: seen.append(sys._getframe(1).f_code) or "scm")
    call = door(f)

    def caller():
        return call(1)

    assert caller() == "scm"
    assert seen == [caller.__code__]
