"""What of `torch.autograd.Function` a capture refuses, and what it guards. How its forward is traced is said in
dynamo/patches/autograd_function.py."""

from __future__ import annotations

from .. import _rt
from ..errors import Unsupported
from ..ir.guard import Guard
from ..ir.kinds import GuardKind, StepKind
from ..ir.objects import ObjectKey
from ..ir.source import Source


def refuse_applied(graph_module) -> None:
    """Raises Unsupported for a graph that applies a Function to what requires grad: tracing through it to ATen level would
    keep its forward and lose its backward. Both are functions of their own, which plain Python then calls, and which are
    served as such."""
    import torch

    applied = torch.ops.higher_order.autograd_function_apply
    for module in graph_module.modules():
        if isinstance(module, torch.fx.GraphModule) and any(n.target is applied for n in module.graph.nodes):
            raise Unsupported("autograd-function", "it applies a torch.autograd.Function to what requires grad")


def are_readable(values: dict) -> bool:
    """Whether `saved_tensors` of every context among a frame's values can be read, any number of times. Where Dynamo
    cannot, it traces on as if nothing had been saved."""
    import torch

    for value in values.values():
        if isinstance(value, torch.autograd.function.FunctionCtx):
            if not _rt.context_is_plain(value):
                return False
            try:
                _ = value.saved_tensors  # type: ignore[attr-defined] # C gives it
            except RuntimeError:  # a saved tensor was modified in place
                return False
    return True


def guarded(guards: list[Guard], record) -> list[Guard]:
    """With a guard on every context whose saved tensors the others read. `record` then asks Dynamo nothing while its module
    is being built: Dynamo's own guards would read them."""
    contexts: dict[tuple, Source] = {}
    for guard in guards:
        for source in guard.sources:
            names = [argument if step == StepKind.ATTR else None for step, argument in source.steps]
            if "saved_tensors" in names:
                context = Source(source.root, source.steps[: names.index("saved_tensors")], source.text)
                contexts.setdefault(context.key, context)
    record.learning.reads_contexts |= bool(contexts)
    plain = ObjectKey(_rt.context_is_plain)
    return [*(Guard(GuardKind.PLAIN_CONTEXT, c, plain, "plain context") for c in contexts.values()), *guards]
