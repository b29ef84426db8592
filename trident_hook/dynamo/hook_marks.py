"""What tracing has found out of the `pre_hook` of a tuner's configs, and the marks by which capture finds what they do in the
graph. See dynamo/variables/tuner_hooks.py."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

_numbers = itertools.count()


def begin(launch: int, config: int) -> None:
    """In Dynamo's graph: what follows, up to `end`, is what the hook of that config of that launch's tuner does."""


def end(launch: int, config: int) -> None:
    """See `begin`."""


@dataclass
class TracedHooks:
    """Of one launch of one capture. `blocks`: for each config of the tuner, by a descriptor's number, the block that it has
    once the config's hook has run."""

    blocks: list[dict[int, tuple[int, ...]]] = field(default_factory=list)
    number: int = field(default_factory=lambda: next(_numbers))
