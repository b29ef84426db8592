"""Launches of plain Triton kernels in a trace, as Triton takes them. What stands behind each is dynamo/patches/triton_launch.py."""

from __future__ import annotations

import triton
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from .. import launch_result, remembered_numbers
from ..refusal import forbid, note_refusal
from .descriptor import DescriptorVariable
from .launcher import LaunchResultVariable
from .tuned_kernel import TunedKernel

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
    _check_arguments(kernel, args, kwargs)
    if "num_ctas" in kwargs and type(kernel) is JITFunction and "num_ctas" not in kernel.arg_names:
        kwargs = dict(kwargs)
        options = {name: kwargs.pop(name) for name in _CONFIG_OPTIONS if name in kwargs}
        if not all(option.is_python_constant() for option in options.values()):
            self.raise_unsupported("options that are no constants")
        config = triton.Config({}, **{name: option.as_python_constant() for name, option in options.items()})
        variable = type(variable)(triton.autotune([config], key=[])(kernel), None, variable.grid)
    return original(self, variable, args, kwargs, tx)


#: Arguments of a launch that Dynamo makes into options of a tuner's config, whatever the kernel calls so.
_OPTIONS = frozenset((*_CONFIG_OPTIONS, "num_consumer_groups", "num_buffers_warp_spec", "num_cpu_threads"))


def _check_arguments(kernel, args, kwargs) -> None:
    """Refuses what Triton would raise an error for, and what it binds otherwise than Dynamo does."""
    tuner = kernel.tuner if isinstance(kernel, TunedKernel) else kernel
    if type(tuner) not in (JITFunction, Autotuner):
        return
    names = list(kernel.arg_names)
    twice = kwargs.keys() & set(names[: len(args)])
    if twice or len(args) > len(names):
        forbid("launch", f"arguments that Triton does not take: {', '.join(twice) or len(args)}")
    left_to_defaults = _OPTIONS & set(names[len(args) :]) - kwargs.keys()  # Dynamo takes a config's defaults for them
    if type(kernel) is JITFunction and kwargs.keys() & _OPTIONS and left_to_defaults:
        forbid("launch", f"an option of a launch where the kernel calls a parameter {', '.join(left_to_defaults)}")
    if type(tuner) is Autotuner:
        chosen = kwargs.keys() & set().union(*(config.all_kwargs() for config in tuner.configs))
        if chosen:
            forbid("launch", f"arguments that the tuner chooses: {', '.join(chosen)}")


def check_grid(original, self, grid):
    """A list is as good as a tuple, and Triton reads three entries."""
    dims = original(self, grid)
    return tuple(dims)[:3] if isinstance(dims, (list, tuple)) else dims


def raise_unsupported(original, self, msg):
    note_refusal(msg)
    original(self, msg)
