"""flash-linear-attention: its `CachedAutotuner`, and what it asks of the device."""

from __future__ import annotations

import sys

from . import Launcher, LauncherAdapter

#: Its cached questions about the machine. Which there are depends on its version.
_OF_THE_DEVICE = (
    "check_shared_mem",
    "check_pytorch_version",
    "get_multiprocessor_count",
    "get_device_capability",
    "get_device_smem_optin",
    "get_all_max_shared_mem",
)


def describe() -> LauncherAdapter:
    cache = sys.modules["fla.ops.utils.cache"]
    utils = sys.modules["fla.utils"]
    return LauncherAdapter(
        "fla",
        launchers=(Launcher(cache.CachedAutotuner, tuner=True, why_not=_tuner_refusal),),
        constants=tuple(function for name in _OF_THE_DEVICE if (function := getattr(utils, name, None)) is not None),
    )


def _tuner_refusal(tuner) -> str | None:
    """Its `run()` puts the config of a file into the tuner's own cache before the first launch for a key, unless it is told to
    read that file in every call."""
    cache = sys.modules["fla.ops.utils.cache"]
    if "run" in vars(tuner) or type(tuner).run is not cache.CachedAutotuner.run:
        return f"{type(tuner).__qualname__} has a run() of its own"
    mode = getattr(cache, "FLA_CACHE_MODE", None)
    if mode is not None and mode is cache.FlaCacheMode.ALWAYS:
        return "FLA_CACHE_MODE=always: its configs are read from their files in every call"
    return None
