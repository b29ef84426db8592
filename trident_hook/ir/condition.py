"""What must hold for any call to be served, whatever its function."""

from __future__ import annotations

from dataclasses import dataclass

from .source import Source


@dataclass(frozen=True)
class Condition:
    """`kind`: "empty_list", or "not_eager" for the object with torch.compiler's stance."""

    source: Source
    kind: str
    text: str
