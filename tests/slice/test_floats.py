"""Floats that change: a symbol where the program only passes them on, a constant of its specialization everywhere else."""

from __future__ import annotations

import math

import numpy
import pytest
import torch
import triton
import triton.language as tl
from support import programs
from support.routes import counted, routed

import trident_hook

X = torch.arange(32, dtype=torch.float32) - 11
#: Finite doubles of all kinds: signed zeros, subnormal in fp32 and in fp64, too large for fp32, not exact in fp32.
FLOATS = [3.5, -0.0, 0.0, 1.0, -1.0, 0.1, 1e-40, 5e-324, 1e300, -1.7976931348623157e308, math.pi]
SCALE = 2.0


def learn(fn, *calls):
    """The first value is a constant, the second makes it a symbol."""
    for call in calls or ((X, 1.5), (X, 2.5)):
        routed(fn, *call, via="dynamo")


def facts(fn) -> tuple:
    explanation = trident_hook.explain(fn)
    return [spec.program.has_floats for spec in explanation.specializations], explanation.refusals


# -- passed on to a kernel ---------------------------------------------------------------------------------------------


@triton.jit
def axpy_kernel(x, y, n, a: tl.float64, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, (tl.load(x + at, mask=at < n) * a).to(tl.float32), mask=at < n)


def declared(x, a):
    """The kernel says that it is a double."""
    y = torch.empty_like(x)
    axpy_kernel[(1,)](x, y, x.numel(), a, BLOCK=64)
    return y


@pytest.mark.parametrize("program", [programs.shift, declared], ids=["fp32", "fp64"])
def test_one_specialization_for_all_values(served, program):
    fn = served(program)
    learn(fn)
    for value in FLOATS:
        routed(fn, X, value, via="scm", launches=1)
    assert facts(fn) == ([False, True], {})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.inf, "finite float"),
        (-math.inf, "finite float"),
        (math.nan, "finite float"),
        (3, "is <class float>"),
        (True, "is <class float>"),
        (numpy.float64(3.5), "is <class float>"),
    ],
)
def test_what_is_no_finite_float_misses(served, value, reason):
    fn = served(programs.shift)
    learn(fn)
    routed(fn, X, 3.5, via="scm")
    routed(fn, X, value, via=None)
    explanation = trident_hook.explain(fn)
    assert explanation.counts["hits"] == 1
    assert reason in explanation.last_miss
    routed(fn, X, 4.5, via="scm", launches=1)


def test_infinity_and_nan_have_specializations_of_their_own(served):
    fn = served(programs.shift)
    learn(fn, (X, 1.5), (X, 2.5), (X, math.inf), (X, math.nan))
    for value in (math.inf, math.nan, 3.5, math.inf):
        routed(fn, X, value, via="scm", launches=1)
    assert facts(fn) == ([False, True, False, False], {})


def twice(x, a, b):
    y = torch.empty_like(x)
    programs.shift_kernel[(1,)](x, y, a, x.numel(), BLOCK=64)
    programs.stretch_kernel[(1,)](y, y, b, x.numel(), BLOCK=64)
    return y


def test_two_that_were_equal_may_differ(served):
    fn = served(twice)
    learn(fn, (X, 1.5, 1.5), (X, 2.5, 2.5))
    for a, b in ((3.5, 3.5), (3.5, 4.5), (0.5, -0.0)):
        routed(fn, X, a, b, via="scm", launches=2)


def test_one_changes_the_other_does_not(served):
    fn = served(twice)
    learn(fn, (X, 1.5, 7.5), (X, 2.5, 7.5))
    routed(fn, X, 3.5, 7.5, via="scm", launches=2)
    routed(fn, X, 3.5, 8.5, via="dynamo", reason="7.5")
    for a, b in ((4.5, 9.5), (5.5, 7.5)):
        routed(fn, X, a, b, via="scm", launches=2)


def test_sizes_change_as_well(served):
    fn = served(programs.shift)
    other, third = torch.ones(48), torch.ones(64)
    learn(fn, (X, 1.5), (other, 2.5))
    routed(fn, third, 3.5, via="scm", launches=1)
    assert facts(fn) == ([False, True], {})


@triton.jit
def partial_kernel(x, y, a, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + a, mask=at < n)


def shifted_copy(x, a, k):
    """The kernel gets a view of what the program itself made: whether it is aligned is known only then."""
    y = torch.cat([x, x])[k:]
    partial_kernel[(1,)](y, y, a, 16, BLOCK=16)
    return y


