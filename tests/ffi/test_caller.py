"""A program in C++ (caller.cpp) calls a served function: it tells result, miss and error apart, from any thread, and
nothing is left behind by ten thousand calls of each."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch

import trident_hook
from trident_hook import _rt
from trident_hook._config import config

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")

RESULT, MISS, ERROR = 0, 1, 2
NAME = "trident_test.pick"
CALLS = 10_000


def pick(x, index, scale):
    x.mul_(1)  # an effect: what fails behind it is raised by the hit
    return torch.index_select(x, 0, index) * scale, x.shape[0]


@pytest.fixture(scope="module")
def caller(tmp_path_factory):
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        pytest.skip("no C++ compiler: neither $CXX nor g++ is on the path")
    package, target = Path(tvm_ffi.__file__).parent, tmp_path_factory.mktemp("caller") / "caller.so"
    line = [compiler, "-std=c++17", "-O1", "-fPIC", "-shared", "-pthread", f"-I{package / 'include'}",
            str(Path(__file__).with_name("caller.cpp")), f"-L{package / 'lib'}", "-ltvm_ffi", "-o", str(target)]  # fmt: skip
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(target))
    library.caller_often.restype = library.caller_alive.restype = ctypes.c_int64
    return library


@pytest.fixture
def served(tmp_path_factory):
    """The function's name in the global table, and the function."""
    before = dict(vars(config))
    config.build, config.cache_dir = "sync", tmp_path_factory.getbasetemp() / "modules"
    fn = trident_hook.jit(type(pick)(pick.__code__.replace(), pick.__globals__))
    x, index = torch.arange(6.0).view(3, 2), torch.tensor([0, 2])
    for _ in range(2):
        fn(x, index, 2)
    assert trident_hook.counts(fn)["hits"] == 1, trident_hook.explain(fn)
    tvm_ffi.register_global_func(NAME, trident_hook.scm(fn).as_tvm_ffi(), override=True)
    yield fn
    tvm_ffi.remove_global_func(NAME)
    for name, value in before.items():
        setattr(config, name, value)


def once(caller, doubles: bool, last: int) -> tuple[int, str]:
    text = ctypes.create_string_buffer(2000)
    found = caller.caller_once(NAME.encode(), int(doubles), ctypes.c_int64(last), text, ctypes.c_size_t(len(text)))
    return found, text.value.decode()


def test_a_result(caller, served):
    before = trident_hook.counts(served)
    assert once(caller, False, 2) == (RESULT, "3 rows: 0 2 8 10")
    assert once(caller, False, 1) == (RESULT, "3 rows: 0 2 4 6")
    after = trident_hook.counts(served)
    assert (after["hits"] - before["hits"], after["delegated"], after["python"]) == (2, before["delegated"], 0)


def test_a_miss(caller, served):
    """Another dtype than the one that was captured: nothing runs, nothing is captured."""
    before = trident_hook.counts(served)
    assert once(caller, True, 2) == (MISS, "")
    after = trident_hook.counts(served)
    assert (after["hits"], after["delegated"], after["errors"]) == (
        before["hits"],
        before["delegated"],
        before["errors"],
    )


def test_an_error(caller, served):
    found, text = once(caller, False, 9)
    assert found == ERROR
    with pytest.raises(IndexError) as eager:
        pick(torch.arange(6.0).view(3, 2), torch.tensor([0, 9]), 2)
    assert text == f"IndexError: {eager.value}"
    assert once(caller, False, 2)[0] == RESULT


@pytest.mark.parametrize("on_a_thread", [False, True], ids=["own thread", "new thread"])
@pytest.mark.parametrize(("doubles", "last"), [(False, 2), (True, 2), (False, 9)], ids=["result", "miss", "error"])
def test_nothing_is_left_behind(caller, served, doubles, last, on_a_thread):
    def often(n: int) -> int:
        return caller.caller_often(
            NAME.encode(), int(doubles), ctypes.c_int64(last), ctypes.c_int64(n), int(on_a_thread)
        )

    def left() -> dict:
        gc.collect()
        live = tvm_ffi.get_global_func("trident.handle.live")
        return {
            "references": sys.getrefcount(served.__wrapped__),
            "tensors": sum(type(o) is torch.Tensor for o in gc.get_objects()),
            "handles": _rt.live_handles(),
            "handles given out": live(),
            "memory of the caller": caller.caller_alive(),
        }

    assert often(50) == 50
    before, objects = left(), len(gc.get_objects())
    assert often(CALLS) == CALLS
    after = left()
    assert after.pop("tensors") <= before.pop("tensors"), "fewer is what earlier tests left"
    assert after == before
    assert len(gc.get_objects()) - objects < CALLS // 10
    assert before["memory of the caller"] == 0


def test_the_function_lives_as_long_as_the_table_holds_it(caller, served):
    module = trident_hook.scm(served)
    tvm_ffi.register_global_func("trident_test.kept", module.as_tvm_ffi())
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is not None
    assert caller.caller_often(b"trident_test.kept", 0, ctypes.c_int64(2), ctypes.c_int64(3), 0) == 3
    tvm_ffi.remove_global_func("trident_test.kept")
    gc.collect()
    assert gone() is None
