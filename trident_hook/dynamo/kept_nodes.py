"""What Dynamo would take out of its graph, and stays: an index whose result nobody uses may be a check of its bounds."""

from __future__ import annotations

import operator


def checked_item(value, index):
    """`value[index]`, in the graph under a name that Dynamo does not take for something that can be left out."""
    return operator.getitem(value, index)
