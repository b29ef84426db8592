"""What a test must give back."""

from __future__ import annotations

import gc

import pytest
import torch  # noqa: F401 - its libraries must be in the process before _rt is loaded

from trident_hook import _rt


@pytest.fixture(autouse=True)
def no_handle_leaks():
    """Each tensor handle that the runtime gave out. What a result still holds is garbage by then."""
    before = _rt.live_handles()
    yield
    if _rt.live_handles() != before:
        gc.collect()
    assert _rt.live_handles() == before, "handles of tensors were not released"
