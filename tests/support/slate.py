"""The product on the simulated driver, from a clean start: for tests outside tests/slice."""

from __future__ import annotations

import contextlib

import torch

import trident_hook
from trident_hook.testing import simdriver


@contextlib.contextmanager
def clean(cache_dir):
    """Synchronous builds into `cache_dir`; afterwards nothing is enabled and every setting is as it was."""
    config = trident_hook.config
    settings = dict(vars(config))
    config.build, config.cache_dir = "sync", cache_dir
    simdriver.install()
    torch._dynamo.reset()
    try:
        yield
    finally:
        trident_hook.settle(120)
        trident_hook.disable()
        for name, value in settings.items():
            setattr(config, name, value)
        torch._dynamo.reset()
        simdriver.launches.clear()
