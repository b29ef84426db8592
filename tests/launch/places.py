"""Where a run by hand is served: settings and cache of its own, on the simulated driver or on a GPU."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import trident_hook
from trident_hook.testing import simdriver


@contextlib.contextmanager
def place(device: str, limit: int = 64, n_devices: int = 1):
    """Synchronous builds into an empty cache. device: "cuda", or "cpu" for `n_devices` simulated devices."""
    config, before = trident_hook.config, dict(vars(trident_hook.config))
    config.build, config.limit = "sync", limit
    with tempfile.TemporaryDirectory() as folder:
        config.cache_dir = Path(folder)
        if device == "cpu":
            simdriver.install(n_devices=n_devices, interpret=True)
        try:
            yield
        finally:
            if device == "cpu":
                simdriver.uninstall()
            for name, value in before.items():
                setattr(config, name, value)
