"""Launches of plain Triton kernels as Triton takes them, for the length of one of our captures."""

from __future__ import annotations

import functools

from .registry import is_capturing, patch


@patch(
    "launches of plain kernels", is_lesson=False, gone_when="Dynamo's TritonHOPifier takes what Triton's launcher takes"
)
def triton_launch(changes) -> None:
    """Dynamo takes less: not what a launch returns, `num_ctas` at the call, grids that are lists or have more than three
    entries. And it does not say why it gives a launch up."""
    from ..names import DynamoTritonHOPifier
    from ..variables import plain_launch

    ours = (
        plain_launch.call_HOP,
        plain_launch.call_triton_kernel,
        plain_launch.check_grid,
        plain_launch.raise_unsupported,
    )
    for function in ours:
        if hasattr(DynamoTritonHOPifier, function.__name__):
            changes.replace(DynamoTritonHOPifier, function.__name__, functools.partial(_in_its_place, function))


def _in_its_place(function, original):
    @functools.wraps(original)
    def method(self, *args, **kwargs):
        return function(original, self, *args, **kwargs) if is_capturing() else original(self, *args, **kwargs)

    return method
