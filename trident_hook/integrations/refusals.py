"""How a trace is given up, with a reason that `explain()` can name."""

from __future__ import annotations

from torch._dynamo.exc import unimplemented

from . import note_refusal


def refuse(why: str):
    note_refusal(why)
    unimplemented(gb_type="launcher described to trident_hook", context=why, explanation=why, hints=[])
