"""Settings: typed, read from the environment once, changed from Python at any time."""

from __future__ import annotations

import os
import re
from pathlib import Path

from .errors import ConfigError

_BUILD_MODES = ("background", "sync")
LOG_CHANNELS = ("hook", "capture", "guards", "codegen", "build", "launch")


def _env_flag(name: str) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if value in ("", "0", "false", "no", "off"):
        return False
    if value in ("1", "true", "yes", "on"):
        return True
    raise ConfigError(f"{name}={value!r}", "1 or 0", f"Unset {name}, or set it to 1 or 0.")


def _env_int(name: str, default: int, least: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise ConfigError(f"{name}={text!r}", f"an integer of at least {least}", f"Unset {name}, or correct it.")
    return value


def _env_choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = os.environ.get(name, "").strip() or default
    if value not in allowed:
        raise ConfigError(f"{name}={value!r}", " or ".join(map(repr, allowed)), f"Unset {name}, or correct it.")
    return value


def _env_logs() -> frozenset[str]:
    names = [n.strip() for n in os.environ.get("TRIDENT_HOOK_LOGS", "").split(",") if n.strip()]
    return _log_channels(names, "TRIDENT_HOOK_LOGS")


def _log_channels(names, where: str) -> frozenset[str]:
    if not isinstance(names, (list, tuple, set, frozenset)):
        names = [names]
    for name in names:
        if name != "all" and name not in LOG_CHANNELS:
            raise ConfigError(f"{where} names {name!r}", f"names out of {', '.join(LOG_CHANNELS)}, all",
                              "Correct the list.")  # fmt: skip
    return frozenset(LOG_CHANNELS if "all" in names else names)


def default_cache_dir() -> Path | None:
    """$TRIDENT_HOOK_CACHE_DIR, else a folder of the user's cache folder. None where there is no home: a folder that anybody
    could have guessed and made is no substitute."""
    explicit = os.environ.get("TRIDENT_HOOK_CACHE_DIR")
    if explicit:
        return Path(os.path.abspath(explicit))
    for base in (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")):
        if os.path.isabs(base):
            return Path(base) / "trident_hook"
    return None


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "K": 2**10, "M": 2**20, "G": 2**30}  # fmt: skip


def size_of(text: str) -> int | None:
    """Bytes out of `500MB`, `2 GB`, `1.5GB` or a plain number; None for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?B?)", text.strip().upper(), re.ASCII)
    return int(float(found[1]) * _UNITS[found[2]]) if found and found[2] in _UNITS else None


def _env_size(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    size = size_of(text)
    if size is None:
        raise ConfigError(f"{name}={text!r}", "a size such as 500MB or 2GB", f"Unset {name}, or correct it.")
    return size


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
    """

    def __init__(self) -> None:
        object.__setattr__(self, "build", _env_choice("TRIDENT_HOOK_BUILD", "background", _BUILD_MODES))
        object.__setattr__(self, "limit", _env_int("TRIDENT_HOOK_LIMIT", 32, 1))
        object.__setattr__(self, "rebuilds", _env_int("TRIDENT_HOOK_REBUILDS", 64, 1))
        object.__setattr__(self, "promote", not _env_flag("TRIDENT_HOOK_NO_PROMOTE"))
        object.__setattr__(self, "cache_dir", default_cache_dir())
        object.__setattr__(self, "cache_limit", _env_size("TRIDENT_HOOK_CACHE_LIMIT", 10**9))
        object.__setattr__(self, "cache", not _env_flag("TRIDENT_HOOK_NO_CACHE"))
        object.__setattr__(self, "logs", _env_logs())
        object.__setattr__(self, "verify", _env_flag("TRIDENT_HOOK_VERIFY"))
        object.__setattr__(self, "checks", _env_flag("TRIDENT_HOOK_CHECKS"))

    @property
    def disabled(self) -> bool:
        """TRIDENT_HOOK_DISABLE=1, read at every use: it always wins."""
        return _env_flag("TRIDENT_HOOK_DISABLE")

    def __setattr__(self, name: str, value) -> None:
        if name == "build" and value not in _BUILD_MODES:
            raise ConfigError(f"config.build = {value!r}", " or ".join(map(repr, _BUILD_MODES)), "Set one of these.")
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
            value = _log_channels(value, f"config.logs = {value!r}")
        if name not in self.__dict__:
            raise ConfigError(f"config.{name}", "one of " + ", ".join(sorted(self.__dict__)), "Correct the name.")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return "Config(" + ", ".join(f"{k}={v!r}" for k, v in self.__dict__.items()) + ")"


config = Config()
