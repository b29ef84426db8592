"""What a launch returns is Triton's CompiledKernel. Programs that hand it on get the one that Triton would have given."""

from __future__ import annotations

import threading

import pytest
import torch
import triton
from support.routes import twin

import trident_hook
from trident_hook._scm import worker

from . import compare, corpus
from . import kernels as k

X, Y = corpus.X, corpus.Y


def copy(x, y):
    return y, k.copy[(2,)](x, y, x.numel(), BLOCK=64)


def both(x, y):
    return [k.copy[(2,)](x, y, 96, BLOCK=64), k.copy[(1,)](x, y, 17, BLOCK=32, num_warps=1)]


def tuned(x, y):
    return k.tuned_by_n[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())


def heuristic(x, y):
    launched = k.heuristic[(3,)](x, y, x.numel(), BLOCK=32)
    return {"launched": launched}


def empty(x, y):
    return k.copy[(0,)](x, y, x.numel(), BLOCK=64)


def hashes(value) -> list:
    if isinstance(value, (list, tuple, dict)):
        items = value.values() if isinstance(value, dict) else value
        return [h for item in items for h in hashes(item)]
    return [] if isinstance(value, torch.Tensor) else [type(value).__name__, value.hash]


@pytest.mark.parametrize("fn", [copy, both, tuned, heuristic, empty], ids=lambda fn: fn.__name__)
def test_the_compiled_kernel_is_returned(fn):
    with compare.stable_tuning():
        served, plain = trident_hook.jit(twin(fn)), twin(fn)
        expected = hashes(plain(X, Y))
        assert expected[0] == "CompiledKernel"
        for _ in range(4):
            assert hashes(served(X, Y)) == expected
        assert trident_hook.counts(served)["hits"] == 3


def test_another_binary_is_another_result():
    served, plain = trident_hook.jit(twin(copy)), twin(copy)
    arguments = (X[:64], Y), (X[1:65], Y)
    expected = [hashes(plain(*args)) for args in arguments]
    assert expected[0] != expected[1]
    for _ in range(4):
        assert [hashes(served(*args)) for args in arguments] == expected
    assert trident_hook.counts(served)["hits"] == 6


def test_before_the_module_is_in_place():
    """Dynamo's own code answers meanwhile, and its guards do not see alignment."""
    trident_hook.config.build = "background"
    go = threading.Event()
    worker.submit(lambda: go.wait(120))
    served, plain = trident_hook.jit(twin(copy)), twin(copy)
    arguments = (X[:64], Y), (X[1:65], Y)
    expected = [hashes(plain(*args)) for args in arguments]
    try:
        for _ in range(2):
            assert [hashes(served(*args)) for args in arguments] == expected
        assert trident_hook.counts(served)["hits"] == 0
    finally:
        go.set()
    assert trident_hook.settle(120)
    assert hashes(served(*arguments[0])) == expected[0]
    assert trident_hook.counts(served)["hits"] == 1


def through_intermediate(x, start):
    h = torch.empty(100)
    return k.copy[(1,)](x, h[start:], 64, BLOCK=64)


def test_a_binary_that_is_only_known_late_is_refused():
    served, plain = trident_hook.jit(twin(through_intermediate)), twin(through_intermediate)
    for start in (4, 5, 3, 8, 16):
        assert hashes(served(X, start)) == hashes(plain(X, start))
    assert trident_hook.counts(served)["hits"] == 0
    assert "what the launch returns is used" in str(trident_hook.explain(served).refusals)


def looked_into(x, y):
    launched = k.copy[(2,)](x, y, x.numel(), BLOCK=64)
    return launched.metadata.num_warps if launched is not None else -1


def test_a_program_that_looks_into_it_is_left_alone():
    served = trident_hook.jit(twin(looked_into))
    for _ in range(4):
        assert served(X, Y) == 4
