"""FlagGems 5.0: `LibEntry` and `LibTuner`, `StridedBuffer`, its debug logging, its dispatcher entry points."""

from __future__ import annotations

import sys

import torch

from . import ArgumentWrapper, Launcher, LauncherAdapter, Polyfill
from .polyfills import is_non_overlapping_and_dense, tile_sizes


def describe() -> LauncherAdapter:
    from torch._prims_common import elementwise_dtypes

    # By name: the package's functions hide modules of the same name.
    names = ("device_info", "libentry", "pointwise_dynamic", "shape_utils", "tensor_wrapper")
    modules = (sys.modules[f"flag_gems.utils.{name}"] for name in names)
    device_info, libentry, pointwise_dynamic, shape_utils, tensor_wrapper = modules
    constants = ("get_device_id", "get_device_capability", "get_sm_count", "get_l2_cache_size")
    return LauncherAdapter(
        "flag_gems",
        launchers=(
            Launcher(libentry.LibEntry, why_not=_entry_refusal),
            *(
                Launcher(kind, tuner=True, rounded_keys=_rounded_keys, why_not=_tuner_refusal)
                for kind in _tuner_types(libentry.LibTuner)
            ),
        ),
        wrappers=(ArgumentWrapper(tensor_wrapper.StridedBuffer, "_base", "offset", "dtype"),),
        polyfills=(
            Polyfill(torch.ops.aten.is_non_overlapping_and_dense, is_non_overlapping_and_dense),
            Polyfill(shape_utils.heuristics_for_tile_size, tile_sizes),
        ),
        quiet_log_methods=("debug",),
        block_hooks=_block_hooks(),
        constants=tuple(getattr(device_info, name) for name in constants),
        folds=(elementwise_dtypes,),
        filled_at_first_call=((pointwise_dynamic.PointwiseDynamicFunction, "instantiate"),),
        serves=_is_entry_point,
        machinery=(libentry.__name__,),
    )


def _tuner_types(base: type) -> list[type]:
    return [base, *base._dispatch_table.values()]  # type: ignore[attr-defined] # of a library's class


def _entry_refusal(entry) -> str | None:
    """A `LibEntry` keeps, for each key of its arguments, the binary, the config and the heuristics' values of the first
    launch: what the layers inside would choose again."""
    libentry = sys.modules["flag_gems.utils.libentry"]
    if "run" in vars(entry) or type(entry).run.__module__ != libentry.__name__:
        return "LibEntry.run is not FlagGems' own"
    return None


def _tuner_refusal(tuner) -> str | None:
    """A `LibTuner` looks its config up by a function of its key arguments and the dtypes, and keeps what it found."""
    base = sys.modules["flag_gems.utils.libentry"].LibTuner
    if type(tuner).run is not base.run or type(tuner).get_key is not base.get_key:
        return f"{type(tuner).__name__} runs or keys launches in its own way"
    return None


def _rounded_keys(tuner) -> dict[str, int]:
    """Key arguments that are rounded up to a multiple of 32 before they are looked up."""
    align32 = sys.modules["flag_gems.utils.libentry"].align32_strategy
    return {name: 32 for name, strategy in zip(tuner.keys, tuner.strategy, strict=True) if strategy is align32}


def _block_hooks() -> tuple:
    """Hopper's matrix product has one: it sets the block shapes of its descriptors from the config's sizes."""
    scope = sys.modules["flag_gems"].mm.__globals__  # the module's name depends on the GPU
    hook = scope.get("matmul_tma_set_block_size_hook")
    return () if hook is None else (hook,)


_entry_points: set = set()


def _is_entry_point(function) -> bool:
    """What FlagGems registers with the dispatcher: `mm` is one, though `general_mm` has the launch."""
    if not _entry_points:
        module = sys.modules["flag_gems"]
        entries = getattr(module, "_FULL_CONFIG", ())
        _entry_points.update(code for entry in entries if (code := getattr(entry[1], "__code__", None)) is not None)
    return function.__code__ in _entry_points
