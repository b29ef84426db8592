"""The short ways of an operator site: views by arithmetic, and unboxed calls. The same effect as the operator's, and the
operator itself wherever something else could be meant."""

from __future__ import annotations

import itertools
import threading

import pytest
import torch

from trident_hook import _rt
from trident_hook.runtime.trusted_kernels import VIEWS, trust_views

aten = torch.ops.aten


@pytest.fixture(autouse=True, scope="module")
def trusted():
    assert trust_views() == VIEWS


def site(operator, args):
    """A prepared call: tensors and every number are placeholders, so that one template serves any value."""
    tensors, ints, template = [], [], []

    def number(value):
        ints.append(value)
        return ("i", len(ints) - 1)

    for value, declared in itertools.zip_longest(args, operator._schema.arguments[: len(args)]):
        if isinstance(value, torch.Tensor):
            template.append(("t", len(tensors)))
            tensors.append(value)
        elif isinstance(value, (list, tuple)) and all(type(v) is int for v in value):
            template.append(("il", [number(v) for v in value]))
        elif type(value) is int and str(declared.real_type) in ("int", "SymInt", "number"):
            template.append(number(value))
        else:
            template.append(("c", value))
    template += [("c", a.default_value) for a in operator._schema.arguments[len(args) :]]
    made = _rt.op_site(operator._schema.name, operator._schema.overload_name, tuple(template), 1)
    return lambda: _rt.op_call(made, tuple(tensors), tuple(ints), ())[0][0]


def call(operator, *args):
    """(result, whether it was made by arithmetic)"""
    before = _rt.views_made()
    return site(operator, args)(), _rt.views_made() > before


def eager(operator, args):
    """The operator itself; keyword-only arguments by name."""
    declared = operator._schema.arguments
    positional = sum(not a.kwarg_only for a in declared)
    return operator(*args[:positional], **{a.name: v for a, v in zip(declared[positional:], args[positional:])})


def facts(view, of) -> tuple:
    return (view.shape, view.stride(), view.storage_offset(), view.dtype, view.data_ptr(), view._is_view(), view._base is of,
            view.requires_grad, view.grad_fn is None, view.is_inference(), torch._C._dispatch_keys(view))  # fmt: skip


def bases() -> dict:
    x = torch.arange(120.0).view(4, 5, 6)
    return {
        "dense": x, "transposed": x.transpose(0, 2), "sliced": x[1:, ::2, 3:], "one": torch.ones(1, 5, 1), "empty": x[:0],
        "expanded": torch.arange(5.0).view(1, 5, 1).expand(4, 5, 6), "flat": x.view(-1)[7:67], "matrix": x[2], "scalar": x[0, 0, 0],
        "bytes": torch.arange(60, dtype=torch.uint8).view(3, 20),
    }  # fmt: skip


CALLS = [
    (aten.view.default, ([-1],)), (aten.view.default, ([5, -1],)), (aten.view.default, ([2, 2, 30],)), (aten.view.default, ([60],)),
    (aten.transpose.int, (0, 1)), (aten.transpose.int, (-1, 0)), (aten.transpose.int, (1, 1)), (aten.t.default, ()),
    (aten.permute.default, ([2, 0, 1],)), (aten.permute.default, ([-1, 0],)), (aten.permute.default, ([0],)),
    (aten.expand.default, ([4, 5, 6],)), (aten.expand.default, ([3, -1, 5, -1],)), (aten.expand.default, ([2, 7, 60],)),
    (aten.select.int, (0, 1)), (aten.select.int, (-1, -1)), (aten.slice.Tensor, (0, 1, 3, 1)), (aten.slice.Tensor, (0, None, None, 2)),
    (aten.slice.Tensor, (-1, -3, 1000, 2)), (aten.slice.Tensor, (0, 2, 1, 1)), (aten.slice.Tensor, (0, -100, -1, 1)),
    (aten.unsqueeze.default, (0,)), (aten.unsqueeze.default, (-1,)), (aten.unsqueeze.default, (1,)), (aten.squeeze.dim, (0,)),
    (aten.squeeze.dim, (-1,)), (aten.alias.default, ()),
]  # fmt: skip


@pytest.mark.parametrize("name", bases())
def test_a_view_is_the_operators(name):
    """Those that the operator makes are made by arithmetic, with the same facts; its errors are its own."""
    x = bases()[name]
    by_arithmetic = 0
    for operator, args in CALLS:
        try:
            expected = operator(x, *args)
        except (RuntimeError, IndexError, ValueError) as raised_by_eager:
            error = raised_by_eager
            with pytest.raises(type(error)) as raised:
                call(operator, x, *args)
            assert str(raised.value).splitlines()[0] == str(error).splitlines()[0], (operator, args)
            continue
        got, made = call(operator, x, *args)
        base = x if x._base is None else x._base
        assert facts(got, base) == facts(expected, base), (operator, args)
        by_arithmetic += made
        assert made or x.dim() < 2, (operator, args)
    assert by_arithmetic >= (2 if name == "scalar" else 8)


def test_a_view_shares_its_version():
    x = torch.zeros(3, 4)
    got, made = call(aten.transpose.int, x, 0, 1)
    assert made
    x.add_(1)
    got.add_(1)
    assert got._version == x._version == 2
    assert x.sum() == 24


