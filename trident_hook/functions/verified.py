"""What the doors are given for a module while hits are verified: its own entry, with the plain function behind each hit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _rt
from ..verification.hits import Verifier


class VerifiedScm:
    """Stands in front of a loaded module and keeps it. `give_up(number, difference)` is told of each specialization that differs."""

    def __init__(self, code: Any, module: Any, give_up: Callable[[int, str], None]) -> None:
        self.module = module
        self.__tdh_scm__ = _rt.scm_verified(module.__tdh_scm__, code, Verifier(module.__tdh_scm__, give_up))
