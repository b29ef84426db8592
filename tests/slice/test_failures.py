"""The program's own errors: raised as the plain function raises them, counted as errors, never tried twice."""

from __future__ import annotations

import threading
import traceback

import pytest
import torch
import triton
import triton.language as tl
from support import programs
from support.routes import counted, outcome, routed, same, twin, warm

import trident_hook
from trident_hook.functions.learning import Learning
from trident_hook.testing import simdriver

X = torch.arange(16, dtype=torch.float32)


def test_an_operator_fails_in_the_middle(through):
    fn, good, bad = through(programs.failing), torch.tensor([0, 15]), torch.tensor([0, 16])
    warm(fn, X, good)
    compiled = torch._dynamo.utils.counters["frames"]["total"]
    for _ in range(3):
        routed(fn, X, bad, via="error", raises=IndexError, launches=1)
    assert torch._dynamo.utils.counters["frames"]["total"] == compiled, "nothing was compiled again"
    routed(fn, X, good, via="scm", launches=1)
    assert trident_hook.explain(fn).builds == 1


def test_the_first_call_fails(through):
    """Nothing is known yet: Dynamo runs the call, and the plain function's error is what comes out."""
    fn, good, bad = through(programs.failing), torch.tensor([0, 15]), torch.tensor([0, 16])
    routed(fn, X, bad, via="dynamo", raises=IndexError)
    routed(fn, X, good, via=None)
    routed(fn, X, good, via="scm")


def test_the_error_has_the_functions_own_line_in_its_traceback(through):
    fn = through(programs.failing)
    warm(fn, X, torch.tensor([0]))
    error = routed(fn, X, torch.tensor([99]), via="error", raises=IndexError)
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert names[-1] == "failing", names


def test_effects_before_the_failure_stay(served):
    fn = served(mutate_then_fail)
    routed(fn, X.clone(), torch.tensor([0]), via="dynamo", mutates=True)
    routed(fn, X.clone(), torch.tensor([0]), via="scm", mutates=True)
    routed(fn, X.clone(), torch.tensor([99]), via="error", raises=IndexError, mutates=True)


def mutate_then_fail(x, index):
    programs.shift_kernel[(1,)](x, x, 3, x.numel(), BLOCK=64)
    return torch.index_select(x, 0, index)


@pytest.mark.parametrize("code", ["CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"])
def test_a_launch_fails(through, code):
    fn = through(programs.shift)
    warm(fn, X, 3)
    with simdriver.inject("launch", code):
        plain = outcome(twin(fn), (X, 3), {}).error
    with simdriver.inject("launch", code) as injection, counted(fn) as added:
        error = outcome(fn, (X, 3), {}).error
    assert injection.fired == 1, "the launch was not tried again"
    assert (added["errors"], added["misses"], added["delegated"]) == (1, 0, 0)
    assert isinstance(error, RuntimeError)
    assert isinstance(plain, RuntimeError)
    assert str(error).startswith(str(plain))
    assert "shift_kernel" in str(error)
    assert code in str(error)
    routed(fn, X, 3, via="scm", launches=1)


@triton.jit
def loaded_by_one_test_only(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets, mask=offsets < n) - 41, mask=offsets < n)


def subtract(x):
    y = torch.empty_like(x)
    loaded_by_one_test_only[(1,)](x, y, x.numel(), BLOCK=64)
    return y


def test_a_module_cannot_be_loaded(served):
    """The binary is loaded at its first launch. A failure is raised; the next call tries to load it again."""
    fn = served(subtract)
    routed(fn, X, via="dynamo")
    with simdriver.inject("load", "CUDA_ERROR_OUT_OF_MEMORY") as injection:
        with counted(fn) as added:
            error = outcome(fn, (X,), {}).error
    assert injection.fired == 1
    assert isinstance(error, RuntimeError)
    assert (added["errors"], added["delegated"]) == (1, 0)
    routed(fn, X, via="scm", launches=1)


def test_the_second_launch_fails(served):
    fn = served(two_launches)
    routed(fn, X.clone(), via="dynamo", mutates=True)
    routed(fn, X.clone(), via="scm", mutates=True)
    ours, eager = X.clone(), X.clone()
    for call, x in ((fn, ours), (twin(fn), eager)):
        with simdriver.inject("launch", "CUDA_ERROR_OUT_OF_MEMORY", skip=1) as injection:
            assert isinstance(outcome(call, (x,), {}).error, RuntimeError)
        assert injection.fired == 1
    assert torch.equal(ours, eager)
    assert torch.equal(ours, X + 3)
    routed(fn, X.clone(), via="scm", mutates=True)


def two_launches(x):
    programs.shift_kernel[(1,)](x, x, 3, x.numel(), BLOCK=64)
    programs.stretch_kernel[(1,)](x, x, 3, x.numel(), BLOCK=64)
    return x


