"""The product on the simulated driver, with mini_gems described to it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
import mini_gems.buffers
import mini_gems.launchers
import mini_gems.ops
import mini_gems.pointwise
import mini_gems.runtime
from slice.conftest import clean_slate, served, through  # noqa: F401
from torch._prims_common import elementwise_dtypes

from trident_hook import integrations
from trident_hook.integrations import ArgumentWrapper, DeviceContext, Launcher, LauncherAdapter, Polyfill
from trident_hook.integrations.polyfills import is_non_overlapping_and_dense

_OPS = {getattr(mini_gems.ops, name).__code__ for name in ("silu",)}

ADAPTER = LauncherAdapter(
    "mini_gems",
    launchers=(Launcher(mini_gems.launchers.Entry), Launcher(mini_gems.launchers.Tuner, tuner=True)),
    wrappers=(ArgumentWrapper(mini_gems.buffers.Strided, "_base", "offset", "dtype"),),
    device_contexts=(DeviceContext(mini_gems.runtime.device, mini_gems.runtime.current_device),),
    polyfills=(Polyfill(torch.ops.aten.is_non_overlapping_and_dense, is_non_overlapping_and_dense),),
    quiet_log_methods=("debug",),
    constants=(mini_gems.runtime.sm_count,),
    folds=(elementwise_dtypes,),
    filled_at_first_call=((mini_gems.pointwise.Pointwise, "instantiate"),),
    serves=lambda function: function.__code__ in _OPS,
)


@pytest.fixture
def described():
    integrations.register(ADAPTER)
    yield ADAPTER
    integrations.unregister("mini_gems")
