"""Kinds of guards that need more than a pair of arguments: rare ones, and those that refuse the capture."""

from __future__ import annotations

import pytest
import torch
from support.routes import routed, same, twin
from torch.autograd import forward_ad
from torch.utils import _pytree

import trident_hook

X = torch.arange(6.0).reshape(2, 3)


def double(x):
    return x * 2


def flattened(x, tree):
    leaves, _ = _pytree.tree_flatten(tree)
    return x + leaves[0]


def test_dict_version():
    """Another node type in pytree's table: it might be the class of something in the tree."""

    class Node:
        pass

    served = trident_hook.jit(flattened)
    routed(served, X, [1, (2,)], via="dynamo")
    routed(served, X, [1, (2,)], via="scm")
    _pytree.register_pytree_node(Node, lambda n: ([], None), lambda values, context: Node())
    try:
        misses = trident_hook.counts(served)["misses"]
        assert same(served(X, [1, (2,)]), twin(flattened)(X, [1, (2,)]))
        assert trident_hook.counts(served)["misses"] == misses + 1
    finally:
        _pytree._deregister_pytree_node(Node)


def test_dual_level():
    """A tensor with a tangent dispatches as what it is: the specialization computes the tangent, too."""
    served = trident_hook.jit(twin(double))
    routed(served, X, via="dynamo")
    routed(served, X, via="scm")
    with forward_ad.dual_level():
        routed(served, X, via="scm")
        tangent = torch.ones_like(X)
        primal = forward_ad.make_dual(X, tangent)
        hits = trident_hook.counts(served)["hits"]
        assert torch.equal(forward_ad.unpack_dual(served(primal)).tangent, tangent * 2)
        assert trident_hook.counts(served)["hits"] == hits + 1


def wrapper_subclass():
    from torch.testing._internal.two_tensor import TwoTensor

    return double, (TwoTensor(X, X),), "tensor: TwoTensor"


def buffer_class():
    def asks(x):
        return x * 2 if isinstance(x, torch.nn.Buffer) else x * 3

    return asks, (X,), "buffer"


def class_with_operators():
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    return double, (X.as_subclass(Loud),), "subclass"


def optimizer_state():
    weight = torch.nn.Parameter(X.clone())
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step(x):
        weight.grad = x
        optimizer.step()
        return x + 1

    return step, (X,), ""


@pytest.mark.parametrize("make", [wrapper_subclass, class_with_operators, buffer_class, optimizer_state])
def test_refused(make):
    fn, args, kind = make()
    served = trident_hook.jit(twin(fn))
    for _ in range(3):
        assert same(served(*args), twin(fn)(*args))
    assert trident_hook.counts(served)["hits"] == 0
    assert kind in str(trident_hook.explain(served)), "the reason is named"


def test_type_of_a_buffer():
    def asks(x):
        return x * 2 if type(x) is torch.Tensor else x * 3

    served = trident_hook.jit(asks)
    routed(served, torch.nn.Buffer(X), via="dynamo")
    routed(served, torch.nn.Buffer(X), via="scm")
    routed(served, X, via="scm")
