"""The product on the simulated driver: synchronous builds into a cache of the session's own."""

from __future__ import annotations

import gc

import pytest
import torch
from support.leaks import no_handle_leaks  # noqa: F401 - a fixture for every test here

import trident_hook
from trident_hook._config import config
from trident_hook.testing import simdriver


@pytest.fixture(autouse=True)
def clean_slate(request):
    settings = dict(vars(config))
    config.build, config.cache_dir = "sync", request.getfixturevalue("cache_dir")
    simdriver.install()
    torch._dynamo.reset()
    yield
    trident_hook.disable()
    for name, value in settings.items():
        setattr(config, name, value)
    torch._dynamo.reset()
    gc.collect()
