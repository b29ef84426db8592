"""The environment variables that are read, and what is said of one that means nothing: it is named once, at import, and
ignored. Nothing here raises: a typing error in a shell must not end the program."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUILD_MODES = ("background", "sync")
LOG_CHANNELS = ("hook", "capture", "guards", "codegen", "build", "launch")

_PREFIX = "TRIDENT_HOOK"
_YES, _NO = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "K": 2**10, "M": 2**20, "G": 2**30}  # fmt: skip


@dataclass(frozen=True)
class Variable:
    """`read` makes the setting's value of the variable's text; None for a text that means nothing."""

    name: str
    default: Callable[[], object]
    read: Callable[[str], object]
    expected: str

    def value(self, environment: Mapping[str, str]) -> Any:
        """The default where the variable is unset, empty or means nothing."""
        text = environment.get(self.name, "").strip()
        value = self.read(text) if text else None
        return self.default() if value is None else value

    def complaint(self, environment: Mapping[str, str]) -> str | None:
        text = environment.get(self.name, "").strip()
        if not text or self.read(text) is not None:
            return None
        return f"{self.name}={text!r} means nothing and is ignored; expected {self.expected}"


def flag(text: str) -> bool | None:
    """What `1` or `off` says; None for a word that says neither yes nor no."""
    word = text.strip().lower()
    return True if word in _YES else False if word in _NO else None


def size_of(text: str) -> int | None:
    """Bytes out of `500MB`, `2 GB`, `1.5GB` or a plain number; None for anything else."""
    found = re.fullmatch(r"(\d{1,20}(?:\.\d{1,20})?)\s*([KMGT]?B?)", text.strip().upper(), re.ASCII)
    return int(float(found[1]) * _UNITS[found[2]]) if found and found[2] in _UNITS else None


def log_channels(names) -> frozenset[str] | None:
    """The channels that a name or names stand for; None if one of them is no channel."""
    names = names if isinstance(names, (list, tuple, set, frozenset)) else [names]
    if any(name != "all" and name not in LOG_CHANNELS for name in names):
        return None
    return frozenset(LOG_CHANNELS if "all" in names else names)


def disabled(environment: Mapping[str, str]) -> str | None:
    """What TRIDENT_HOOK_DISABLE says, if it does not say no: whoever set it to a word that means nothing wanted it to be off."""
    text = environment.get("TRIDENT_HOOK_DISABLE", "")
    answer = flag(text)
    if answer is None:
        return f"TRIDENT_HOOK_DISABLE is set (to {text.strip()!r}, which is taken as 1)"
    return "TRIDENT_HOOK_DISABLE is set" if answer else None


def complaints(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable of ours that has a name or a value that means nothing."""
    found = [variable.complaint(environment) for variable in SETTINGS.values()]
    if flag(environment.get("TRIDENT_HOOK_DISABLE", "")) is None:
        found.append(f"{disabled(environment)}; expected 1 or 0")
    found += [_unknown(name) for name in environment if name.upper().startswith(_PREFIX) and name not in NAMES]
    return sorted(filter(None, found))


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.upper(), NAMES, n=1)
    return f"{name} is no setting of trident_hook and is ignored" + (f"; did you mean {near[0]}?" if near else "")


def _path(text: str) -> Path | None:
    try:
        return Path(os.path.abspath(text)) if text else None
    except OSError:  # a relative path where the working folder is gone
        return None


def _users_cache_dir() -> Path | None:
    """None where there is no home: a folder that anybody could have guessed and made is no substitute."""
    for base in (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")):
        if os.path.isabs(base):
            return Path(base) / "trident_hook"
    return None


def _positive(text: str) -> int | None:
    try:
        value = int(text)
    except ValueError:
        return None
    return value if value >= 1 else None


def _unless(text: str) -> bool | None:
    """A setting that is on unless its variable says so."""
    answer = flag(text)
    return None if answer is None else not answer


def _channels(text: str) -> frozenset[str] | None:
    return log_channels([name.strip() for name in text.split(",") if name.strip()])


def _build_mode(text: str) -> str | None:
    return text if text in BUILD_MODES else None


_WORDS = "1 or 0"
_SIZE = "a size such as 500MB or 2GB"
_CHANNELS = f"names out of {', '.join(LOG_CHANNELS)}, all"
_MODES = " or ".join(map(repr, BUILD_MODES))

#: By the attribute of `trident_hook.config` that starts with its value.
SETTINGS = {
    "build": Variable("TRIDENT_HOOK_BUILD", lambda: "background", _build_mode, _MODES),
    "limit": Variable("TRIDENT_HOOK_LIMIT", lambda: 32, _positive, "a positive integer"),
    "rebuilds": Variable("TRIDENT_HOOK_REBUILDS", lambda: 64, _positive, "a positive integer"),
    "promote": Variable("TRIDENT_HOOK_NO_PROMOTE", lambda: True, _unless, _WORDS),
    "cache_dir": Variable("TRIDENT_HOOK_CACHE_DIR", _users_cache_dir, _path, "a path"),
    "cache_limit": Variable("TRIDENT_HOOK_CACHE_LIMIT", lambda: 10**9, size_of, _SIZE),
    "cache": Variable("TRIDENT_HOOK_NO_CACHE", lambda: True, _unless, _WORDS),
    "logs": Variable("TRIDENT_HOOK_LOGS", frozenset, _channels, _CHANNELS),
    "verify": Variable("TRIDENT_HOOK_VERIFY", lambda: False, flag, _WORDS),
    "checks": Variable("TRIDENT_HOOK_CHECKS", lambda: False, flag, _WORDS),
}

#: Every name that means something: those, what is asked anew at each use, and what building and testing us reads.
NAMES = (
    *(variable.name for variable in SETTINGS.values()),
    "TRIDENT_HOOK_DISABLE",
    "TRIDENT_HOOK_CC",
    "TRIDENT_HOOK_BUILD_DEBUG",
    "TRIDENT_HOOK_BUILD_ONLY",
    "TRIDENT_HOOK_UPDATE_GOLDEN",
)
