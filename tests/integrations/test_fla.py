"""The adapter for flash-linear-attention, on a library of its shape: a tuner that looks into a file before it tunes, and cached
questions about the device."""

from __future__ import annotations

import enum
import functools
import sys
import types

import pytest
import torch
import triton
from support.programs import shift_kernel
from support.routes import twin
from triton.runtime.autotuner import Autotuner

import trident_hook
from trident_hook import integrations
from trident_hook.integrations import registry

ASKED = []


class Mode(enum.Enum):
    DISABLED = "disabled"
    ALWAYS = "always"


class CachedAutotuner(Autotuner):
    def run(self, *args, **kwargs):
        if sys.modules["fla.ops.utils.cache"].FLA_CACHE_MODE is Mode.ALWAYS:
            self.cache.clear()
        return super().run(*args, **kwargs)


class Louder(CachedAutotuner):
    def run(self, *args, **kwargs):
        ASKED.append("run")
        return super().run(*args, **kwargs)


@functools.cache
def check_shared_mem(arch="none", index=0):
    ASKED.append(arch)
    try:
        return len([0][index:]) > 0
    except TypeError:
        return False


@pytest.fixture
def library(monkeypatch):
    """Modules as the adapter looks for them; it is registered as for the real one."""
    cache, utils = types.ModuleType("fla.ops.utils.cache"), types.ModuleType("fla.utils")
    cache.CachedAutotuner, cache.FlaCacheMode, cache.FLA_CACHE_MODE = CachedAutotuner, Mode, Mode.DISABLED
    utils.check_shared_mem = check_shared_mem
    for module in (cache, utils):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(registry._waiting, ".fla", "fla.ops.utils.cache")
    ASKED.clear()
    yield cache
    integrations.unregister("fla")


def function_of(kind):
    configs = [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})]
    kernel = kind(shift_kernel, shift_kernel.arg_names, configs, ["n"], None, None)

    def launch(x):
        y = torch.empty_like(x)
        a = 3 if check_shared_mem("hopper", x.device.index) else 4
        kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, a, x.numel())
        return y

    return launch


def calls(launch) -> tuple:
    fn, plain = trident_hook.jit(twin(launch)), twin(launch)
    x = torch.arange(100.0)
    for _ in range(4):
        assert torch.equal(fn(x), plain(x))
    return trident_hook.counts(fn)["hits"], str(trident_hook.explain(fn).refused)


def test_its_tuner_and_its_questions_are_served(library):
    hits, refused = calls(function_of(CachedAutotuner))
    assert hits == 3, refused
    assert ASKED == ["hopper"]


def test_configs_that_are_read_in_every_call_are_refused(library):
    library.FLA_CACHE_MODE = Mode.ALWAYS
    hits, refused = calls(function_of(CachedAutotuner))
    assert (hits, "in every call" in refused) == (0, True), refused


def test_a_class_below_with_a_run_of_its_own_is_refused(library):
    hits, refused = calls(function_of(Louder))
    assert (hits, "a run() of its own" in refused) == (0, True), refused
    assert ASKED.count("run") == 8
