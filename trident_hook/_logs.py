"""Log channels: TRIDENT_HOOK_LOGS=hook,capture,guards,codegen,build,launch. Off, a call costs one set look-up. What is said
never fails the program that it is said in."""

from __future__ import annotations

import contextlib
import sys
import warnings

from ._config import config


def log(channel: str, message: str, *args) -> None:
    if channel in config.logs:
        _say(f"[trident_hook:{channel}] {message % args if args else message}")


def warn(message: str) -> None:
    """As a warning. Where warnings are errors it is said on standard error: it must not become one of the program's."""
    try:
        warnings.warn(message, stacklevel=2)
    except Warning:
        _say(message)


def _say(text: str) -> None:
    if sys.stderr is None:  # print() would take standard output instead
        return
    with contextlib.suppress(OSError, ValueError, UnicodeError):  # closed, full, or it cannot say such characters
        print(text, file=sys.stderr, flush=True)
