"""Where Dynamo stops at Triton's and PyTorch's own: `triton.heuristics`, device contexts, result dtypes."""

from __future__ import annotations

import math

import torch
import triton
from triton.runtime.autotuner import Autotuner, Heuristics

from . import DeviceContext, Launcher, LauncherAdapter, Polyfill
from .polyfills import cdiv, next_power_of_2, prod


def describe() -> LauncherAdapter:
    return LauncherAdapter(
        "triton",
        launchers=(Launcher(Heuristics), Launcher(Autotuner, tuner=True)),
        polyfills=(
            Polyfill(math.prod, prod),
            Polyfill(triton.cdiv, cdiv),
            Polyfill(triton.next_power_of_2, next_power_of_2),
        ),
        folds=(torch.result_type,),
        device_queries=_device_queries,
        device_contexts=(DeviceContext(torch.cuda.device, torch.cuda.current_device),),
    )


def _device_queries() -> tuple:
    """The active driver's look-up of a device's properties: the number of multiprocessors, the shared memory of a block."""
    active = triton.runtime.driver._active  # not made here: its start may be an error, and only a launch needs it
    query = getattr(getattr(active, "utils", None), "get_device_properties", None)
    return () if query is None else (query,)
