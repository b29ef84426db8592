"""What is imported as `_rt` where that was built beside another PyTorch: loading it would fail on a missing symbol, or read tensors
by a layout that is no more. The package is then imported and off (`_compat.unsupported_reason()`), so nothing here is called."""

from __future__ import annotations

import importlib.machinery
import sys
import types

from . import _compat


class _StandIn(types.ModuleType):
    def __getattr__(self, name: str) -> str:
        """Constants are told apart by their names. Raises AttributeError for the names by which Python asks about a module."""
        if name.startswith("__"):
            raise AttributeError(name)
        return name


def put() -> None:
    """Puts it in the place of `_rt`."""
    name = f"{__package__}._rt"
    module = sys.modules[name] = _StandIn(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)


if _compat.other_torch() is not None:
    put()
