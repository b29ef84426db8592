"""Many specializations in one module: each call is served by its own, no other is asked on the way, and what none of them
holds for is a miss that names the failing guard of each."""

from __future__ import annotations

import sys
import threading

import pytest
import torch
from support import programs
from support.routes import counted, routed, same, twin

import trident_hook
from trident_hook import _core, api
from trident_hook.codegen.dispatch_code import Dispatcher
from trident_hook.codegen.writer import Tables
from trident_hook.testing.specialize import specialize

MODE = "add"


def served_by(fn, *args) -> int | None:
    """The number of the specialization that would serve the call."""
    return _core.scm_check(fn.__wrapped__, args)


def specialized(fn, calls: list[tuple]):
    served = specialize(twin(fn), calls)
    return served, api.find_record(served)


def assert_found(served, record, calls: list[tuple]) -> None:
    """Each call is a hit of its own specialization, twice in different orders, and no other one is asked.

    Under another grad mode the first guard of each fails. Whoever was asked after that and did not hold would have
    another guard noted."""
    with torch.no_grad():
        assert served_by(served, *calls[0]) is None
    assert set(record.last_miss.failed) == {0}
    plain = twin(served)
    with counted(served) as added:
        for place in [*range(len(calls)), *range(len(calls) - 1, -1, -1)]:
            assert served_by(served, *calls[place]) == place
            assert same(served(*calls[place]), plain(*calls[place])), calls[place][1:]
    assert (added["hits"], added["misses"], added["errors"]) == (2 * len(calls), 0, 0)
    assert set(record.last_miss.failed) == {0}, "another specialization was asked on the way"


def assert_missed(served, record, *args, named: str) -> None:
    with counted(served) as added:
        assert served_by(served, *args) is None
    assert added["misses"] == 0, "a question is not a call"
    texts = [record.last_miss.guard_texts[spec][guard] for spec, guard in enumerate(record.last_miss.failed)]
    assert all(named in text for text in texts), texts


def plus(x, a):
    return x + a


def by_name(x, name):
    return x + len(name) if name.startswith("m") else x * 2


def double(x):
    return x * 2


def X(*shape, dtype=torch.float32):
    return torch.ones(shape or (4,), dtype=dtype)


def test_sixty_four_ints():
    calls = [(X(), a * 7 - 20) for a in range(64)]
    served, record = specialized(plus, calls)
    assert_found(served, record, calls)
    assert_missed(served, record, X(), 5, named="L['a'] == ")
    for other in (True, 1.0, 2**63 + 1, "1", None):
        assert_missed(served, record, X(), other, named="L['a'] == ")
    # the right int with a tensor that its specialization was not made for
    assert_missed(served, record, X(4, 4), 1, named="L['x'] is Tensor")
    assert_missed(served, record, X(dtype=torch.float64), 1, named="L['x'] is Tensor")
    assert_missed(served, record, X().requires_grad_(), 1, named="L['x'] is Tensor")
    assert_missed(served, record, None, 1, named="L['x'] is Tensor")
    two_threads(served, (X(), -20), (X(), 63 * 7 - 20))


def test_a_miss_is_learned_from_and_then_found_beside_the_others():
    calls = [(X(), n) for n in range(4)]
    served, record = specialized(plus, calls)
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        routed(
            served,
            X(),
            5,
            via="dynamo",
            reason="specialization 0: [input] L['a'] == 0 (expected 0, seen 5); specialization 1: [input] L['a'] == 1",
        )
    routed(served, X(), 5, via="scm")
    assert_found(served, record, [*calls, (X(), 5)])


def two_threads(served, *argument_lists) -> None:
    """Each thread has its own specialization, and every answer is that thread's."""
    wrong: list = []
    start = threading.Barrier(len(argument_lists))

    def call(args):
        expected = twin(served)(*args)
        start.wait()
        for _ in range(400):
            got = served(*args)
            if not torch.equal(got, expected):
                wrong.append((args, got))

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with counted(served) as added:
            threads = [threading.Thread(target=call, args=(args,)) for args in argument_lists]
            [t.start() for t in threads]
            [t.join(60) for t in threads]
    finally:
        sys.setswitchinterval(switch)
    assert not wrong
    assert (added["hits"], added["misses"]) == (400 * len(argument_lists), 0)


def test_sixty_four_that_differ_in_many_ways():
    tensors = [X(4), X(4, 4), X(5), X(4, dtype=torch.float64), X(4, dtype=torch.int32), X(4, 4).t(), X(1, 4, 4), X(0)]
    tensors[5] = torch.ones(4, 6).t()
    values = [1, "a", "b", 2.5, -0.0, None, True, (1, 2)]
    calls = [(x, value) for x in tensors for value in values]
    served, record = specialized(by_kind, calls)
    assert_found(served, record, calls)
    for x, value in ((X(4), 0.0), (X(4), False), (X(4), 2), (X(4), "c"), (X(4), [1, 2]), (X(6), 1), (X(4), "")):
        assert served_by(served, x, value) is None
    two_threads(served, (tensors[0], "a"), (tensors[3], 2.5))


