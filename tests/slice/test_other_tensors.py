"""Tensors that are not the ones a specialization was made for: each must miss, be answered as by the plain function,
get a specialization of its own where that is possible, and leave the first one as it was."""

from __future__ import annotations

import warnings

import pytest
import torch
from support import programs
from support.routes import routed, warm

import trident_hook
from trident_hook.testing import simdriver, workloads


def base():
    return torch.randn(8, 16)


OTHERS = {
    "dtype": lambda: base().half(),
    "rank": lambda: torch.randn(2, 4, 16),
    "misaligned": lambda: torch.randn(8 * 16 + 1)[1:].view(8, 16),
    "transposed": lambda: torch.randn(16, 8).t(),
    "every second row": lambda: torch.randn(16, 16)[::2],
    "overlapping": lambda: torch.randn(16).expand(8, 16),
    "empty": lambda: torch.randn(0, 16),
    "one row": lambda: torch.randn(1, 16),
    "requires grad": lambda: base().requires_grad_(),
    "parameter": lambda: torch.nn.Parameter(base()),
    "result with a grad_fn": lambda: base().requires_grad_() * 1,
    "inference tensor": lambda: _inference(),
    "int": lambda: torch.arange(128, dtype=torch.int32).view(8, 16),
}


def _inference():
    with torch.inference_mode():
        return base()


@pytest.mark.parametrize("other", [o for o in OTHERS if o != "overlapping"])  # the kernel would read past its end
def test_another_tensor_misses(served, other):
    fn, x, y = served(programs.shift), base(), OTHERS[other]()
    warm(fn, x, 3)
    routed(fn, y, 3, via="dynamo")
    routed(fn, y, 3, via="scm")
    routed(fn, x, 3, via="scm", launches=1)


@pytest.mark.parametrize("other", OTHERS)
def test_another_tensor_misses_without_a_launch(served, other):
    """The same for a function of ATen operators only: it has no launch preconditions that could hide a lost guard."""
    fn, x, y, weight = served(aten), base(), OTHERS[other](), torch.randn(16, 4)
    if other in ("dtype", "int"):
        weight = weight.to(y.dtype)
    warm(fn, x, torch.randn(16, 4))
    if other != "misaligned":  # nothing here depends on the address
        routed(fn, y, weight, via="dynamo")
    routed(fn, y, weight, via="scm")
    routed(fn, x, torch.randn(16, 4), via="scm")


def aten(x, weight):
    return (x @ weight) * 2, x.sum()


def test_a_tensor_on_another_device_misses(served):
    fn, x = served(programs.aten_only), base()
    weight = torch.randn(16, 4)
    warm(fn, x, weight)
    routed(fn, x.to("meta"), weight.to("meta"), via="dynamo")
    routed(fn, x, weight, via="scm")


def test_a_meta_tensor_does_not_reach_a_kernel_made_for_others(served):
    fn, x = served(programs.shift), base()
    warm(fn, x, 3)
    with simdriver.no_interpret():
        routed(fn, x.to("meta"), 3, via="dynamo")
        routed(fn, x.to("meta"), 3, via=None)
    routed(fn, x, 3, via="scm")


