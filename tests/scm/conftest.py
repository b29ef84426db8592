"""The product on the simulated driver, from a clean start, as the slice's tests have it."""

from __future__ import annotations

import pytest
from support import routes, slate

import trident_hook


@pytest.fixture(autouse=True)
def clean_slate(cache_dir):
    with slate.clean(cache_dir):
        yield


@pytest.fixture
def served():
    """served(fn) -> a fresh twin of fn under jit."""
    return lambda fn: trident_hook.jit(routes.twin(fn))
