"""Which adapters there are. Nothing here imports a library: see `adapters()`."""

from __future__ import annotations

import importlib
import os
import sys
import threading

from .._logs import log
from .adapter import LauncherAdapter

#: Our module -> the library that must be imported, completely, before it is asked for its adapter by `describe()`.
_KNOWN = {
    ".triton": "triton",
    ".flag_gems": "flag_gems",
    ".liger_kernel": "liger_kernel.ops",
    ".fla": "fla.ops.utils.cache",
}

_lock = threading.Lock()
_registered: dict[str, LauncherAdapter] = {}
_waiting = dict(_KNOWN)


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def register(adapter: LauncherAdapter) -> None:
    """From the next capture on; replaces an adapter of the same name."""
    with _lock:
        _registered[adapter.name] = adapter


def unregister(name: str) -> None:
    """Functions that were captured with its help stay served."""
    with _lock:
        _registered.pop(name, None)


def adapters() -> tuple[LauncherAdapter, ...]:
    """Those registered, and those of known libraries that this process has imported by now."""
    for ours, library in list(_waiting.items()):
        module = sys.modules.get(library)
        if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
            continue
        _waiting.pop(ours, None)
        try:
            register(importlib.import_module(ours, __package__).describe())
        except Exception as error:  # another version of the library: it stays as it was without an adapter
            log("capture", "no adapter for %s: %s: %s", library, type(error).__name__, error)
    return tuple(_registered.values())


def launcher_types() -> tuple[type, ...]:
    return tuple(launcher.kind for adapter in adapters() for launcher in adapter.launchers)


def machinery() -> tuple[str, ...]:
    return tuple(module for adapter in adapters() for module in adapter.machinery)


def serves(function) -> bool:
    return any(adapter.serves(function) for adapter in adapters())
