"""What must hold for any call to be served, whatever its function."""

from __future__ import annotations

from dataclasses import dataclass

from .kinds import ConditionKind
from .source import Source


@dataclass(frozen=True)
class Condition:
    source: Source
    kind: ConditionKind
    text: str
