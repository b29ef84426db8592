"""A short random walk over every function of walk.py, and proof that a walk notices a stale binary."""

from __future__ import annotations

import pytest

import trident_hook
from trident_hook.capture.graph import launches
from trident_hook.testing import simdriver

from . import compare, walk


@pytest.fixture(autouse=True)
def interpreted(clean_slate):
    simdriver.install(n_devices=2, interpret=True)


@pytest.mark.filterwarnings("ignore:.*keeps what it has")
def test_a_short_walk():
    """Any difference raises. How many of so few calls are hits is a matter of luck, but not that some are."""
    trident_hook.config.limit = 2
    tally = walk.run_all(calls=84, seed=1, results_every=3)
    assert (tally.calls, len(tally.hits_of)) == (84, len(walk.WALKS))
    assert tally.results >= 20
    assert tally.hits > 0
    assert tally.kernels > 0


def test_a_stale_binary_is_noticed(monkeypatch):
    """Specializations that forget what an aligned pointer means for the binary."""
    monkeypatch.setattr(launches, "_pointer_class", lambda compiled, declared, index: None)
    (wrong,) = (w for w in walk.WALKS if w.name == "None or a tensor")
    with pytest.raises(compare.Differs, match=r"launch 0 of with_none differs|a stale binary"):
        walk.run(wrong, 60, 1, walk.Tally())
