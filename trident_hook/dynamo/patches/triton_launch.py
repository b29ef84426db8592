"""Launches of plain Triton kernels as Triton takes them, where Dynamo takes less: what a launch returns, `num_ctas` at
the call, grids that are lists or have more than three entries. For the length of one of our captures."""

from __future__ import annotations

import contextlib

import triton
from torch._dynamo.variables.functions import DynamoTritonHOPifier
from triton.runtime.jit import JITFunction

from .. import launch_result, remembered_numbers
from ..refusal import note_refusal
from ..variables.descriptor import DescriptorVariable
from ..variables.launcher import LaunchResultVariable

_CONFIG_OPTIONS = ("num_warps", "num_stages", "num_ctas")


@contextlib.contextmanager
def as_triton_takes_them():
    launch_result.begin()
    ours = {name: function for name, function in _OURS.items() if hasattr(DynamoTritonHOPifier, name)}
    before = {name: vars(DynamoTritonHOPifier).get(name) for name in ours}  # None: inherited
    _dynamos.update({name: getattr(DynamoTritonHOPifier, name) for name in ours})
    for name, function in ours.items():
        setattr(DynamoTritonHOPifier, name, function)
    try:
        yield
    finally:
        for name, function in before.items():
            delattr(DynamoTritonHOPifier, name) if function is None else setattr(DynamoTritonHOPifier, name, function)


_dynamos: dict = {}


def call_HOP(self, variable, grids, combined_args, *more):
    """Dynamo takes what a launch returns for None, and descriptors for what they were at first. The last argument is `tx`;
    PyTorch 2.14 has two others before it."""
    tx = more[-1]
    may_be_set = any(getattr(variable.kernel, "pre_hooks", ()))
    for value in combined_args.values():
        if isinstance(value, DescriptorVariable):
            value.settle(tx, may_be_set)
    _dynamos["call_HOP"](self, variable, grids, combined_args, *more)
    graph = tx.output.graph
    remembered_numbers.forget(
        [*(t.fake for t in tx.output.tracked_fakes), *(n.meta.get("example_value") for n in graph.nodes)]
    )
    launch = next(iter(reversed(graph.nodes)))
    index = launch.kwargs.get("constant_args_idx")
    return LaunchResultVariable(None if index is None else launch_result.expect(index))


def call_triton_kernel(self, variable, args, kwargs, tx):
    """`num_ctas` given at the call is an option of it, as `num_warps` is: both become a tuner with one config."""
    kernel = variable.kernel
    if "num_ctas" in kwargs and type(kernel) is JITFunction and "num_ctas" not in kernel.arg_names:
        kwargs = dict(kwargs)
        options = {name: kwargs.pop(name) for name in _CONFIG_OPTIONS if name in kwargs}
        if not all(option.is_python_constant() for option in options.values()):
            self.raise_unsupported("options that are no constants")
        config = triton.Config({}, **{name: option.as_python_constant() for name, option in options.items()})
        variable = type(variable)(triton.autotune([config], key=[])(kernel), None, variable.grid)
    return _dynamos["call_triton_kernel"](self, variable, args, kwargs, tx)


def check_grid(self, grid):
    """A list is as good as a tuple, and Triton reads three entries."""
    dims = _dynamos["check_grid"](self, grid)
    return tuple(dims)[:3] if isinstance(dims, (list, tuple)) else dims


def raise_unsupported(self, msg):
    note_refusal(msg)
    _dynamos["raise_unsupported"](self, msg)


_OURS = {function.__name__: function for function in (call_HOP, call_triton_kernel, check_grid, raise_unsupported)}
