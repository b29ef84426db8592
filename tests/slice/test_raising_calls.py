"""Calls that raise: after a few of them no capture is paid for any more, nothing is printed, and new kinds of calls that
return are still learned."""

from __future__ import annotations

import logging

import pytest
import torch
from support.routes import counted, outcome, routed, warm

import trident_hook

X = torch.arange(8, dtype=torch.float32)


def picky(x, n):
    if n > 3:
        raise ValueError("too large")
    return x * 2 + n


def joined(x, y):
    return (x + y).relu()


def raise_often(fn, *args, times: int = 12) -> dict:
    """The counts of the last half of the calls."""
    for _ in range(times):
        outcome(fn, args, {})
    with counted(fn) as added:
        for _ in range(times):
            assert outcome(fn, args, {}).error is not None
    return added


def test_they_become_plain_calls(through):
    fn = through(picky)
    warm(fn, X, 1)
    added = raise_often(fn, X, 9)
    assert (added["delegated"], added["python"], added["misses"]) == (0, 12, 12)
    routed(fn, X, 1, via="scm")
    routed(fn, X, 9, via="over", raises=ValueError)


def test_also_where_nothing_was_learned_yet(through):
    fn = through(picky)
    assert raise_often(fn, X, 9)["delegated"] == 0
    for _ in range(3):
        routed(fn, X, 1, via=None)
    routed(fn, X, 1, via="scm")


def test_new_kinds_of_calls_are_learned_between_them(served):
    fn = served(joined)
    warm(fn, X, X)
    raise_often(fn, X, X[:7])
    for dtype in (torch.float64, torch.int64, torch.int32):
        for _ in range(3):
            routed(fn, X, X[:7], via="over", raises=RuntimeError)
            routed(fn, X.to(dtype), X.to(dtype), via=None)
        routed(fn, X.to(dtype), X.to(dtype), via="scm")


def test_calls_that_are_never_the_same_twice_are_learned(served):
    fn = served(picky)
    raise_often(fn, X, 9)
    for size in range(9, 29):
        routed(fn, torch.ones(size), 2, via=None)
    routed(fn, torch.ones(30), 2, via="scm")


def test_attempts_in_vain_become_rare(served):
    """The very same kind of call raises and returns in turns: an argument does not say which."""
    calls = [0]

    def moody(x):
        calls[0] += 1
        if calls[0] % 2:
            raise ValueError("not now")
        return x + calls[0]

    fn = served(moody)
    for _ in range(100):
        outcome(fn, (X,), {})
    with counted(fn) as added:
        for _ in range(100):
            outcome(fn, (X,), {})
    assert added["delegated"] <= 4, added


def test_nothing_is_printed(served, caplog, capfd):
    fn = served(joined)
    with caplog.at_level(logging.WARNING):
        warm(fn, X, X)
        raise_often(fn, X, X[:7])
        raise_often(served(picky), X, 9)
    assert capfd.readouterr() == ("", "")
    assert not [r for r in caplog.records if r.name.startswith("torch")]


def test_what_was_asked_for_is_printed(served):
    seen, handler = [], logging.Handler()
    handler.emit = seen.append
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level, _ = logger.level, logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        with pytest.raises(RuntimeError):
            served(joined)(X, X[:7])
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
    assert any("failed while attempting" in record.getMessage() for record in seen)
    assert not logger.filters


def test_a_program_that_compiles_keeps_its_log(served, caplog):
    served(joined)(X, X)
    with caplog.at_level(logging.WARNING), pytest.raises(RuntimeError):
        torch.compile(joined, backend="eager")(X, X[:7])
    assert [r for r in caplog.records if r.name.startswith("torch")]


def test_their_cost_is_bounded_by_the_record(served):
    """What is remembered does not grow with the kinds of calls."""
    fn = served(picky)
    raise_often(fn, X, 9)
    for n in range(-1500, 0):
        outcome(fn, (X, float(n)), {})
        outcome(fn, (X, 9.0 - n), {})
    record = trident_hook.api.find_record(fn)
    assert len(record.raising._kinds) <= 256
    assert len(record.raising._captured) == 0
