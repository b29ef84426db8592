"""The simulated driver for the tests of this folder: installed once, settings and records reset around each test."""

from __future__ import annotations

import pytest

from trident_hook.testing import simdriver


@pytest.fixture(scope="session")
def _installed():
    try:
        simdriver.install()
    except simdriver.RealDriverError as error:
        pytest.skip(f"no simulated CUDA driver: {error}")


@pytest.fixture
def sim(_installed):
    """The simulation as `install()` leaves it: one sm_90 device, launches recorded and run."""
    simdriver.install()
    simdriver.launches.clear()
    simdriver.errors.clear()
    simdriver.reset_counts()
    yield simdriver
    left, simdriver.errors[:] = list(simdriver.errors), []
    assert not left, f"launches failed in the interpreter: {left}"
