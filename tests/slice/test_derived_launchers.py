"""Autotuners and heuristics of a class of a library's own: what it overrides decides whether its launches are Triton's."""

from __future__ import annotations

import pytest
import torch
import triton
from support.programs import stretch_kernel
from support.routes import twin
from triton.runtime.autotuner import Autotuner, Heuristics

import trident_hook

CONFIGS = [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})]


class Named(Autotuner):
    """Only knows more about itself."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.name = self.fn.fn.__name__

    def prune_configs(self, kwargs):
        return list(self.configs)


class Through(Named):
    def run(self, *args, **kwargs):
        """Hands on."""
        return super().run(*args, **kwargs)


class Twice(Autotuner):
    def run(self, *args, **kwargs):
        super().run(*args, **kwargs)
        return super().run(*args, **kwargs)


class Late(Autotuner):
    def run(self, *args, scale=1, **kwargs):
        return super().run(*args, **kwargs)


class Indexed(Autotuner):
    def __getitem__(self, grid):
        return super().__getitem__((1,))


class Below(Twice):
    """Its base launches in a way of its own."""


class Plain(Heuristics):
    pass


def tuned(kind):
    return kind(stretch_kernel, stretch_kernel.arg_names, CONFIGS, ["n"], None, None)


def function_of(kernel, **more):
    def launch(x, y):
        kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, 2.0, x.numel(), **more)
        return y

    return launch


def calls(launch) -> tuple:
    fn, plain = trident_hook.jit(twin(launch)), twin(launch)
    x = torch.arange(300.0)
    plain(x, torch.zeros(300))  # the tuner chooses: a config that is tried may write more than the one that it takes
    for _ in range(4):
        assert torch.equal(fn(x, torch.zeros(300)), plain(x, torch.zeros(300)))
    return trident_hook.counts(fn)["hits"], str(trident_hook.explain(fn).refused)


@pytest.mark.parametrize("kind", [Named, Through])
def test_what_launches_as_its_base_is_served(kind):
    hits, refused = calls(function_of(tuned(kind)))
    assert hits == 3, refused


def test_heuristics_of_a_derived_class():
    hits, refused = calls(function_of(Plain(stretch_kernel, stretch_kernel.arg_names, {"BLOCK": lambda args: 64})))
    assert hits == 3, refused


@pytest.mark.parametrize(("kind", "name"), [(Twice, "run"), (Late, "run"), (Below, "run"), (Indexed, "__getitem__")])
def test_what_launches_in_its_own_way_is_refused(kind, name):
    hits, refused = calls(function_of(tuned(kind)))
    assert (hits, f"has a {name}() of its own" in refused) == (0, True), refused


def test_a_method_of_the_object_itself_is_refused():
    tuner = tuned(Named)
    tuner.run = lambda *args, **kwargs: Autotuner.run(tuner, *args, **kwargs)
    hits, refused = calls(function_of(tuner))
    assert (hits, "has a method of its own" in refused) == (0, True), refused
