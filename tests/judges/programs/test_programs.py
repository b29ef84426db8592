"""A fixed few hundred programs, judged in a process of their own. The bar is `make judge-programs`."""

from __future__ import annotations

import types

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from . import run, twin, write
from .draft import FEATURES, Program, Step
from .known import OFF

SEED = 14
PROGRAMS = 100


@pytest.fixture(autouse=True)
def no_gpu():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: the simulated driver cannot be loaded beside the real one")


def judged(tmp_path, programs: int, **settings) -> run.Total:
    """What `programs` of them come to."""
    arguments = types.SimpleNamespace(programs=programs, seconds=500, jobs=1, seed=SEED, first=0, cache=str(tmp_path), only="",
                                      all=False, no_reduce=False)  # fmt: skip
    vars(arguments).update(settings)
    return run.judge(arguments, lambda total, found: None)


@pytest.mark.timeout(600)
def test_no_program_differs(tmp_path):
    total = judged(tmp_path, PROGRAMS)
    assert not total.differences, "\n".join(f"{f['difference']}\n{f['script']}" for f in total.differences)
    assert total.outcomes["hits"] >= total.calls / 2, total.line()
    assert total.programs == PROGRAMS


@pytest.mark.timeout(200)
def test_a_wrong_answer_is_found(monkeypatch):
    """The served world has another number in a place that its twin does not look at."""
    program = Program("K = [1]\n\ndef fn(x):\n    return [x * 2, K[0]]\n", [Step([], {"x": "ramp(3, 4)"})])
    made = twin._World.__init__

    def tampered(self, source, side, number):
        made(self, source, side, number)
        if side == "served":
            self.names["K"] = [2]

    assert twin.judge(program, "jit").difference is None
    monkeypatch.setattr(twin._World, "__init__", tampered)
    assert twin.judge(program, "jit").difference == "the result[1]: 2, expected 1"


def test_features_that_are_left_out_exist():
    assert set(OFF) <= set(FEATURES)
    assert all(OFF.values())


@given(st.integers(0, 2**30), st.integers(0, 10_000))
@settings(max_examples=200, deadline=None)
def test_every_program_can_be_written(seed, number):
    """And is the same each time; leaving a part out leaves the others as they are."""
    plan = write.plan_of(seed, number)
    program = write.program_of(plan)
    compile(program.source, "<program>", "exec")
    assert program == write.program_of(plan)
    if len(plan.parts) > 1:
        smaller = write.program_of(plan.without_part(len(plan.parts) - 1))
        assert smaller.features == program.features[:-1]
