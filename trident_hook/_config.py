"""Settings: typed, read from the environment once, changed from Python at any time."""

from __future__ import annotations

import os
from pathlib import Path

from . import _variables
from ._variables import BUILD_MODES, LOG_CHANNELS, log_channels, size_of
from .errors import ConfigError


def default_cache_dir() -> Path | None:
    """$TRIDENT_HOOK_CACHE_DIR, else a folder of the user's cache folder, if there is a home."""
    return _variables.SETTINGS["cache_dir"].value(os.environ)


class Config:
    """The settings of the process, as attributes of `trident_hook.config`.

    build: "background" (the default; TRIDENT_HOOK_BUILD) builds modules in a process of its own while Dynamo's
        own cache serves the function; "sync" builds before the missing call returns.
    limit: most specializations a function may have before the rest of its calls keep their previous path
        (TRIDENT_HOOK_LIMIT; default 32: Dynamo's own is 8, but does not count the binaries of a kernel).
    rebuilds: most rebuilds of a function's module (TRIDENT_HOOK_REBUILDS; default 64).
    promote: give functions that `enable()` finds their call door (CPython 3.12+), so that the hook can step aside;
        False keeps the hook in and serves them through it (TRIDENT_HOOK_NO_PROMOTE=1; for tests and measurements).
    cache_dir: folder of compiled modules (TRIDENT_HOOK_CACHE_DIR), which must be this user's alone; None keeps them in memory.
    cache_limit: bytes that the folder may grow to, 1 GB by default (TRIDENT_HOOK_CACHE_LIMIT=500MB; as an attribute a number
        or such a text); what was used least recently is removed.
    cache: False never reads or writes that folder (TRIDENT_HOOK_NO_CACHE=1).
    logs: channels that are printed (TRIDENT_HOOK_LOGS).
    verify: run the plain function behind each hit and compare, as docs/debugging.md says (TRIDENT_HOOK_VERIFY=1; slow). For
        functions whose module is built from then on.
    checks: hold every step of a function against the states that it may have (TRIDENT_HOOK_CHECKS=1; for tests).

    A variable that means nothing is named in a warning at import and ignored. An attribute that is set to such a value, or that
    does not exist, raises `errors.ConfigError`."""

    build: str
    limit: int
    rebuilds: int
    promote: bool
    cache_dir: Path | None
    cache_limit: int
    cache: bool
    logs: frozenset[str]
    verify: bool
    checks: bool

    def __init__(self) -> None:
        for name, variable in _variables.SETTINGS.items():
            object.__setattr__(self, name, variable.value(os.environ))

    @property
    def disabled(self) -> bool:
        """TRIDENT_HOOK_DISABLE=1, read at every use: it always wins, with a value that means nothing as well."""
        return _variables.disabled(os.environ) is not None

    def __setattr__(self, name: str, value) -> None:
        if name == "build" and value not in BUILD_MODES:
            raise ConfigError(f"config.build = {value!r}", " or ".join(map(repr, BUILD_MODES)), "Set one of these.")
        if name in ("limit", "rebuilds") and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ConfigError(f"config.{name} = {value!r}", "a positive integer", "Set one.")
        if name in ("promote", "cache", "verify", "checks") and not isinstance(value, bool):
            raise ConfigError(f"config.{name} = {value!r}", "True or False", "Set one of these.")
        if name == "cache_dir":
            if not isinstance(value, (str, os.PathLike, type(None))):
                raise ConfigError(f"config.cache_dir = {value!r}", "a path, or None", "Set one.")
            value = None if value is None else Path(os.path.abspath(value))
        if name == "cache_limit":
            size = size_of(str(value)) if isinstance(value, (int, str)) and not isinstance(value, bool) else None
            if size is None:
                raise ConfigError(f"config.cache_limit = {value!r}", "a size such as 500MB or 2GB", "Set one.")
            value = size
        if name == "logs":
            channels = log_channels(value)
            if channels is None:
                raise ConfigError(f"config.logs = {value!r}", f"names out of {', '.join(LOG_CHANNELS)}, all",
                                  "Correct the list.")  # fmt: skip
            value = channels
        if name not in self.__dict__:
            raise ConfigError(f"config.{name}", "one of " + ", ".join(sorted(self.__dict__)), "Correct the name.")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return "Config(" + ", ".join(f"{k}={v!r}" for k, v in self.__dict__.items()) + ")"


config = Config()
