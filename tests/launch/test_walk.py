"""A short random walk; the long one is `python -m tests.launch.walk`."""

from __future__ import annotations

import pytest

import trident_hook
from trident_hook.testing import simdriver

from . import compare, walk


@pytest.mark.slow
@pytest.mark.parametrize("which", walk.WALKS, ids=lambda which: which.name)
def test_no_stale_binary(which):
    trident_hook.config.limit = 4
    simdriver.install(interpret=True)
    tally = walk.Tally()
    with compare.stable_tuning():
        walk.run(which, 130, 7, tally)
    assert tally.calls == 130
    assert tally.hits > 10, tally
