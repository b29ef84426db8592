"""Sizes and strides that Dynamo believes an operator's result to have: where PyTorch gives others, nothing is captured, and the very
first call has the plain function's answer."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import trident_hook

NORM = torch.nn.BatchNorm2d(2)


def image():
    return torch.arange(32.0).reshape(1, 2, 4, 4).contiguous(memory_format=torch.channels_last)


def turned():
    return torch.arange(24.0).reshape(4, 6).t()


WRONG = {
    "pad": (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), image),
    "fft": (lambda x: torch.fft.fft(x, dim=0), turned),
    "rfft": (lambda x: torch.fft.rfft(x, dim=0), lambda: torch.ones(4, 6)),
    "batch norm of a transposed image": (
        lambda x: F.batch_norm(x.transpose(2, 3), None, None, training=True),
        image,
    ),
}
RIGHT = {
    "batch norm": (lambda x: NORM(x), image),
    "convolution": (lambda x: F.conv2d(x, torch.ones(3, 2, 2, 2)), image),
    "product": (lambda x: x @ x.t(), turned),
    "sort": (lambda x: torch.sort(x, 0)[0], turned),
    "in place": (lambda x: x.add_(1).mul(2), turned),
    "random": (lambda x: torch.rand(3, 2), turned),
    "dropout": (lambda x: F.dropout(x, 0.5), turned),
    "sizes of the data": (lambda x: x[x > 3], turned),
    "an error": (lambda x: torch.linalg.cholesky(x[:3, :3] * 0 + torch.eye(3)), turned),
}


def with_strides(make):
    def fn(x):
        y = make(x)
        return y, y.stride(), y * y.stride(0)

    return fn


def shown(answer):
    return [v.tolist() if isinstance(v, torch.Tensor) else v for v in answer]


@pytest.mark.parametrize("name", WRONG)
def test_what_is_traced_otherwise(name, through):
    make, inputs = WRONG[name]
    expected = shown(with_strides(make)(inputs()))
    fn = through(with_strides(make))
    assert [shown(fn(inputs())) for _ in range(4)] == [expected] * 4
    assert any("traced as" in why for why in trident_hook.explain(fn).refusals)


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_traced_as_it_is(name, served):
    """And looking has no effect: statistics, random numbers and arguments are as in the plain function."""
    make, inputs = RIGHT[name]
    plain, results = with_strides(make), []
    for fn in (plain, served(plain)):
        NORM.reset_running_stats()
        torch.manual_seed(0)
        answers = []
        for _ in range(4):
            x = inputs()
            answers.append((shown(fn(x)), x.tolist()))
        results.append((answers, NORM.running_mean.tolist(), int(NORM.num_batches_tracked)))
    assert repr(results[0]) == repr(results[1])
    assert trident_hook.counts(fn)["hits"] == 3, trident_hook.explain(fn).refusals
