"""Launches of plain Triton kernels in a trace, as Triton takes them. What stands behind each is dynamo/patches/triton_launch.py."""

from __future__ import annotations

import triton
from triton.runtime.jit import JITFunction

from .. import launch_result, remembered_numbers
from ..refusal import note_refusal
from .descriptor import DescriptorVariable
from .launcher import LaunchResultVariable

_CONFIG_OPTIONS = ("num_warps", "num_stages", "num_ctas")


def call_HOP(original, self, variable, grids, combined_args, *more):
    """Dynamo takes what a launch returns for None, and descriptors for what they were at first. The last argument is `tx`;
    PyTorch 2.14 has two others before it."""
    tx = more[-1]
    may_be_set = any(getattr(variable.kernel, "pre_hooks", ()))
    for value in combined_args.values():
        if isinstance(value, DescriptorVariable):
            value.settle(tx, may_be_set)
    original(self, variable, grids, combined_args, *more)
    graph = tx.output.graph
    remembered_numbers.forget(
        [*(t.fake for t in tx.output.tracked_fakes), *(n.meta.get("example_value") for n in graph.nodes)]
    )
    launch = next(iter(reversed(graph.nodes)))
    index = launch.kwargs.get("constant_args_idx")
    return LaunchResultVariable(None if index is None else launch_result.expect(index))


def call_triton_kernel(original, self, variable, args, kwargs, tx):
    """`num_ctas` given at the call is an option of it, as `num_warps` is: both become a tuner with one config."""
    kernel = variable.kernel
    if "num_ctas" in kwargs and type(kernel) is JITFunction and "num_ctas" not in kernel.arg_names:
        kwargs = dict(kwargs)
        options = {name: kwargs.pop(name) for name in _CONFIG_OPTIONS if name in kwargs}
        if not all(option.is_python_constant() for option in options.values()):
            self.raise_unsupported("options that are no constants")
        config = triton.Config({}, **{name: option.as_python_constant() for name, option in options.items()})
        variable = type(variable)(triton.autotune([config], key=[])(kernel), None, variable.grid)
    return original(self, variable, args, kwargs, tx)


def check_grid(original, self, grid):
    """A list is as good as a tuple, and Triton reads three entries."""
    dims = original(self, grid)
    return tuple(dims)[:3] if isinstance(dims, (list, tuple)) else dims


def raise_unsupported(original, self, msg):
    note_refusal(msg)
    original(self, msg)
