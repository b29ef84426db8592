"""Delegation to the real Dynamo, through both doors. The frames are TorchDynamo's to compile or to skip."""

import sys
import traceback

import pytest
from hook_support import HAS_CALL_DOOR, Record

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

from torch._C._dynamo import eval_frame  # noqa: E402


class Backend:
    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward


@pytest.fixture
def backend():
    torch._dynamo.reset()
    yield Backend()
    torch._dynamo.reset()


@pytest.fixture
def record(core, backend):
    core.delegation_setup(eval_frame.set_eval_frame, leak_repair())
    return Record(torch._dynamo.optimize(backend).callback)


def leak_repair():
    import ctypes
    import os

    library = ctypes.PyDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_python.so"))
    return ctypes.cast(library.eval_frame_callback_set, ctypes.c_void_p).value


def helper(x):
    return x.cos()


def make():
    def f(x, n):
        return helper(x).sin() + n

    return f


def state_when_idle(door):
    return "on" if door.name == "frame" else "off"


def test_first_call_compiles_and_is_right(core, fake, serve, door, backend, record):
    f, x = make(), torch.randn(4)
    expected = f(x, 2)
    serve(f, "miss", record=record)
    call = door(f)
    for _ in range(3):
        assert torch.allclose(call(x, 2), expected)
    assert len(backend.graphs) == 1
    assert core.hook_state() == state_when_idle(door)
    assert core.entry_stats(f.__code__)["delegated"] == 3
    assert eval_frame.get_eval_frame_callback() in (None, Ellipsis)
    core.entry_scm_set(f.__code__, fake.scm("arg0"))
    assert call(x, 2) is x
    assert len(backend.graphs) == 1


def test_callees_are_inlined_not_served(core, serve, door, backend, record):
    f, x = make(), torch.randn(4)
    serve(f, "miss", record=record)
    assert torch.allclose(door(f)(x, n=3), x.cos().sin() + 3)
    assert len(backend.graphs) == 1
    assert record.before_calls[0][1:] == (3, 7)
    assert record.after_calls == 1


def test_frames_that_dynamo_skips(core, serve, door, backend, record):
    def f(a):
        return a + 1

    serve(f, "miss", record=record)
    call = door(f)
    assert [call(3), call(4)] == [4, 5]
    assert backend.graphs == []
    assert len(record.before_calls) == 2
    assert core.hook_state() == state_when_idle(door)


def test_the_programs_exception(core, serve, door, backend, record):
    def f(x, d):
        y = x.sin()
        return y + d["missing"]

    serve(f, "miss", record=record)
    with pytest.raises(KeyError) as seen:
        door(f)(torch.randn(3), {})
    names = [frame.name for frame in traceback.extract_tb(seen.value.__traceback__)]
    assert "f" in names
    assert core.hook_state() == state_when_idle(door)


def test_backend_failure_leaves_no_shim_behind(core, fake, serve, door):
    torch._dynamo.reset()

    def failing(gm, example_inputs):
        raise RuntimeError("no backend today")

    def f(x):
        return x + 1

    core.delegation_setup(eval_frame.set_eval_frame, leak_repair())
    record = Record(torch._dynamo.optimize(failing).callback)
    serve(f, "miss", record=record)
    call = door(f)
    with pytest.raises(Exception, match="no backend today"):
        call(torch.randn(3))
    assert record.after_calls == 1
    assert core.hook_state() == state_when_idle(door)
    assert fake.evaluator() == ("other" if door.name == "frame" else "default")
    core.hook_remove()
    assert fake.evaluator() == "default"


def test_graph_break(core, serve, door, backend, record):
    def f(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    x = torch.randn(3)
    serve(f, "miss", record=record)
    call = door(f)
    for _ in range(2):
        assert torch.allclose(call(x), x.sin().cos())
    assert len(backend.graphs) == 2
    assert core.hook_state() == state_when_idle(door)


def test_inside_a_compiled_caller(core, serve, door, backend, record):
    """Dynamo inlines by code object, whatever door the function has; a disabled callee comes to us."""
    f, x = make(), torch.randn(4)
    serve(f, "arg0", record=record)
    call = door(f)

    @torch._dynamo.disable
    def outside(x):
        return call(x, 2)

    @torch.compile(backend=backend)
    def caller(x):
        return outside(x) * 2

    assert torch.equal(caller(x), x * 2)
    assert core.entry_stats(f.__code__)["hits"] >= 1


def test_delegated_while_a_region_is_active(core, serve, door, backend, record):
    f, x = make(), torch.randn(4)
    serve(f, "miss", record=record)
    call = door(f)
    outer = Backend()

    @torch._dynamo.disable
    def outside(x):
        return call(x, 2)

    @torch.compile(backend=outer)
    def caller(x):
        return outside(x) * 2

    for _ in range(2):
        assert torch.allclose(caller(x), (x.cos().sin() + 2) * 2)
    assert core.hook_state() == state_when_idle(door)


def test_tensors_do_not_leak(core, serve, door):
    import gc

    def f(x):
        return x

    serve(f, "arg0")
    call = door(f)
    x = torch.randn(4)
    before = sys.getrefcount(x)
    for _ in range(10_000):
        call(x)
    gc.collect()
    assert sys.getrefcount(x) == before


@pytest.mark.skipif(not HAS_CALL_DOOR, reason="the hook never steps aside before CPython 3.12")
def test_delegation_while_aside(core, serve, backend, record):
    f, x = make(), torch.randn(4)
    serve(f, "miss", record=record)
    core.promote(f)
    core.quiet_after_set(50)
    core.hook_install()

    def leaf():
        return None

    for _ in range(200):
        leaf()
    assert core.hook_state() == "aside"
    for _ in range(3):
        assert torch.allclose(f(x, 2), x.cos().sin() + 2)
    assert len(backend.graphs) == 1
    assert core.hook_state() == "aside"
