"""How a trace is given up, with a reason that `explain()` can name. One reason a capture, on the thread that captures."""

from __future__ import annotations

import threading

_capturing = threading.local()


def refuse(why: str):
    """Breaks the graph that Dynamo traces, here."""
    from .names import unimplemented

    note_refusal(why)
    unimplemented(gb_type="launcher described to trident_hook", context=why, explanation=why, hints=[])


def forbid(kind: str, why: str):
    """As `refuse`, and for good: Dynamo goes on behind some breaks in another way, which is no more right."""
    if getattr(_capturing, "forbidden", None) is None:
        _capturing.forbidden = (kind, why)
    refuse(why)


def forbidden() -> tuple[str, str] | None:
    """The first (kind, reason) that the capture under way was forbidden for."""
    return getattr(_capturing, "forbidden", None)


def note_refusal(why: str) -> None:
    """Why a launcher cannot be traced; `last_refusal()` gives the last such reason of the capture under way."""
    _capturing.refusal = why


def last_refusal() -> str | None:
    return getattr(_capturing, "refusal", None)


def forget_refusal() -> None:
    """At the start of a capture."""
    _capturing.refusal = _capturing.forbidden = None