def test_autograd_through_a_view_that_needed_none():
    """An in-place operator with something that requires grad, later on: base and view take part as with eager's view."""

    def gradient(view_of):
        w = torch.full((4, 3), 3.0, requires_grad=True)
        x = torch.ones(3, 4)
        v = view_of(x)
        v.mul_(w)
        (x * 2).sum().backward()
        return w.grad, type(v.grad_fn).__name__, x.requires_grad

    got = gradient(lambda x: call(aten.transpose.int, x, 0, 1)[0])
    expected = gradient(lambda x: x.transpose(0, 1))
    assert torch.equal(got[0], expected[0])
    assert got[1:] == expected[1:]


def test_a_view_made_without_grad_says_so():
    def error(view_of):
        x = torch.ones(3, 4)
        with torch.no_grad():
            v = view_of(x)
        with pytest.raises(RuntimeError) as raised:
            v.mul_(torch.ones(4, 3, requires_grad=True))
        return str(raised.value)

    assert error(lambda x: call(aten.transpose.int, x, 0, 1)[0]) == error(lambda x: x.transpose(0, 1))


def test_left_to_the_operator():
    x = torch.ones(3, 4)
    assert call(aten.t.default, x)[1]
    needing = x.clone().requires_grad_()
    got, made = call(aten.t.default, needing)
    assert (type(got.grad_fn).__name__, made) == ("TBackward0", False)
    with torch.no_grad():
        got, made = call(aten.t.default, needing)
        assert (got.grad_fn, made) == (None, True)
    with torch.inference_mode():
        got, made = call(aten.t.default, torch.ones(3, 4))
        assert (got.is_inference(), made) == (True, False)
        assert not call(aten.t.default, x)[1]
    assert not call(aten.t.default, torch.ones(3, 4, dtype=torch.complex64).conj())[1]
    assert not call(aten.t.default, torch.ones(3, 4, device="meta"))[1]
    assert not call(aten.t.default, torch.ones(3, 4).to_sparse())[1]
    with torch.profiler.profile() as profile:
        assert not call(aten.t.default, x)[1]
    assert "aten::t" in {event.key for event in profile.key_averages()}


@pytest.mark.parametrize("name", ["t", "as_strided"])
def test_an_override_is_noticed(override, name):
    """Of the operator, and of the one that its kernel calls; registered after the site was made, and taken away again."""
    x = torch.ones(3, 4)
    prepared, before = site(aten.t.default, (x,)), _rt.views_made()
    prepared()
    assert _rt.views_made() == before + 1
    with override(f"{name}", lambda *args: torch.zeros(7)):
        prepared()
        assert _rt.views_made() == before + 1
    assert prepared().shape == (4, 3)
    assert _rt.views_made() == before + 2


UNBOXED = [
    (aten.relu.default, lambda x, y: (x,)), (aten.add.Tensor, lambda x, y: (x, y, 2)), (aten.mul.Tensor, lambda x, y: (x, y)),
    (aten.add_.Tensor, lambda x, y: (x, y)), (aten.mul.Scalar, lambda x, y: (x, 2)), (aten.addmm.default, lambda x, y: (x, x, y)),
    (aten.where.self, lambda x, y: (x > 0, x, y)), (aten.copy_.default, lambda x, y: (x, y)), (aten.clamp.default, lambda x, y: (x, 0, 1)),
    (aten.sum.dim_IntList, lambda x, y: (x, [0], True)), (aten.softmax.int, lambda x, y: (x, 1)), (aten.cat.default, lambda x, y: None),
    (aten.index_select.default, lambda x, y: (x, 0, torch.tensor([0, 2]))), (aten.gelu.default, lambda x, y: (x,)),
    (aten.zeros_like.default, lambda x, y: (x,)), (aten.full_like.default, lambda x, y: (x, 3)), (aten.repeat.default, lambda x, y: (x, [2, 1])),
]  # fmt: skip


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize(("operator", "arguments"), UNBOXED, ids=[str(o) for o, _ in UNBOXED])
def test_an_unboxed_call_is_the_operators(operator, arguments, needs_grad):
    def make():
        torch.manual_seed(0)
        x, y = torch.randn(3, 3, requires_grad=needs_grad), torch.randn(3, 3)
        return x * 1, y

    (x, y), (eager_x, eager_y) = make(), make()
    if operator is aten.cat.default:
        made = _rt.op_site("aten::cat", "", (("tl", [0, 1]), ("c", 0)), 1)
        got, expected = _rt.op_call(made, (x, y), (), ())[0][0], torch.cat([eager_x, eager_y])
    else:
        got, expected = site(operator, arguments(x, y))(), eager(operator, arguments(eager_x, eager_y))
    assert torch.equal(got, expected)
    assert (got.stride(), got._version, type(got.grad_fn).__name__) == (expected.stride(), expected._version,
                                                                       type(expected.grad_fn).__name__)  # fmt: skip
    assert (got is x) == (expected is eager_x)
    assert torch.equal(x, eager_x)


def test_an_unboxed_call_meets_kernels_from_python(override):
    x = torch.ones(3)
    prepared = site(aten.relu.default, (x,))
    assert torch.equal(prepared(), x)
    with override("relu", lambda t: t + 41):
        assert torch.equal(prepared(), x + 41)
    assert torch.equal(prepared(), x)


def test_other_threads_run_during_a_long_call():
    """Short work on the CPU keeps the GIL; anything larger gives it up."""
    large = torch.randn(900, 900)
    prepared = site(aten.mm.default, (large, large))
    ticks, stop = [0], threading.Event()

    def tick():
        while not stop.is_set():
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        before = ticks[0]
        for _ in range(5):
            prepared()
        assert ticks[0] > before
    finally:
        stop.set()
        thread.join()
