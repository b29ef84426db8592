"""Arguments of a launch that Triton binds in its own way, or raises an error for: as the plain function, from the first call on."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from support.routes import twin

import trident_hook

X = torch.ones(64)


@triton.jit
def staged(x, out, n=64, BLOCK: tl.constexpr = 64, num_stages: tl.constexpr = 2, num_ctas: tl.constexpr = 5):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 0 + num_stages + 10 * num_ctas, mask=i < n)


@triton.jit
def plain(x, out, n=64, BLOCK: tl.constexpr = 64):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + n, mask=i < n)


tuned = triton.autotune([triton.Config({"BLOCK": 64}, num_warps=2)], key=["n"])(plain)


def option(x):
    out = torch.empty_like(x)
    staged[(1,)](x, out, num_warps=2)
    return out


def no_option(x):
    out = torch.empty_like(x)
    staged[(1,)](x, out)
    return out


def by_position(x):
    out = torch.empty_like(x)
    staged[(1,)](x, out, 64, 64, 3, 6)
    return out


def twice(x):
    out = torch.empty_like(x)
    plain[(1,)](x, out, x=x)
    return out


def twice_by_unpacking(x):
    out = torch.empty_like(x)
    plain[(1,)](*(x, out, 64), n=3)
    return out


def too_many(x):
    out = torch.empty_like(x)
    plain[(1,)](x, out, 64, 64, 5)
    return out


def of_the_tuner(x):
    out = torch.empty_like(x)
    tuned[(1,)](x, out, 64, BLOCK=64)
    return out


def option_of_the_tuner(x):
    out = torch.empty_like(x)
    tuned[(1,)](x, out, 64, num_warps=4)
    return out


def outcome(fn):
    try:
        return fn(X).tolist()
    except Exception as error:
        return type(error).__name__, str(error)


PROGRAMS = (option, no_option, by_position, twice, twice_by_unpacking, too_many, of_the_tuner, option_of_the_tuner)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_as_triton_takes_them(fn):
    expected = outcome(twin(fn))
    served = trident_hook.jit(twin(fn))
    assert [outcome(served) for _ in range(4)] == [expected] * 4


def test_names_of_options_by_position_are_served():
    served = trident_hook.jit(twin(by_position))
    for _ in range(3):
        assert outcome(served) == [63.0] * 64
    assert trident_hook.counts(served)["hits"] == 2
