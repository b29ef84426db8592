"""Whether the capture under way has set a context variable: what runs meanwhile in Python would see another value in a hit."""

from __future__ import annotations

import threading

_capturing = threading.local()


def forget() -> None:
    """At the start of a capture."""
    _capturing.were_set = False


def note() -> None:
    _capturing.were_set = True


def were_set() -> bool:
    return getattr(_capturing, "were_set", False)
