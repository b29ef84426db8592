"""The product on the simulated driver: synchronous builds into a cache of the session's own, and a clean start for
every test."""

from __future__ import annotations

import contextlib
import gc

import pytest
import torch
from support import routes

import trident_hook
from trident_hook import _core
from trident_hook._config import config
from trident_hook.testing import simdriver


@pytest.fixture(autouse=True)
def clean_slate(cache_dir):
    settings = dict(vars(config))
    config.build, config.cache_dir = "sync", cache_dir
    simdriver.install()
    simdriver.launches.clear()
    simdriver.errors.clear()
    simdriver.reset_counts()
    torch._dynamo.reset()
    yield
    assert trident_hook.settle(120), "a build did not end"
    trident_hook.disable()
    for name, value in settings.items():
        setattr(config, name, value)
    torch._dynamo.reset()
    gc.collect()
    assert (_core.hook_state(), _core.live_counts()["promoted"]) == ("off", 0)
    left, simdriver.errors[:] = list(simdriver.errors), []
    assert not left, f"launches failed in the interpreter: {left}"


@pytest.fixture(params=routes.DOORS)
def through(request):
    """through(fn) -> fn as it is called through this door. A fresh twin: nothing is known of it."""
    with contextlib.ExitStack() as stack:

        def enter(fn):
            return stack.enter_context(routes.door(request.param, routes.twin(fn)))

        enter.door, enter.stack = request.param, stack
        yield enter


@pytest.fixture
def served():
    """served(fn) -> a fresh twin of fn under jit, for tests where the door makes no difference."""
    return lambda fn: trident_hook.jit(routes.twin(fn))
