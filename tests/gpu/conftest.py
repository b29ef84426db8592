"""On a real GPU: synchronous builds into a folder of the session's own, and a clean start for every test."""

from __future__ import annotations

import gc

import pytest
import torch

import trident_hook
from trident_hook import _core
from trident_hook._config import config


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("modules")


@pytest.fixture(autouse=True)
def clean_slate(cache_dir):
    settings = dict(vars(config))
    config.build, config.cache_dir = "sync", cache_dir
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    assert trident_hook.settle(120)
    trident_hook.disable()
    for name, value in settings.items():
        setattr(config, name, value)
    torch._dynamo.reset()
    gc.collect()
    assert (_core.hook_state(), _core.live_counts()["promoted"]) == ("off", 0)


@pytest.fixture(scope="session", autouse=True)
def launch_callbacks():
    """As the first module that is loaded registers them: these tests launch without one."""
    from trident_hook.runtime import callbacks

    callbacks.register()
