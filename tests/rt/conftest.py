"""Every test of the runtime must give back each tensor handle that it was given."""

from __future__ import annotations

import warnings
from contextlib import contextmanager

import pytest
import torch
from support.leaks import no_handle_leaks  # noqa: F401 - a fixture for every test here


@contextmanager
def overriding(name, function, key="CPU"):
    """An ATen operator's kernel replaced, as libraries do it."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "Overriding a previously registered kernel", once for a process
        library.impl(name, function, key)
    try:
        yield
    finally:
        library._destroy()


@pytest.fixture
def override():
    return overriding


@pytest.fixture(scope="session", autouse=True)
def launch_callbacks():
    """As the first module that is loaded registers them: these tests launch without one."""
    from trident_hook.runtime import callbacks

    callbacks.register()
