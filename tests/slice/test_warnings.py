"""Warnings of what a function calls: as many as the plain function gives, in each call, and none of what captures run."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings

import pytest
import torch
import torch.nn.functional as F

import trident_hook


def loss(x, y):
    return F.mse_loss(x, y)


def spread(x, y):
    return torch.std(x[:1] + y[:1], dim=0)


def messages(fn, *args):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fn(*args)
    return [(w.category, str(w.message)) for w in seen if not str(w.message).startswith("trident_hook:")]


@pytest.mark.parametrize(
    ("plain", "other"), [(loss, torch.ones(3, 1)), (spread, torch.ones(3))], ids=["loss", "spread"]
)
def test_as_many_as_the_plain_function_gives(plain, other, through):
    fn, x = through(plain), torch.ones(3)
    expected = messages(plain, x, other)
    assert len(expected) == 1
    for _ in range(4):
        assert messages(fn, x, other) == expected
        assert messages(fn, x, x) == messages(plain, x, x)


def test_an_operator_that_warns_when_it_runs_is_served(served):
    fn, x = served(spread), torch.ones(3)
    for _ in range(4):
        messages(fn, x, x)
    assert trident_hook.counts(fn)["hits"] == 3


def test_a_loss_that_does_not_warn_is_served(served):
    fn, x = served(loss), torch.ones(3)
    for _ in range(4):
        assert messages(fn, x, x) == []
    assert trident_hook.counts(fn)["hits"] == 3
    for _ in range(2):
        assert len(messages(fn, x, torch.ones(3, 1))) == 1


def test_a_warning_that_comes_once_in_a_process_is_not_used_up():
    """`x.T` of three dimensions: what is traced and tried first must not be what warns."""
    text = """
        import warnings, torch, trident_hook
        trident_hook.config.build = "sync"
        fn = trident_hook.jit(lambda x: x.T * 2)
        seen = []
        warnings.showwarning = lambda message, *rest: seen.append(str(message))
        warnings.simplefilter("always")
        for _ in range(3):
            fn(torch.ones(2, 3, 4))
        print(sum("x.T" in text for text in seen))
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=200)
    assert ran.stdout.strip() == "1", ran.stdout + ran.stderr
