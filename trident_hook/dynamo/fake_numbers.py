"""Numbers that have no value while PyTorch traces, and the graph that it traces them into."""

from __future__ import annotations

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.fx.experimental.symbolic_shapes import CallMethodKey, ConvertIntKey, free_unbacked_symbols


def trace(function, fakes: list) -> torch.fx.GraphModule:
    """The operators that `function` calls on fake tensors, as PyTorch's dispatcher sees them before autograd does."""
    traced = make_fx(function, tracing_mode="real", pre_dispatch=True, _allow_non_fake_inputs=True)
    return traced(*fakes)


def nodes_so_far() -> list:
    """Those of the graph that `trace` is making."""
    return list(get_proxy_mode().tracer.graph.nodes)  # type: ignore[union-attr] # asked while a trace runs


def count_so_far() -> int:
    """How many nodes the graph has that `trace` is making."""
    return len(get_proxy_mode().tracer.graph.nodes)  # type: ignore[union-attr] # the same


def decided_by_data(value) -> set:
    """Symbols in a number, or in the sizes of a tensor, that only the data decides."""
    return set(free_unbacked_symbols(value))


#: How PyTorch says where in an operator's result such a symbol is: a bool as an int; a method of a tensor.
AS_INT = ConvertIntKey()
SIZE, OFFSET = CallMethodKey("size"), CallMethodKey("storage_offset")
