"""A clean start, with verification on."""

from __future__ import annotations

import pytest
from support import slate

import trident_hook


@pytest.fixture(autouse=True)
def verifying(tmp_path_factory):
    with slate.clean(tmp_path_factory.mktemp("modules")):
        trident_hook.config.verify = True
        yield
