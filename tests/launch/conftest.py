"""The product on the simulated driver, as in tests/slice, with launches recorded but not run."""

from __future__ import annotations

import gc

import pytest
import torch

import trident_hook
from trident_hook._config import config
from trident_hook.testing import simdriver


@pytest.fixture(autouse=True)
def clean_slate(cache_dir):
    settings = dict(vars(config))
    config.build, config.cache_dir, config.limit = "sync", cache_dir, 64
    simdriver.install(n_devices=2, interpret=False)
    simdriver.launches.clear()
    torch._dynamo.reset()
    yield
    assert trident_hook.settle(120), "a build did not end"
    trident_hook.disable()
    for name, value in settings.items():
        setattr(config, name, value)
    torch._dynamo.reset()
    simdriver.uninstall()
    gc.collect()
