"""What the words of the torch state mean (see ext/guard/state.cpp, which reads them), for people: a miss names what differs."""

from __future__ import annotations

import functools
from typing import Any

from .. import _rt
from .safe_text import key_names, names_of_numbers

_AUTOCAST_DEVICES = ("cpu", "cuda")  # c10's numbers 0 and 1; others are named by their number
_AUTOCAST_KEYS = ("AutocastCPU", "AutocastCUDA")


@functools.lru_cache(maxsize=64)
def differences(expected: tuple[Any, ...], seen: tuple[Any, ...]) -> list[tuple[str, str, str]]:
    """(what, expected, seen) of each part in which two states differ."""
    now, then = dict(_parts(seen)), dict(_parts(expected))
    found = [(name, then[name], now[name]) for name in then if then[name] != now[name]]
    for word, name in enumerate(("included", "excluded")):
        keys = [key_names(words[word]).difference(_AUTOCAST_KEYS) for words in (expected, seen)]
        if keys[0] != keys[1]:
            texts = [", ".join(sorted(mine - other)) or "none" for mine, other in (keys, reversed(keys))]
            found.append((f"{name} dispatch keys", f"{texts[0]} more", f"{texts[1]} more"))
    return found


def _parts(words: tuple[Any, ...]) -> Any:
    at = 0
    for name, bits in _rt.STATE_FLAGS:  # word 2, from its lowest bit on
        value = words[2] >> at & (1 << bits) - 1
        yield name, ("off", "on")[value] if bits == 1 else str(value)
        at += bits
    excluded = key_names(words[1])
    for number, device in enumerate(_AUTOCAST_DEVICES):
        dtype = _dtype(_byte(words, number) - 1)
        state = "off" if _AUTOCAST_KEYS[number] in excluded else "on"
        yield f"autocast for {device}", f"{state} ({dtype})"
    for number in range(len(_AUTOCAST_DEVICES), 24):
        yield f"autocast on device type {number}", str(_byte(words, number))
    yield "default dtype", _dtype(words[3] & 0xFF)
    yield "replaced allocations", str(words[3] >> 8 & 0xFF)
    yield "number of threads", str(words[3] >> 32)


def _byte(words: tuple[Any, ...], number: int) -> int:
    found: int = words[4 + number // 8] >> 8 * (number % 8) & 0xFF
    return found


def _dtype(number: int) -> str:
    found: str = names_of_numbers()[1].get(number, f"dtype {number}")
    return found