def test_a_negated_view_is_refused_with_its_reason(served):
    """Triton's wrapper has no implementation for it in PyTorch, so it cannot be captured: plain Python serves it."""
    fn, x = served(programs.shift), base()
    negated = torch.randn(8, 16, dtype=torch.complex64).conj().imag
    assert negated.is_neg()
    warm(fn, x, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is left alone from some call on
        for _ in range(4):
            routed(fn, negated, 3, via=None, reason="normalize")
        routed(fn, negated, 3, via="python", reason="Negative")
    explanation = trident_hook.explain(fn)
    assert (explanation.counts["hits"], len(explanation.specializations)) == (1, 1)
    routed(fn, x, 3, via="scm", launches=1)


def test_a_negated_view_is_served_where_nothing_is_launched(served):
    fn, x, weight = served(aten), base(), torch.randn(16, 4)
    negated = torch.randn(8, 16, dtype=torch.complex64).conj().imag
    warm(fn, x, weight)
    warm(fn, negated, weight)
    routed(fn, x, weight, via="scm")


class Sub(torch.Tensor):
    pass


class Logged(torch.Tensor):
    calls = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Logged.calls += 1
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("cls", [Sub, Logged])
@pytest.mark.parametrize("program", ["aten_only", "shift"])
def test_a_subclass_misses(served, cls, program):
    fn, x = served(getattr(programs, program)), base()
    rest = (torch.randn(16, 4),) if program == "aten_only" else (3,)
    warm(fn, x, *rest)
    y = base().as_subclass(cls)
    for via in ("dynamo", None, None):
        _as_plain(fn, y, *rest, via=via)
    routed(fn, x, *rest, via="scm")


def _as_plain(fn, *args, via=None):
    """The answer is the plain function's whatever the route is, unless one is given."""
    if via:
        return routed(fn, *args, via=via)
    from support.routes import same, twin

    assert same(fn(*args), twin(fn)(*args))


def test_a_subclass_sees_its_torch_function_called(served):
    fn, y = served(programs.aten_only), base().as_subclass(Logged)
    weight = torch.randn(16, 4)
    from support.routes import twin

    Logged.calls = 0
    twin(fn)(y, weight)
    eager = Logged.calls
    for _ in range(3):
        fn(y, weight)
    Logged.calls = 0
    fn(y, weight)
    assert Logged.calls == eager


def test_the_same_tensor_twice_misses(served):
    fn, x, y = served(programs.combine), base(), base()
    warm(fn, x, y)
    routed(fn, x, x, via="dynamo", reason="distinct")
    routed(fn, x, x, via="scm")
    routed(fn, x, y, via="scm")


def test_different_tensors_miss_where_one_was_given_twice(served):
    fn, x, y = served(programs.combine), base(), base()
    warm(fn, x, x)
    routed(fn, x, y, via="dynamo")
    routed(fn, x, y, via="scm")
    routed(fn, x, x, via="scm")


def test_two_views_of_one_storage(served):
    """Not the same object, but overlapping: an in-place kernel through one is seen through the other."""
    fn = served(in_place_then_read)
    warm_args = [torch.randn(8), torch.randn(8)]
    routed(fn, *warm_args, via="dynamo", mutates=True)
    routed(fn, *warm_args, via="scm", mutates=True)
    x = torch.randn(8)
    routed(fn, x, x[:], mutates=True)
    routed(fn, x, x[:], mutates=True)
    x = torch.randn(16)
    routed(fn, x[:8], x[4:12], mutates=True)


def in_place_then_read(x, y):
    programs.shift_kernel[(1,)](x, x, 3, x.numel(), BLOCK=64)
    return y * 2


def test_misaligned_then_aligned(served):
    """The specialization of a misaligned view does not serve an aligned one either: eager's binary is another."""
    fn = served(programs.shift)
    storage = torch.randn(17)
    warm(fn, storage[1:], 3)
    routed(fn, storage[:16], 3, via="dynamo", reason="divisible by 16")
    routed(fn, storage[:16], 3, via="scm")
    routed(fn, storage[1:], 3, via="scm")


def test_not_a_tensor_raises_as_the_plain_function_does(served):
    fn, x = served(programs.shift), base()
    warm(fn, x, 3)
    for wrong in (None, [1.0]):
        routed(fn, wrong, 3, via="dynamo", raises=(TypeError, AttributeError))
    routed(fn, x, 3, via="scm")


def test_wrong_calls_do_not_use_up_the_budget(served):
    fn, x = served(programs.shift), base()
    warm(fn, x, 3)
    for wrong in (None, 3, "x", [1.0], object(), {}, ()):
        routed(fn, wrong, 3, via=None, raises=(TypeError, AttributeError))
    routed(fn, x.half(), 3, via="python")  # it is wary by now: a kind of call is captured once one has returned
    warm(fn, x.half(), 3)
    routed(fn, x, 3, via="scm")


def test_rms_norm_of_every_layout(served):
    fn = served(workloads.rms_norm)
    for x in (torch.randn(4, 64), torch.randn(64, 4).t(), torch.randn(2, 3, 64), torch.randn(4, 65)[:, 1:]):
        warm(fn, x, torch.randn(64), 1e-5)
