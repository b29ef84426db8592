"""One process of the judge: what it needs in place, and programs one after the other."""

from __future__ import annotations

import dataclasses
import gc
import os
import warnings
from collections.abc import Iterator
from typing import Any

import torch

import trident_hook
from trident_hook.testing import simdriver

from . import twin
from .draft import FEATURES, Program
from .reduce import reduced, script
from .write import Plan, plan_of, program_of

LIMIT = 4  # specializations of a program: more builds say little more
_RESET_EVERY = 25


@dataclasses.dataclass
class Found:
    """One program's result, as plain data."""

    number: int
    door: str
    outcomes: dict[str, int]
    features: tuple[str, ...]
    difference: str | None = None
    outcome: str = ""
    script: str = ""
    refused: bool = False
    poisoned: bool = False
    plan: Any = None


def prepare() -> None:
    """Settings of a process that judges programs."""
    os.environ.setdefault("TORCH_LOGS", "")
    config = trident_hook.config
    config.build, config.limit, config.rebuilds = "sync", LIMIT, LIMIT
    torch.set_num_threads(1)
    torch.set_warn_always(True)  # else only one of the worlds would be warned
    simdriver.install()
    with warnings.catch_warnings(), torch.autograd.forward_ad.dual_level():
        warnings.simplefilter("ignore")  # PyTorch's own, of the first use in a process
        torch.autograd.forward_ad.make_dual(torch.ones(1), torch.ones(1)) * 2


def door_of(number: int) -> str:
    """Each door takes its turn."""
    return twin.DOORS[number % len(twin.DOORS)]


def run_one(seed: int, number: int, off: frozenset[str], reduce: bool) -> Found:
    """Program `number` of a seed."""
    plan, door = plan_of(seed, number, off), door_of(number)

    def judge(program: Program) -> twin.Verdict:
        return twin.judge(program, door, served_first=number % 2 == 0)

    return _result(number, door, plan, judge(program_of(plan)), judge if reduce else None)


def _result(number: int, door: str, plan: Plan, verdict: twin.Verdict, judge) -> Found:
    outcomes = dict(verdict.outcomes)
    if verdict.difference is not None and judge is not None:
        plan, verdict = reduced(plan, verdict, judge)
    program = program_of(plan)
    found = Found(number, door, outcomes, program.features, verdict.difference, verdict.outcome,
                  refused=bool(verdict.refusals), poisoned=verdict.poisoned)  # fmt: skip
    if verdict.difference is not None:
        kinds = tuple(sorted({kind for name in program.features for kind in FEATURES[name][1]}))
        found.script = script(f"program_{number}.py", program, verdict, door, kinds)
        found.plan = dataclasses.asdict(plan)
    return found


def run_many(seed: int, numbers: Iterator[int], off: frozenset[str], reduce: bool) -> Iterator[Found]:
    """Until the numbers are used up, or a state is left behind that cannot be put back."""
    for count, number in enumerate(numbers):
        found = run_one(seed, number, off, reduce)
        yield found
        if found.poisoned:
            return
        if count % _RESET_EVERY == _RESET_EVERY - 1:
            torch._dynamo.reset()
            gc.collect()


def show(program: Program, door: str) -> None:
    """For scripts: runs one program and prints what is different."""
    prepare()
    verdict = twin.judge(program, door)
    if verdict.difference is None:
        print("OK", dict(verdict.outcomes), verdict.refusals)
    else:
        print(f"WRONG at state {verdict.step}, call {verdict.call} ({verdict.outcome}): {verdict.difference}")
