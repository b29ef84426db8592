"""Every test of the runtime must give back each tensor handle that it was given."""

from __future__ import annotations

import pytest
import torch  # noqa: F401  (its libraries must be in the process before _rt is loaded)

from trident_hook import _rt


@pytest.fixture(autouse=True)
def no_handle_leaks():
    before = _rt.live_handles()
    yield
    assert _rt.live_handles() == before
