"""Dynamo's graph at ATen level: mutation kept (no functionalization), autograd kept (traced before autograd)."""

from __future__ import annotations

import types
from typing import Any

from ...errors import Unsupported
from ..autograd import refuse_applied
from .accounting import name_data, refuse_unaccounted
from .data_dependent import refuse_stale_numbers
from .hook_nodes import MarkingInterpreter, check_marked, mark_between_boundaries


def normalize(graph_module, example_inputs: list):
    """An fx.GraphModule of ATen overloads, int arithmetic and Triton launches, equal in effect to `graph_module`.

    Must be called from inside Dynamo's backend: size facts that the tracing relies on become guards of the same
    compile. Returns (graph module, fake inputs)."""
    import torch

    from ...dynamo.fake_numbers import trace
    from ...dynamo.noted_warnings import noted

    refuse_applied(graph_module)
    refuse_unaccounted(graph_module)
    refuse_stale_numbers(graph_module)
    _refuse_returned_containers(graph_module)
    context = torch._guards.TracingContext.get()
    fake_mode: Any = context.fake_mode

    def fake(value):
        if not isinstance(value, torch.Tensor):
            return value
        symbolic = context.tensor_to_context.get(value)
        source = symbolic.tensor_source if symbolic is not None else None
        return fake_mode.from_tensor(value, static_shapes=False, symbolic_context=symbolic, source=source)

    fakes = [fake(value) for value in example_inputs]
    with fake_mode, noted() as warned:
        # Run by the nodes' own targets: the generated Python of a graph module looks `torch.sin` up again, and finds a
        # patched one that Dynamo has already taken apart.
        interpreter = MarkingInterpreter(graph_module)
        traced = trace(lambda *inputs: interpreter.run(*inputs), fakes)
    if warned:
        raise Unsupported("warns", warned[0])
    traced.meta["trident_hook_grad_mode"] = torch.is_grad_enabled()
    name_data(traced)
    _mark_captured(traced, graph_module)
    mark_between_boundaries(graph_module.graph)
    check_marked(traced.graph)
    return traced, fakes


def _refuse_returned_containers(graph_module) -> None:
    """Functions of PyTorch that are written in Python and stand in the graph whole, as `torch.lu`, return the container
    that `out=` gave them. Dynamo makes the result a new one, a plain tuple where the program gave a named one."""
    for node in graph_module.graph.nodes:
        if isinstance(node.target, types.FunctionType) and isinstance(node.kwargs.get("out"), (tuple, list)):
            raise Unsupported("out-container", f"{node.name} is given a tuple or list as `out`, and may return it")


def _mark_captured(traced, graph_module) -> None:
    """Tells constants that exist outside (parameters, buffers, attributes) from those that tracing made, which stand for
    a tensor that eager makes anew in every call."""
    owned = [_attribute(graph_module, n.target) for n in graph_module.graph.nodes if n.op == "get_attr"]
    for node in traced.graph.nodes:
        if node.op == "get_attr":
            value = _attribute(traced, node.target)
            node.meta["constant"] = value
            node.meta["captured"] = any(value is other for other in owned)


def _attribute(module, path: str):
    for name in path.split("."):
        module = getattr(module, name)
    return module
