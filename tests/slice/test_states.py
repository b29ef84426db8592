"""The states of a function: what they are on the way of a real one, and that a step which the picture lacks is noticed."""

from __future__ import annotations

import warnings

import pytest
import torch
from support import programs

import trident_hook
from trident_hook.api import find_record
from trident_hook.functions import states
from trident_hook.functions.states import NEXT, State, state_of

X = torch.arange(32, dtype=torch.float32)


def state(fn) -> State:
    record = find_record(fn)
    return state_of(record.learning, record.refusals, record.budget)


def test_the_way_of_a_function_that_is_served(served):
    trident_hook.config.limit = 2
    fn = served(programs.shift)
    assert state(fn) is State.NEW
    with find_record(fn).locks.state:  # no build meanwhile
        trident_hook.config.build = "background"
        fn(X, 3)
        assert state(fn) is State.LEARNED
    assert trident_hook.settle(120)
    assert state(fn) is State.SERVED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fn(X.double(), 3)
        assert trident_hook.settle(120)
        assert state(fn) is State.FULL
    find_record(fn).refusals.refuse("a test asks for it")
    assert state(fn) is State.REFUSED


def test_the_way_of_a_function_that_is_refused(served):
    fn = served(programs.breaking)
    fn(X)
    assert state(fn) is State.REFUSED


@pytest.mark.parametrize("fault", ["gone", "other", "reason", "calls"])
def test_a_step_that_the_picture_lacks_is_noticed(served, fault):
    fn = served(programs.shift)
    fn(X, 3)
    record = find_record(fn)
    assert state(fn) is State.SERVED
    if fault == "gone":
        record.learning.specializations, record.builds.done = [], 0
    if fault == "other":
        record.learning.wanted = [object()]
    if fault == "reason":
        record.budget.full = True
    if fault == "calls":
        record.dynamo_entries.captured = -1
    with pytest.raises(AssertionError):
        record.builds.check()
    assert states.broken
    states.broken.clear()
    trident_hook.config.checks = False
    record.builds.check()


def test_every_state_is_in_the_picture():
    assert set(NEXT) == set(State)
    assert not NEXT[State.REFUSED], "for good"
