"""Where Dynamo stops at Triton's and PyTorch's own: `triton.heuristics`, device contexts, result dtypes."""

from __future__ import annotations

import math

import torch
from triton.runtime.autotuner import Heuristics

from . import DeviceContext, Launcher, LauncherAdapter, Polyfill
from .polyfills import prod


def describe() -> LauncherAdapter:
    return LauncherAdapter(
        "triton",
        launchers=(Launcher(Heuristics),),
        polyfills=(Polyfill(math.prod, prod),),
        folds=(torch.result_type,),
        device_contexts=(DeviceContext(torch.cuda.device, torch.cuda.current_device),),
    )
