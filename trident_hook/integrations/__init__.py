"""Libraries whose launchers capture is told of: `adapter` says what can be said, `registry` knows who said it."""

from .adapter import ArgumentWrapper, DeviceContext, Launcher, LauncherAdapter, Polyfill
from .registry import adapters, register, unregister

__all__ = [
    "ArgumentWrapper",
    "DeviceContext",
    "Launcher",
    "LauncherAdapter",
    "Polyfill",
    "adapters",
    "register",
    "unregister",
]
