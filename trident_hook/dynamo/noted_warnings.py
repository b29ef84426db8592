"""Warnings of what runs while a capture is made: noted, and not shown. The program never asked for those calls.

What PyTorch warns of once in a process is not used up by them either: the call that is served, or made by plain Python, still does."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def noted() -> Iterator[list[str]]:
    """Yields the list of what this thread is warned of inside. Other threads are shown theirs."""
    found: list[str] = []
    here, before, always = threading.get_ident(), warnings.showwarning, torch.is_warn_always_enabled()

    def show(message, *details, **named):
        if threading.get_ident() == here:
            found.append(str(message))
        else:
            before(message, *details, **named)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        torch.set_warn_always(True)
        try:
            yield found
        finally:
            torch.set_warn_always(always)
