"""Nodes of Dynamo's graph that are not found again in a program: refused before anything of them is executed."""

import pytest
import torch

import trident_hook


@pytest.fixture(autouse=True)
def builds_at_once(monkeypatch):
    monkeypatch.setattr(trident_hook.config, "build", "sync")


def default_dtype(x):
    torch.set_default_dtype(torch.float64)
    made = torch.zeros(2)
    torch.set_default_dtype(torch.float32)
    return made + x


def inference(x):
    with torch.inference_mode():
        return x + 1


def deterministic(x):
    torch.use_deterministic_algorithms(True)
    y = x + 1
    torch.use_deterministic_algorithms(False)
    return y


def transformed(x):
    return torch.func.grad(lambda t: t.sin().sum())(x)


def state() -> tuple:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
    )


@pytest.mark.parametrize("function", [default_dtype, inference, deterministic, transformed])
def test_what_is_no_computation_is_refused(function):
    """The very call that is refused is the plain function's, and the thread is as it was."""
    served, x = trident_hook.jit(function), torch.ones(2, requires_grad=True)
    before, expected = state(), function(x)
    for _ in range(3):
        result = served(x)
        assert type(result) is torch.Tensor
        assert torch.equal(result, expected)
        assert (result.dtype, result.is_inference()) == (expected.dtype, expected.is_inference())
        assert state() == before
    assert trident_hook.counts(function)["hits"] == 0


def test_data_is_served():
    """What is written to `x.data` is written to x, and x counts no version."""

    def write(p, q):
        p.data.copy_(q)
        return p.data

    served, q = trident_hook.jit(write), torch.full((3,), 5.0)
    for _ in range(4):
        p = torch.nn.Parameter(torch.ones(3))
        result = served(p, q)
        assert torch.equal(p, q)
        assert (p._version, result.requires_grad, type(result)) == (0, False, torch.Tensor)
        assert result.data_ptr() == p.data_ptr()
    assert trident_hook.counts(write)["hits"] == 3


def test_detach_counts_versions():
    """Unlike `.data`."""

    def write(p, q):
        p.detach().copy_(q)

    served, q = trident_hook.jit(write), torch.full((3,), 5.0)
    for _ in range(4):
        p = torch.nn.Parameter(torch.ones(3))
        served(p, q)
        assert p._version == 1


def test_an_index_that_nobody_uses_is_checked():
    def check(x, i):
        x[i]
        return x + 1

    served, x = trident_hook.jit(check), torch.arange(4.0)
    for _ in range(3):
        assert torch.equal(served(x, torch.tensor([1])), x + 1)
    assert trident_hook.counts(check)["hits"] == 2
    with pytest.raises(IndexError):
        served(x, torch.tensor([99]))
