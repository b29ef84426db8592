"""Numbers that are not the ones a specialization was made for, and Triton's classes of ints."""

from __future__ import annotations

import pytest
import torch
from support import programs
from support.routes import routed, same, twin, warm

import trident_hook

X = torch.arange(32, dtype=torch.float32)

#: Each class of Triton's: the one, divisible by 16, other, 64 bits, unsigned 64 bits; and each way round.
INTS = [0, 1, 2, 3, 16, 17, 32, -1, -16, 2**31 - 1, 2**31, 2**31 + 8, -(2**31), -(2**31) - 1, 2**32, 2**62, 2**63 - 1]


@pytest.mark.parametrize("first", [1, 3, 16, 2**31])
def test_ints_of_every_class(served, first):
    fn = served(programs.shift)
    trident_hook.config.limit = 64
    warm(fn, X, first)
    for a in INTS:
        if a != first:
            routed_either(fn, X, a)
            routed(fn, X, a, via="scm")
    for a in (first, *INTS):
        routed(fn, X, a, via="scm")


def routed_either(fn, *args):
    """A number that the symbolic specialization admits is a hit, others miss: both are right."""
    misses = trident_hook.counts(fn)["misses"]
    answer = fn(*args)
    assert same(answer, twin(fn)(*args)), args[1:]
    assert trident_hook.counts(fn)["misses"] - misses in (0, 1)


@pytest.mark.parametrize("a", [2**63, 2**64 - 1])
def test_ints_that_only_fit_unsigned(served, a):
    fn = served(programs.shift)
    warm(fn, X, 3)
    routed_either(fn, X, a)
    routed_either(fn, X, a)
    routed(fn, X, 5, via="dynamo")
    routed_either(fn, X, a)
    routed(fn, X, 3, via="scm")


@pytest.mark.parametrize("a", [2**64, -(2**63) - 1, 10**30])
def test_ints_that_fit_nothing(served, a):
    fn = served(programs.shift)
    warm(fn, X, 3)
    for _ in range(3):
        with pytest.raises(OverflowError):
            fn(X, a)
    with pytest.raises(OverflowError):
        twin(fn)(X, a)
    routed(fn, X, 3, via="scm")


OTHER_TYPES = {
    "bool true for 1": (1, True), "bool false for 0": (0, False), "bool for 3": (3, True), "float for int": (3, 3.0),
    "int for float": (3.0, 3), "int for bool": (True, 1), "another float": (3.0, 3.5), "nan": (3.0, float("nan")),
    "inf": (3.0, float("inf")), "negative zero": (0.0, -0.0),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHER_TYPES)
def test_a_number_of_another_type_or_value(served, case):
    first, second = OTHER_TYPES[case]
    fn = served(programs.shift)
    warm(fn, X, first)
    routed(fn, X, second, via="dynamo")
    routed_either(fn, X, second)
    routed(fn, X, first, via="scm")


class MyInt(int):
    pass


def test_a_subclass_of_int(served):
    fn = served(programs.shift)
    warm(fn, X, 3)
    routed_either(fn, X, MyInt(3))
    routed_either(fn, X, MyInt(4))
    routed(fn, X, 3, via="scm")


def test_a_tensor_for_a_number(served):
    fn = served(sum_of)
    warm(fn, X, 3)
    routed(fn, X, torch.tensor(4.0), via="dynamo")
    routed(fn, X, torch.tensor(4.0), via="scm")
    routed(fn, X, 3, via="scm")


def sum_of(x, a):
    return x + a


@pytest.mark.parametrize("value", [(1, 2), [1, 2], {"a": 1}, None, "sum", torch.float16, torch.device("cpu")], ids=str)
def test_arguments_that_are_no_numbers(served, value):
    """The value is guarded: another one of the same type misses, an equal one hits."""
    others = {tuple: (1, 3), list: [1, 3], dict: {"a": 2}, type(None): 0, str: "mean", torch.dtype: torch.float64,
              torch.device: torch.device("meta")}  # fmt: skip
    fn, other = served(depends_on), others[type(value)]
    warm(fn, X, value)
    routed(fn, X, other, via="dynamo")
    routed(fn, X, value, via="scm")


def depends_on(x, value):
    if isinstance(value, (tuple, list)):
        return x + value[1]
    if isinstance(value, dict):
        return x + value["a"]
    if isinstance(value, str):
        return x.sum() if value == "sum" else x.mean()
    if isinstance(value, torch.dtype):
        return x.to(value)
    if isinstance(value, torch.device):
        return torch.empty_like(x, device=value).fill_(1.0)
    return x * 2 if value is None else x * 3
