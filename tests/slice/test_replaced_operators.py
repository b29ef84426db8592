"""Operators of PyTorch's that somebody replaces by Python code (`torch.library`), before a capture, after it, and back."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch

import trident_hook


def sevens(*args, **kwargs):
    made = np.empty((2, 3), dtype="float32")
    made.fill(7.0)
    return torch.from_numpy(made)


@contextlib.contextmanager
def replaced(name, key="CPU"):
    library = torch.library.Library("aten", "IMPL")
    library.impl(name, sevens, key)
    try:
        yield
    finally:
        library._destroy()


#: The memory itself: it is sevens, if the replacement made it.
READS = {
    "empty.memory_format": lambda x: torch.empty(2, 3).mul(1),
    "empty_strided": lambda x: torch.empty_strided((2, 3), (3, 1)).mul(1),
    "empty_like": lambda x: torch.empty_like(x).mul(1),
    "new_empty": lambda x: x.new_empty((2, 3)).mul(1),
    "new_empty_strided": lambda x: x.new_empty_strided((2, 3), (3, 1)).mul(1),
}
SEVENS = [[7.0] * 3] * 2


@pytest.mark.parametrize("key", ["CPU", "CompositeExplicitAutograd"])
@pytest.mark.parametrize("name", list(READS))
def test_after_the_capture_and_back(name, key, served):
    fn, x = served(READS[name]), torch.ones(2, 3)
    for _ in range(3):
        assert fn(x).shape == (2, 3)
    assert trident_hook.counts(fn)["hits"] == 2
    with replaced(name, key):
        if READS[name](x).tolist() != SEVENS:
            pytest.skip("the kernel of the backend goes before")
        for _ in range(3):
            assert fn(x).tolist() == SEVENS
    before = trident_hook.counts(fn)["hits"]
    assert fn(x).shape == (2, 3)
    assert trident_hook.counts(fn)["hits"] == before + 1


@pytest.mark.parametrize("name", list(READS))
def test_before_the_capture(name, served):
    x = torch.ones(2, 3)
    with replaced(name):
        fn = served(READS[name])
        assert [fn(x).tolist() for _ in range(4)] == [SEVENS] * 4


def test_other_operators_that_are_registered_later_change_nothing(served):
    fn, x = served(READS["empty.memory_format"]), torch.ones(2, 3)
    for _ in range(3):
        fn(x)
    library = torch.library.Library("trident_hook_tests_of_operators", "DEF")
    library.define("anything(Tensor x) -> Tensor")
    library.impl("anything", torch.clone, "CPU")
    before = trident_hook.counts(fn)["hits"]
    fn(x)
    library._destroy()
    fn(x)
    assert trident_hook.counts(fn)["hits"] == before + 2
