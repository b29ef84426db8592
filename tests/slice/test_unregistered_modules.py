"""Functions of modules that are not in `sys.modules`: generated code that was executed, or loaded from a file."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from support import programs

import trident_hook

CODE = """
import torch
from support.programs import shift_kernel
FACTOR = 2.0

def inner(x):
    y = torch.empty_like(x)
    shift_kernel[(1,)](x, y, 3, x.numel(), BLOCK=64)
    return y * FACTOR
"""


def executed(_folder):
    space = {}
    exec(compile(CODE, "<generated>", "exec"), space)
    return space


def executed_under_a_name(_folder):
    space = {"__name__": "a_module_that_nobody_registered"}
    exec(compile(CODE, "<generated>", "exec"), space)
    return space


def executed_under_the_name_of_another(_folder):
    space = {"__name__": "json"}
    exec(compile(CODE, "<generated>", "exec"), space)
    return space


def loaded(folder):
    path = folder / "generated.py"
    path.write_text(CODE)
    spec = importlib.util.spec_from_file_location("_generated_and_not_registered", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


@pytest.mark.parametrize("make", [executed, executed_under_a_name, executed_under_the_name_of_another, loaded])
def test_one_is_inlined_and_its_globals_are_guarded(served, tmp_path, make):
    space = make(tmp_path)
    inner = space["inner"]

    def outer(x):
        y = inner(x)
        programs.shift_kernel[(1,)](y, y, 1, y.numel(), BLOCK=64)
        return y

    fn = served(outer)
    x = torch.arange(4.0)
    for _ in range(3):
        assert torch.equal(fn(x), (x + 3) * 2 + 1)
    assert trident_hook.counts(fn)["hits"] == 2, trident_hook.explain(fn)
    space["FACTOR"] = 3.0
    assert torch.equal(fn(x), (x + 3) * 3 + 1)
    space["inner"] = None  # not what `outer` calls: it holds the function
    assert torch.equal(fn(x), (x + 3) * 3 + 1)
