"""What comes back: new tensors, returned arguments, views, containers, numbers, None, and what the function changed."""

from __future__ import annotations

import collections
import dataclasses

import pytest
import torch
from support import programs
from support.routes import routed, same, twin, warm

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Record:
    value: torch.Tensor
    name: str


def launch(x):
    y = torch.empty_like(x)
    programs.shift_kernel[(1,)](x, y, 3, x.numel(), BLOCK=64)
    return y


FORMS = {
    "tuple": lambda x: (launch(x), x.shape[0]),
    "list": lambda x: [launch(x), x + 1],
    "dict": lambda x: {"a": launch(x), "b": [1, 2.5, None, "text"]},
    "nested": lambda x: (launch(x), {"k": ([x * 2], (3,))}, ()),
    "namedtuple": lambda x: Pair(launch(x), 3),
    "dataclass": lambda x: Record(launch(x), "r"),
    "set": lambda x: (launch(x), {1, 2}),
    "ordered": lambda x: collections.OrderedDict(a=launch(x), b=1),
    "none": lambda x: (launch(x), None)[1],
    "size": lambda x: (launch(x), x.shape),
    "ints": lambda x: (launch(x), x.shape[0] + 1, x.numel(), x.stride(), x.dim()),
    "dtype and device": lambda x: (launch(x), x.dtype, x.device),
    "slice": lambda x: (launch(x), slice(1, x.shape[0])),
    "bool": lambda x: (launch(x), x.shape[0] > 3, x.is_contiguous()),
    "string": lambda x: (launch(x), f"{x.dim()}"),
    "same tensor twice": lambda x: (lambda y: (y, y))(launch(x)),
    "argument": lambda x: (launch(x), x),
    "item of a tensor": lambda x: launch(x)[0],
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(served, form):
    fn, x = served(FORMS[form]), torch.randn(16)
    routed(fn, x, via="dynamo")
    routed(fn, x, via="scm")


def test_identity_of_what_is_returned(through):
    fn = through(returns_everything)
    x, extra = torch.randn(16), [torch.randn(3)]
    for _ in range(3):
        got_x, y, again, item, got_extra = fn(x, extra)
        assert got_x is x
        assert y is again
        assert y is not x
        assert item is extra[0]
        assert got_extra is extra


def returns_everything(x, extra):
    y = launch(x)
    return x, y, y, extra[0], extra


def test_only_arguments_are_returned(served):
    """No graph, so nothing to compile: the function goes on as plain Python, and quietly."""
    fn, x = served(lambda x, y: (y, x)), torch.randn(3)
    for _ in range(6):
        got = fn(x, 5)
        assert got[0] == 5
        assert got[1] is x


def test_nothing_is_shared_between_calls(through):
    fn, x = through(FORMS["dict"]), torch.randn(16)
    warm(fn, x)
    one, two = fn(x), fn(x)
    assert one is not two
    assert one["b"] is not two["b"]
    assert one["a"].data_ptr() != two["a"].data_ptr()
    one["b"].append(1)
    one["a"].zero_()
    assert same(fn(x), twin(fn)(x))


def test_views_share_storage(through):
    fn, x = through(views), torch.randn(4, 16)
    for _ in range(3):
        whole, row, transposed = fn(x)
        assert row.data_ptr() == whole.data_ptr() + 16 * 4
        assert row.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
        assert row._base is not None
        assert row._is_view()
        whole.fill_(5)
        assert (row == 5).all()
        assert transposed.data_ptr() == x.data_ptr()
        assert transposed.shape == (16, 4)
    routed(fn, x, via="scm")


def views(x):
    y = launch(x)
    return y, y[1], x.t()


def test_mutation_in_place(through):
    fn = through(programs.shift_)
    x = torch.randn(16)
    assert fn(x, 3) is x
    version = x._version
    routed(fn, torch.randn(16), 3, via="scm", mutates=True)
    before = x.clone()
    assert fn(x, 3) is x
    assert torch.equal(x, before + 3)
    assert x._version >= version


def test_mutation_through_a_view(served):
    fn = served(fill_row)
    routed(fn, torch.randn(4, 4), via="dynamo", mutates=True)
    routed(fn, torch.randn(4, 4), via="scm", mutates=True)


def fill_row(x):
    x[1].fill_(7.0)
    x[:, 2].add_(1)
    return x[1]


def test_arguments_of_container_type_are_changed(served):
    fn = served(appends)
    for via in ("dynamo", None, None):
        routed(fn, torch.randn(16), [1], {"k": 1}, via=via, mutates=True)


def appends(x, items, named):
    items.append(launch(x))
    named["new"] = x.shape[0]
    return len(items)


def test_attributes_and_globals_are_changed(served, monkeypatch):
    import sys

    monkeypatch.setattr(sys.modules[__name__], "seen", 0, raising=False)

    class Holder:
        pass

    holder, fn = Holder(), served(stores)
    for n in range(1, 4):
        x = torch.randn(16)
        fn(x, holder)
        assert torch.equal(holder.last, x + 3)
        assert seen == n


def stores(x, holder):
    global seen
    seen += 1
    holder.last = launch(x)


def test_gradients_of_what_is_returned(through):
    fn = through(weighted)
    x = torch.randn(16)
    weight = torch.randn(16, requires_grad=True)
    warm(fn, x, weight)
    (ours,) = torch.autograd.grad(fn(x, weight).sum(), weight)
    (eager,) = torch.autograd.grad(twin(fn)(x, weight).sum(), weight)
    assert torch.equal(ours, eager)


def weighted(x, weight):
    return launch(x) * weight


def test_detach_and_requires_grad_inside(served):
    fn, weight = served(lambda w: (w.detach() * 2, w * 2)), torch.randn(4, requires_grad=True)
    routed(fn, weight, via="dynamo")
    routed(fn, weight, via="scm")