def test_too_many_arguments(through):
    fn = through(programs.shift)
    warm(fn, X, 3)
    for args, kwargs in (((), {}), ((X,), {}), ((X, 3, 4), {}), ((X, 3), {"a": 3}), ((X,), {"b": 3})):
        with pytest.raises(TypeError) as raised:
            fn(*args, **kwargs)
        assert str(raised.value) == str(outcome(twin(fn), args, kwargs).error)
    routed(fn, X, 3, via="scm")


# -- the function is in use while something else happens ------------------------------------------------------------

_during: list = []


@torch.library.custom_op("trident_tests::interrupt", mutates_args=())
def interrupt(x: torch.Tensor) -> torch.Tensor:
    for action in _during:
        action()
    return x.clone()


@interrupt.register_fake
def _(x):
    return torch.empty_like(x)


def interrupted(x):
    y = torch.empty_like(x)
    programs.shift_kernel[(1,)](x, y, 3, x.numel(), BLOCK=64)
    return torch.ops.trident_tests.interrupt(y) + 1


@pytest.fixture
def during():
    yield _during
    _during.clear()


def test_disable_during_a_call(through, during):
    fn = through(interrupted)
    warm(fn, X)
    during.append(trident_hook.disable)
    with counted(fn) as added:
        assert torch.equal(fn(X), X + 4)
    assert added["hits"] == 1, "a call ends as it began"
    during.clear()
    routed(fn, X, via="scm" if through.door == "jit" else "alone")
    if through.door != "jit":
        with trident_hook.enable(include=[fn]):
            routed(fn, X, via="scm")


def test_disable_during_a_miss(through, during):
    fn = through(interrupted)
    done = []
    during.append(lambda: done or (done.append(1), trident_hook.disable()))
    assert torch.equal(fn(X), X + 4)
    during.clear()
    assert same(fn(X), twin(fn)(X))
    with trident_hook.enable(include=[getattr(fn, "__wrapped__", fn)]):
        fn(X)
        routed(fn, X, via="scm")


def test_disable_from_another_thread_during_a_call(through, during):
    fn = through(interrupted)
    warm(fn, X)

    def elsewhere():
        thread = threading.Thread(target=trident_hook.disable)
        thread.start()
        thread.join()

    during.append(elsewhere)
    with counted(fn) as added:
        assert torch.equal(fn(X), X + 4)
    assert added["hits"] == 1
    during.clear()
    routed(fn, X, via="scm" if through.door == "jit" else "alone")


def test_the_module_is_replaced_during_a_call(served, during):
    """The operator calls the same function with another dtype: a new module is swapped in below a running call."""
    fn = served(interrupted)
    warm(fn, X)
    done = []
    during.append(lambda: done or (done.append(1), fn(X.double())))
    assert torch.equal(fn(X), X + 4)
    assert trident_hook.explain(fn).builds == 2
    during.clear()
    routed(fn, X, via="scm")
    assert same(fn(X.double()), X.double() + 4)  # its specialization holds under the state inside operators


def test_the_function_is_called_by_an_operator_of_its_own(served, during):
    """Recursion through a specialization: the inner call is a hit of the same module."""
    fn, depth = served(interrupted), []
    warm(fn, X)

    def again():
        if len(depth) < 20:
            depth.append(1)
            assert torch.equal(fn(X), X + 4)

    during.append(again)
    for expected in (
        1,
        21,
    ):  # the state inside an operator is another: the first inner call misses
        depth.clear()
        with counted(fn) as added:
            assert torch.equal(fn(X), X + 4)
        assert added["hits"] >= expected
    assert (added["hits"], added["misses"]) == (21, 0)


def test_an_operator_written_in_python_fails(served, during):
    fn = served(interrupted)
    warm(fn, X)

    def fail():
        raise KeyError("mine")

    during.append(fail)
    with counted(fn) as added, pytest.raises(KeyError, match="mine"):
        fn(X)
    assert added["errors"] == 1
    assert added["delegated"] == 0
    during.clear()
    routed(fn, X, via="scm")


@pytest.mark.parametrize("place", ["failed", "takes_sizes_as_they_are"])
def test_a_fault_of_ours_in_a_capture_does_not_reach_the_call(served, monkeypatch, place):
    """Where no other handler stands: while a refusal is noted, and before Dynamo is asked at all."""

    def fault(*args, **kwargs):
        faults.append(place)
        raise RuntimeError("a fault of ours")

    faults, expected = [], programs.breaking(X)
    fn = served(programs.breaking)
    monkeypatch.setattr(Learning, place, fault)
    for _ in range(2):
        assert torch.equal(fn(X), expected)
    assert faults
    monkeypatch.undo()
    assert torch.equal(fn(X), expected)
