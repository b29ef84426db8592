"""How much a function may ask for: once that is used up, its module stays and the rest of its calls keep their previous path."""

from __future__ import annotations

import warnings
from collections.abc import Callable


class Budget:
    """Whether a function is at its limit, and why."""

    def __init__(self) -> None:
        self.full = False
        self.why = ""
        self._warned = False

    def use_up(self, why: str) -> None:
        """Nothing more is learned from now on. There is no way back."""
        self.full, self.why = True, why

    def keep_quiet(self) -> None:
        """The first call that is turned away gives no warning."""
        self._warned = True

    def warn_once(self, name: str, last_miss: Callable[[], str]) -> None:
        """Warns at the first call that the limit turns away."""
        if self._warned:
            return
        self._warned = True
        warnings.warn(
            f"trident_hook: {name} keeps what it has and sends its other calls to plain Python: {self.why}. "
            f"Last miss: {last_miss()}. See trident_hook.explain().",
            stacklevel=4,
        )
