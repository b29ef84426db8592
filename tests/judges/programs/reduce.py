"""Makes a program that shows a difference smaller, and writes it down as a script that shows it by itself."""

from __future__ import annotations

import dataclasses
import pprint
from collections.abc import Callable

from .draft import Program
from .twin import Verdict
from .write import Plan, program_of


def reduced(plan: Plan, verdict: Verdict, run: Callable[[Program], Verdict]) -> tuple[Plan, Verdict]:
    """Features are left out one by one, then states: what still differs is kept."""

    def attempt(smaller: Plan) -> bool:
        nonlocal plan, verdict
        seen = run(program_of(smaller))
        if seen.difference is None:
            return False
        plan, verdict = smaller, seen
        return True

    number = len(plan.parts) - 1
    while number >= 0 and len(plan.parts) > 1:
        if not verdict.poisoned:
            attempt(plan.without_part(number))
        number -= 1
    steps = len(program_of(dataclasses.replace(plan, kept=None)).steps)
    kept = list(range(min(verdict.step + 1, steps)))
    if not verdict.poisoned and len(kept) < steps:
        attempt(dataclasses.replace(plan, kept=tuple(kept)))
    for state in kept[1:-1]:
        if plan.kept is not None and not verdict.poisoned:
            attempt(dataclasses.replace(plan, kept=tuple(i for i in plan.kept if i != state)))
    return plan, verdict


_SCRIPT = '''"""{what}

{difference}
(features {features}, door {door}; the call that differs is a {outcome}). From the root of a checkout: PYTHONPATH=. python {name}"""

from tests.judges.programs.draft import Program, Step
from tests.judges.programs.session import show

SOURCE = """\\
{source}"""
STEPS = {steps}
UNDO = {undo}

if __name__ == "__main__":
    show(Program(SOURCE, [Step(**step) for step in STEPS], undo=UNDO), {door!r})
'''


def script(name: str, program: Program, verdict: Verdict, door: str, kinds: tuple[int, ...]) -> str:
    """The text of a script that runs the program and prints the difference, or OK."""
    steps = pprint.pformat([dataclasses.asdict(step) for step in program.steps], width=118, sort_dicts=False)
    return _SCRIPT.format(
        what=f"A program whose served calls do not do what the plain function does (kinds {kinds}).",
        difference=(verdict.difference or "").replace("\\", "/").replace('"""', "'''")[:600], features=", ".join(program.features),
        door=door, outcome=verdict.outcome, name=name, source=program.source.replace("\\", "\\\\"), steps=steps,
        undo=program.undo,
    )  # fmt: skip
