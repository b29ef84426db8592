"""`_version` of what a function makes and changes: it counts what the plain function's does."""

from __future__ import annotations

import pytest
import torch

import trident_hook


def from_numbers(n):
    return (
        torch.zeros(n),
        torch.full((n,), 1.0),
        torch.randn(n),
        torch.arange(n),
        torch.eye(n),
        torch.rand(n),
        torch.ones(n),
    )


def from_tensors(x):
    return (
        torch.zeros_like(x),
        x.new_zeros(2),
        x.new_full((2,), 1.0),
        x * 1,
        x.clone(),
        torch.cat([x, x]),
        torch.rand_like(x),
    )


def changed(x):
    return torch.empty(2).fill_(1), torch.zeros(2).add_(1), (x * 2).mul_(x).add_(1)


@pytest.mark.parametrize(("plain", "argument"), [(from_numbers, 3), (from_tensors, torch.ones(2)), (changed, torch.ones(2))],
                         ids=lambda v: getattr(v, "__name__", ""))  # fmt: skip
def test_versions(plain, argument, through):
    fn = through(plain)
    expected = [t._version for t in plain(argument)]
    for _ in range(4):
        assert [t._version for t in fn(argument)] == expected
    if through.door == "jit":
        assert trident_hook.counts(fn)["hits"] == 3