def by_kind(x, value):
    if isinstance(value, str):
        return x * 2 if value == "a" else x * 3
    if value is None or isinstance(value, tuple):
        return x + 10
    return x + value


NAMES = ["m", "mean", "max", "min", "median", "mode", "sum", "std", "stride", "", "é", "maxi", "mini"]
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
]

FAMILIES = {
    "strings": (by_name, [(X(), name) for name in NAMES], [(X(), "me"), (X(), "maxx"), (X(), b"m"), (X(), None)]),
    "dtypes": (double, [(X(dtype=d),) for d in DTYPES], [(X(dtype=torch.uint8),), (X(dtype=torch.complex64),)]),
    "ranks": (double, [(X(*[2] * rank),) for rank in range(1, 7)], [(X(*[2] * 7),), (torch.tensor(1.0),), (2.0,)]),
    "sizes and strides": (
        double,
        [(X(3, 5),), (X(5, 3),), (X(5, 3).t(),), (X(3, 6)[:, :5],), (X(4, 5),)],
        [(X(3, 7)[:, :5],), (X(3, 4),)],
    ),
    "floats": (plus, [(X(), a) for a in (0.0, -0.0, 1.5, 2.5, float("nan"))], [(X(), 3.5), (X(), 0), (X(), -1.5)]),
    "what it is": (
        plus,
        [(X(), 2), (X(), 2.0), (X(), True), (X(), False), (X(), X()), (X(), X(dtype=torch.int64))],
        [(X(), 3), (X(), X(4, 4)), (X(), None)],
    ),
    "items of a tuple": (
        lambda *xs: xs[0] + xs[-1],
        [(X(), 1), (X(), 2), (X(), X()), (X(), 1, 1), (X(), 1, 2)],
        [(X(), 3), (X(), 1, 3), (X(),), (X(), 1, 1, 1)],
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name):
    fn, calls, missing = FAMILIES[name]
    served, record = specialized(fn, calls)
    assert_found(served, record, calls)
    for args in missing:
        assert served_by(served, *args) is None, args
    groups = Dispatcher(record.specializations, Tables())
    groups.write()
    assert all(len(group) == 1 for group in groups.groups), groups.groups


def test_grad_modes():
    served = trident_hook.jit(twin(double))
    routed(served, X(), via="dynamo")
    with torch.no_grad():
        routed(served, X(), via="dynamo")
        assert served_by(served, X()) == 1
    assert served_by(served, X()) == 0
    with torch.inference_mode():
        assert served_by(served, X()) is None


def test_aligned_and_not():
    storage = torch.ones(65)
    served = trident_hook.jit(twin(programs.shift))
    for x in (storage[:64], storage[1:]):
        routed(served, x, 3, via="dynamo")
    record = api.find_record(served)
    with torch.no_grad():
        assert served_by(served, storage[:64], 3) is None
    for _ in range(3):
        for number, x in enumerate((storage[:64], storage[1:])):
            routed(served, x, 3, via="scm", launches=1)
            assert served_by(served, x, 3) == number
    assert set(record.last_miss.failed) == {0}


def by_global(x):
    return x + x if MODE == "add" else x * len(MODE)


def test_what_no_argument_tells_apart_is_asked_in_the_order_of_the_last_hits(monkeypatch):
    """Two values of a global: the environment guards of one fail, those of the other hold."""
    module = sys.modules[__name__]
    served = trident_hook.jit(twin(by_global))
    for value in ("add", "double"):
        monkeypatch.setattr(module, "MODE", value)
        routed(served, X(), via="dynamo")
    for _ in range(2):
        for number, value in enumerate(("add", "double")):
            monkeypatch.setattr(module, "MODE", value)
            for _ in range(3):
                routed(served, X(), via="scm")
                assert served_by(served, X()) == number
    monkeypatch.setattr(module, "MODE", "triple")
    assert served_by(served, X()) is None
    routed(
        served,
        X(),
        via="dynamo",
        reason="specialization 0: [env] G['MODE'] == 'add' (expected 'add', seen 'triple'); specialization 1: [env] G['MODE']",
    )


def test_the_more_general_one_serves_what_the_others_do_not():
    """Symbolic sizes at the second value: one specialization holds for every length, beside one of a single length."""
    served = trident_hook.jit(twin(programs.shift))
    routed(served, X(64), 3, via="dynamo")
    routed(served, X(128), 3, via="dynamo")
    general = served_by(served, X(128), 3)
    for n in (64, 128, 192, 64, 4096):
        routed(served, X(n), 3, via="scm", launches=1)
    assert served_by(served, X(192), 3) == general == 1


def test_a_question_has_no_effect():
    served = trident_hook.jit(twin(programs.shift_))
    x = X(64)
    routed(served, X(64), 3, via="dynamo", mutates=True)
    with counted(served) as added:
        assert _core.scm_check(served.__wrapped__, (x, 3), 1000) == 0
        assert _core.scm_check(served.__wrapped__, (x,), 1) is None
    assert not any(added.values()), added
    assert torch.equal(x, X(64))
