"""What guards cost, as ratios within one run; `python -m benchmarks.guard_cost` measures the same with more care. The best of
many short loops is compared: what else the machine does only ever makes a loop longer."""

from __future__ import annotations

import sys
import types
from time import perf_counter_ns

import pytest
import torch
from support.routes import routed, twin

import trident_hook
from trident_hook import _compat, _core
from trident_hook.runtime import watching
from trident_hook.testing import workloads
from trident_hook.testing.specialize import specialize


def best(*loops) -> list[float]:
    """Nanoseconds of one call of each, the loops taking turns. A loop is (callable of a number of calls, that number)."""
    times = [[] for _ in loops]
    for _ in range(40):
        for found, (run, calls) in zip(times, loops, strict=True):
            start = perf_counter_ns()
            run(calls)
            found.append((perf_counter_ns() - start) / calls)
    return [min(found) for found in times]


def guards_of(served, *args):
    assert _core.scm_check(served.__wrapped__, args) is not None
    return lambda calls: _core.scm_check(served.__wrapped__, args, calls)


def plus(x, a):
    return x + a


def test_a_hit_does_not_pay_for_the_other_specializations():
    x = torch.ones(4)
    calls = [(x, n) for n in range(16)]
    one, all_ = specialize(twin(plus), calls[-1:]), specialize(twin(plus), calls)
    alone, last, first = best(
        (guards_of(one, *calls[-1]), 1000), (guards_of(all_, *calls[-1]), 1000), (guards_of(all_, *calls[0]), 1000)
    )
    assert max(last, first) < 1.3 * alone, (alone, last, first)


class Owner:
    pass


def places() -> tuple[types.ModuleType, dict]:
    """A module, and where its function reads: pattern of the text -> owner."""
    space = types.ModuleType("guarded")
    space.settings, space.names, space.Kind, space.other = (
        Owner(),
        types.SimpleNamespace(),
        Owner,
        types.ModuleType("m"),
    )
    owners = (space, space.settings, space.names, space.Kind, space.other)
    return space, dict(zip(("c{}", "settings.s{}", "names.n{}", "Kind.k{}", "other.m{}"), owners, strict=True))


@pytest.fixture
def guarded(monkeypatch):
    """guarded(number) -> a function that reads so many globals and attributes, served, and where they are."""

    def make(number: int):
        space, owners = places()
        terms = []
        for index in range(number):
            pattern, owner = list(owners.items())[index % len(owners)]
            terms.append(pattern.format(index))
            monkeypatch.setattr(owner, terms[-1].split(".")[-1], 2**index % 7, raising=False)
        exec(f"def reads(x):\n    return x + ({' + '.join(terms)})\n", vars(space))
        return specialize(space.reads, [(torch.ones(4),)]), {t: owners[p] for p, t in zip(owners, terms, strict=False)}

    return make


@pytest.mark.skipif(not _compat.HAS_WATCHERS, reason="no watchers below CPython 3.12: every call evaluates the guards")
def test_a_hit_does_not_pay_for_what_never_changes(guarded, monkeypatch):
    monkeypatch.setattr(watching._rt, "env_unwatchable", lambda plan: pytest.fail("guards are evaluated on every call"))
    x, (few, _), (many, _) = torch.ones(4), guarded(5), guarded(100)
    assert routed(many, x, via="scm").tolist() == [1 + sum(2**i % 7 for i in range(100))] * 4
    by_few, by_many = best((guards_of(few, x), 1000), (guards_of(many, x), 1000))
    assert by_many < 1.05 * by_few, (by_few, by_many)


def test_each_of_them_is_seen_to_change(guarded, monkeypatch):
    served, read = guarded(5)
    x = torch.ones(4)
    for term, owner in read.items():
        name = term.split(".")[-1]
        routed(served, x, via="scm")
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, 100)
            assert _core.scm_check(served.__wrapped__, (x,)) is None, f"{term} changed"
        assert _core.scm_check(served.__wrapped__, (x,)) == 0, f"{term} is what it was"
    with monkeypatch.context() as patch:  # the namespace gets other contents, in place and as another object
        patch.setattr(sys.modules[__name__].Owner, "__getattribute__", lambda self, name: 100, raising=False)
        assert _core.scm_check(served.__wrapped__, (x,)) is None, "the instance reads its attributes in another way"
    assert _core.scm_check(served.__wrapped__, (x,)) == 0


def test_ten_times_less_than_dynamo():
    """Of the guards of one capture: Dynamo's check of its guard manager, without what calling it from Python costs.
    Without watchers (CPython 3.11) every call evaluates the guards of the environment too: two fifths less are asked there."""
    from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list
    from torch._C._dynamo.guards import RootGuardManager

    from trident_hook import api

    args = (torch.randn(16, 128), torch.randn(128), 1e-5)
    served, captured = specialize(twin(workloads.rms_norm), [args]), trident_hook.jit(twin(workloads.rms_norm))
    trident_hook.config.build = "background"
    values = dict(zip(("x", "weight", "eps"), args, strict=True))

    def looped(fn):
        return lambda calls: [fn(values) for _ in range(calls)] and None

    with api.find_record(captured).locks.state:  # its build drops Dynamo's entry, and waits for this
        captured(*args)
        (entry,) = _debug_get_cache_entry_list(captured.__wrapped__.__code__)
        check = entry.guard_manager.check
        assert check(values)
        assert not check({**values, "eps": 2e-5})
        ours, theirs, nothing = best(
            (guards_of(served, *args), 1000), (looped(check), 200), (looped(RootGuardManager().check), 200)
        )
    assert trident_hook.settle(120)
    share = 0.1 if _compat.HAS_WATCHERS else 0.6
    assert ours < share * (theirs - nothing), (ours, theirs, nothing)
