"""Nodes of Dynamo's graph that stay although nobody uses what they give: see dynamo/kept_nodes.py."""

from __future__ import annotations

import operator

import torch

from ..kept_nodes import checked_item
from . import trials_of_values as trials
from .registry import Changes, patch


@patch(
    "indices that are out of bounds",
    gone_when="Dynamo keeps what an index by a tensor would raise",
    trials=trials.dead_reads,
)
def dead_reads(changes: Changes) -> None:
    """`x[i]` by itself is a check of the bounds. Dynamo takes every read by index for one that cannot raise, and leaves it out
    of its graph where nobody uses the result."""
    from ..names import OutputGraph

    def remove_unused_graphargs(self) -> None:
        for node in self.graph.nodes:
            if node.target is operator.getitem and not node.users and _reads_by_tensor(node):
                node.target = checked_item

    changes.in_front(OutputGraph, "remove_unused_graphargs", remove_unused_graphargs)


def _reads_by_tensor(node) -> bool:
    value = node.args[0].meta.get("example_value") if isinstance(node.args[0], torch.fx.Node) else None
    indices = [n.meta.get("example_value") for n in node.all_input_nodes[1:]]
    return isinstance(value, torch.Tensor) and any(isinstance(i, torch.Tensor) for i in indices)