def test_a_launch_by_triton_inside_a_hit_gets_the_float(served):
    """Where the binary is for another alignment, Triton's launcher is called with the same numbers."""
    fn = served(shifted_copy)
    learn(fn, (X, 1.5, 4), (X, 2.5, 8))
    routed(fn, X, 0.1, 12, via="scm", launches=1)
    for value, k in ((math.pi, 5), (-0.0, 7), (1e300, 13)):
        with counted(fn) as added:
            routed(fn, X, value, k, via="scm")
        assert (added["rt_launch"], added["rt_launch_python"]) == (0, 1)
    assert facts(fn) == ([False, True], {})


@triton.jit
def filled_kernel(y, A: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(y + tl.arange(0, BLOCK), tl.full((BLOCK,), A, tl.float32))


def baked(x, a):
    y = torch.empty_like(x)
    filled_kernel[(1,)](y, A=a, BLOCK=32)
    return y


def test_a_constexpr_is_a_constant(served):
    fn = served(baked)
    for value in (1.5, 2.5, 2.5, 3.5):
        routed(fn, X, value, via=None)
    for value in (1.5, 2.5, 3.5):
        routed(fn, X, value, via="scm", launches=1)
    assert not any(facts(fn)[0])


# -- where it comes from -----------------------------------------------------------------------------------------------


def by_name(x, *, a=1.5):
    return programs.shift(x, a)


def of_tuple(x, pair):
    return programs.shift(x, pair[0]) * pair[1]


def of_dict(x, options):
    return programs.shift(x, options["a"])


class Settings:
    def __init__(self, a):
        self.a = a


def of_object(x, settings):
    return programs.shift(x, settings.a)


def of_global(x):
    return programs.shift(x, SCALE)


def test_by_name(served):
    fn = served(by_name)
    routed(fn, X, via="dynamo")
    routed(fn, X, a=2.5, via="dynamo")
    for value in FLOATS:
        routed(fn, X, a=value, via="scm", launches=1)
    routed(fn, X, via="scm", launches=1)


@pytest.mark.parametrize(
    ("program", "given"),
    [(of_tuple, lambda a: (a, 0.5)), (of_dict, lambda a: {"a": a}), (of_object, Settings)],
    ids=["tuple", "dict", "object"],
)
def test_inside_an_argument(served, program, given):
    fn = served(program)
    for value in (1.5, 2.5, 2.5):  # where it cannot be a symbol, the third call is captured with a constant
        routed(fn, X, given(value), via=None)
    routed(fn, X, given(2.5), via="scm", launches=1)
    for value in FLOATS[:3]:
        routed(fn, X, given(value), via="scm" if any(facts(fn)[0]) else "dynamo")


def test_of_a_closure(served):
    program, change = programs.closing_over(1.5)
    fn = served(program)
    routed(fn, X, via="dynamo")
    change(2.5)
    routed(fn, X, via="dynamo")
    for value in FLOATS[:4]:
        change(value)
        routed(fn, X, via="scm" if any(facts(fn)[0]) else None)


def test_of_a_global(served, monkeypatch):
    fn = served(of_global)
    for value in (2.0, 2.5, 2.5, 2.5):
        monkeypatch.setitem(globals(), "SCALE", value)
        routed(fn, X, via=None)
    routed(fn, X, via="scm", launches=1)
    for value in (3.5, 4.5):
        monkeypatch.setitem(globals(), "SCALE", value)
        routed(fn, X, via="scm" if any(facts(fn)[0]) else "dynamo")


# -- passed on to operators, and returned --------------------------------------------------------------------------------

OPERATORS = {
    "added": lambda x, a: x + a,
    "alpha": lambda x, a: torch.add(x, x, alpha=a),
    "divided": lambda x, a: a / x,
    "clamped": lambda x, a: x.clamp(max=a),
    "compared": lambda x, a: x < a,
    "chosen": lambda x, a: torch.where(x > 0, x, a),
    "filled": lambda x, a: torch.full((3,), a),
    "in place": lambda x, a: x.clone().mul_(a).add_(a),
    "of ints": lambda x, a: x.int() * a,
    "of halves": lambda x, a: x.half() * a,
    "of doubles": lambda x, a: x.double() + a,
    "returned": lambda x, a: (x * 2, a, [a]),
    "value": lambda x, a: torch.addcmul(x, x, x, value=a),
    "slope": torch.nn.functional.leaky_relu,
}


_RAISES = ("alpha", "chosen", "clamped", "filled", "value", "slope")


def alone(function, name: str):
    """With a place of its own, by which Dynamo remembers what has changed."""
    import types

    if function.__code__.co_name != "<lambda>":
        return lambda x, a: function(x, a)
    code = function.__code__.replace(co_name=name.replace(" ", "_"))
    return types.FunctionType(code, function.__globals__, code.co_name)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(served, name):
    fn = served(alone(OPERATORS[name], name))
    for value in (1.5, 2.5):
        routed(fn, X, value, via=None)
    for value in FLOATS:
        raises = name in _RAISES and abs(value) > 3.5e38  # too large for float32, says the operator
        routed(fn, X, value, via="bypass" if raises else "scm", raises=RuntimeError if raises else None)
    for value in (math.inf, math.nan, math.inf, math.nan):
        routed(fn, X, value, via=None)


# -- computed with -----------------------------------------------------------------------------------------------------

COMPUTED = {
    "plus zero": lambda x, a: x * (a + 0.0),  # sympy: the same. Not for -0.0
    "plus and minus": lambda x, a: x * ((a + 1e16) - 1e16),
    "negated": lambda x, a: x * -a,
    "halved": lambda x, a: x + a / 2,
    "times one": lambda x, a: x * (a * 1),
    "root": lambda x, a: x * math.sqrt(abs(a)),
    "branch": lambda x, a: x * 2 if a > 1 else x * 3,
    "branch after sum": lambda x, a: x * 2 if a + 1e308 > a else x * 3,
    "truth": lambda x, a: x * 2 if a else x * 3,
    "equal to itself": lambda x, a: x * 2 if a == a else x * 3,
    "rounded": lambda x, a: x + round(a),
    "truncated": lambda x, a: x[: int(a) % 7],
    "size": lambda x, a: torch.zeros(int(abs(a)) % 5 + 1) + x[0],
    "key": lambda x, a: x * {1.5: 2.0}.get(a, 7.0),
    "text": lambda x, a: x * len(f"{a}"),
    "largest": lambda x, a: x * max(a, 1.0),
    "norm": lambda x, a: torch.norm(x, p=abs(a)),
    "range": lambda x, a: torch.arange(0, abs(a) % 5, 0.5),
    "beta": lambda x, a: torch.addmm(x.view(4, 8), x.view(4, 8), torch.ones(8, 8), beta=a, alpha=a),
    "gelu of it": lambda x, a: x * math.exp(-abs(a)),
    "tensor": lambda x, a: x * torch.tensor(a),  # too large is infinity here, and an error of the symbolic operator
    "tensor of several": lambda x, a: torch.tensor([a, 1.0]) + x[0],
    "compared with infinity": lambda x, a: x * 2 if a < math.inf else x * 3,
}


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_computed_is_never_symbolic(served, name):
    """Or is so without a difference: the answers are those of the plain function for every value."""
    fn = served(alone(COMPUTED[name], name))
    values = (1.5, 2.5, 0.75, -0.0, 0.0, 1.0, -2.0, 6.0, 0.1, 1e300, math.inf, math.nan)
    limits = {"rounded": 9, "truncated": 9, "size": 9, "range": 9, "text": 9, "beta": 9}
    for value in values[: limits.get(name, len(values))] * 3:
        routed(fn, X, value, via=None)
    explanation = trident_hook.explain(fn)
    assert not any(spec.program.has_floats for spec in explanation.specializations)
    assert explanation.fixed_floats, "and explain says why"
    assert explanation.fixed_floats in str(explanation)
    assert all("no-graph" in text or "NaN" in text for text in explanation.refusals)
    routed(fn, X, 1.5, via="scm")


def test_a_function_that_computes_keeps_its_symbolic_sizes(served):
    """Floats are constants from then on, nothing else is."""
    fn = served(alone(COMPUTED["halved"], "halved and sized"))
    learn(fn, (X, 1.5), (X, 2.5))
    routed(fn, X, 2.5, via="scm")
    routed(fn, torch.ones(48), 2.5, via="dynamo")
    routed(fn, torch.ones(40), 2.5, via="scm")


def test_a_float_in_a_tuners_key_is_a_constant(served):
    """A tuner chooses anew for each value."""
    fn = served(keyed)
    for value in (1.5, 2.5, 2.5, 3.5, 3.5):
        routed(fn, X, value, via=None)
    for value in (1.5, 2.5, 3.5):
        routed(fn, X, value, via="scm", launches=1)
    assert not any(facts(fn)[0])
    assert "among the keys of a tuner" in trident_hook.explain(fn).fixed_floats


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 32})], key=["a"])
@triton.jit
def keyed_kernel(x, y, a, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + a, mask=at < n)


def keyed(x, a):
    y = torch.empty_like(x)
    keyed_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, a, x.numel())
    return y
