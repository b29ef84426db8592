"""A tuner that rounds its keys makes one choice for a range of sizes: so does one specialization."""

from __future__ import annotations

import mini_gems.launchers
import pytest
import torch
from mini_gems import ops
from support.routes import routed, warm

from trident_hook import integrations
from trident_hook.integrations import Launcher, LauncherAdapter


@pytest.fixture
def rounding(described):
    tuner = Launcher(mini_gems.launchers.Tuner, tuner=True, rounded_keys=lambda tuner: dict.fromkeys(tuner.keys, 32))
    integrations.register(LauncherAdapter("rounding", launchers=(tuner,)))
    ops.tag_tiles_kernel.fn.cache.clear()
    ops.tag_tiles_kernel.cache.clear()
    yield
    integrations.unregister("rounding")


@pytest.mark.usefixtures("rounding")
def test_sizes_that_are_rounded_alike_share_a_specialization(served):
    """The answer tells which tile was chosen: 64 for 33 columns to 64, 32 below."""
    fn = served(ops.tag_tiles)
    warm(fn, torch.zeros(2, 40))
    fn(torch.zeros(2, 52))  # the size becomes a symbol, here a multiple of four alone, as 40 is not of 16
    for columns in (52, 44, 36, 60, 59):
        routed(fn, torch.zeros(2, columns), launches=1)
    routed(fn, torch.zeros(2, 65), via="dynamo")  # 96
    routed(fn, torch.zeros(2, 31), via="dynamo")  # 32
    routed(fn, torch.zeros(2, 33), launches=1)


def test_without_that_each_size_has_its_own(served, described):
    fn = served(ops.tag_tiles)
    warm(fn, torch.zeros(2, 40))
    fn(torch.zeros(2, 52))
    routed(fn, torch.zeros(2, 52), launches=1)
    routed(fn, torch.zeros(2, 44), via="dynamo")
