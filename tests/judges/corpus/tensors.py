"""Functions of tensors: layouts, classes, aliasing, symbolic shapes, and properties read in Python."""

from __future__ import annotations

import torch

from ..places import argument, subject
from ..values import kinds, layouts, ramp, same_as, tensor


@subject(tensor("x"))
def double(x):
    return x * 2


@subject(tensor("x"), tensor("y", 4, 6, *same_as("x")))
def add_two(x, y):
    return x + y, y


@subject(tensor("x"), tensor("y", 4, 6, *same_as("x")))
def in_place(x, y):
    x.add_(1)
    y.mul_(2)
    return x - y


@subject(tensor("x"), tensor("y", 4, 6, *same_as("x")), tensor("z", 4, 6, *same_as("y"), *same_as("x")))
def three(x, y, z):
    x.mul_(y)
    return x, z + y


@subject(
    argument("x", *layouts(4, 6), *kinds(4, 6)),
    argument("y", lambda made: made["x"], lambda: ramp(4, 6), *same_as("x")),
)
def given_twice(x, y):
    if x is y:
        return x * 2
    return x + y + 1


@subject(tensor("x"), dynamic=True)
def any_rows(x):
    return x.reshape(-1).sum() * x.shape[0]


@subject(tensor("x"), dynamic=True)
def shape_relation(x):
    if x.shape[0] * 2 > x.shape[-1] + 1:
        return x + x.shape[0] // 2
    return x - x.shape[-1] % 3


@subject(tensor("x"), tensor("y", 4, 6, *same_as("x")), dynamic=True)
def joined(x, y):
    return torch.cat([x, y], 0), x.numel() + y.numel()


@subject(tensor("x"), dynamic=True)
def stride_relation(x):
    if x.stride(0) > 7:
        return x.clone()
    return x.contiguous() + x.stride(-1)


@subject(tensor("x"))
def returned_view(x):
    return x[1:], x.t(), x


@subject(tensor("x"))
def strided_view(x):
    return torch.as_strided(x, (2, 2), (1, 2)) + 1


@subject(tensor("x"))
def strided_view_out(x):
    return torch.as_strided(x, (2, 2), (1, 2)), x + 1


@subject(tensor("x"))
def offset_read(x):
    return x * (1 + x.storage_offset())


@subject(tensor("x"))
def contiguous_or_not(x):
    return (x * 2, 1) if x.is_contiguous() else (x * 3, 2)


@subject(tensor("x"))
def leaf_or_not(x):
    return x * 2 if x.is_leaf else x * 3


@subject(tensor("x"))
def has_grad_fn(x):
    return x * 2 if x.grad_fn is None else x * 3


@subject(tensor("x"))
def grad_or_not(x):
    return x * 2 if x.grad is None else x * 3


@subject(tensor("x"))
def wants_grad(x):
    return x * 2 if x.requires_grad else x * 3


@subject(tensor("x"))
def detached(x):
    return x.detach() * 2, x.detach()


@subject(tensor("x"))
def is_view_or_not(x):
    return x * 2 if x._is_view() else x * 3


@subject(tensor("x"))
def of_its_dtype(x):
    return (x * 2 if x.dtype == torch.float32 else x * 3), x.dtype, x.device, x.ndim


@subject(tensor("x"))
def of_its_class(x):
    if type(x) is torch.Tensor:
        return x * 2
    if isinstance(x, torch.nn.Parameter):
        return x * 5
    return x * 3


@subject(tensor("x"))
def tagged(x):
    return x * getattr(x, "tag", 2)


@subject(tensor("x"))
def conjugate(x):
    return (x.conj() * 2, 1) if x.is_conj() else (x * 2, x.is_neg())


@subject(tensor("x", 4, 4), tensor("w", 4, 4, *same_as("x")))
def product(x, w):
    return (x @ w).relu().sum(-1)


@subject(tensor("x"))
def random_noise(x):
    return x + torch.randn(x.shape), torch.rand(2)


@subject(argument("x", lambda: None, *layouts(4, 6)), tensor("y"))
def optional(x, y):
    return y * 2 if x is None else y + x


@subject(
    tensor("x"),
    argument("index", lambda: torch.tensor([0, 1]), lambda: torch.tensor([0, 99]), lambda: torch.tensor([3])),
)
def fails_late(x, index):
    y = x.mul_(2)
    return torch.index_select(y, 0, index)


@subject(tensor("x"))
def split_up(x):
    a, b = x.chunk(2, 0)
    return [a, b, a * b]


@subject(tensor("x"))
def to_dtype(x):
    return x.to(torch.float64), x.to(torch.float32), x.float()


@subject(tensor("x"))
def expanded(x):
    return x.unsqueeze(0).expand(3, *x.shape), x.size()


@subject(tensor("x"))
def buffer_or_not(x):
    return x * 2 if isinstance(x, torch.nn.Buffer) else x * 3
