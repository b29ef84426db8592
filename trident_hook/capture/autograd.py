"""`torch.autograd.Function` as eager has it, while one of our captures runs on a thread. Three things that Dynamo does
otherwise:

- `ctx.mark_non_differentiable` in a forward that is compiled by itself is forgotten. It is traced as the method that it
  is, which sets an attribute, and that is then set in every call.
- Where nothing requires grad, Dynamo puts the text of forward in the place of `apply`. Eager runs it without grad mode,
  and an argument that comes back is a view of itself.
- Where something does, it makes one operator of forward and backward. See `refuse_applied`."""

from __future__ import annotations

import functools

from .. import _rt
from .._logs import log
from ..dynamo.patches import is_compiling
from ..errors import Unsupported
from ..ir.guard import Guard
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
                _ = value.saved_tensors
            except RuntimeError:  # a saved tensor was modified in place
                return False
    return True


def guarded(guards: list[Guard], record) -> list[Guard]:
    """With a guard on every context whose saved tensors the others read. `record` then asks Dynamo nothing while its module
    is being built: Dynamo's own guards would read them."""
    contexts = {}
    for guard in guards:
        for source in guard.sources:
            names = [argument if step == "attr" else None for step, argument in source.steps]
            if "saved_tensors" in names:
                context = Source(source.root, source.steps[: names.index("saved_tensors")], source.text)
                contexts.setdefault(context.key, context)
    record.learning.reads_contexts |= bool(contexts)
    plain = ObjectKey(_rt.context_is_plain)
    return [*(Guard("plain_context", c, plain, "plain context") for c in contexts.values()), *guards]


@functools.cache
def teach() -> bool:
    """Once per process; whether all of it worked."""
    try:
        import torch
        from torch._dynamo.variables.ctx_manager import GradModeVariable
        from torch._dynamo.variables.misc import AutogradFunctionContextVariable, AutogradFunctionVariable
        from torch._dynamo.variables.user_defined import UserDefinedObjectVariable

        context, function = AutogradFunctionContextVariable, AutogradFunctionVariable
        var_getattr, call_method, call_apply = context.var_getattr, context.call_method, function.call_apply
    except (ImportError, AttributeError) as error:
        log("capture", "Dynamo's autograd functions are not where they were: %s", error)
        return False

    def is_the_programs(ctx, name: str) -> bool:
        return name == "mark_non_differentiable" and ctx.source is not None and is_compiling.is_plain()

    def var_getattr_of_context(self, tx, name):
        if is_the_programs(self, name):
            return UserDefinedObjectVariable.var_getattr(self, tx, name)
        return var_getattr(self, tx, name)

    def call_method_of_context(self, tx, name, args, kwargs):
        if is_the_programs(self, name):
            return UserDefinedObjectVariable.call_method(self, tx, name, args, kwargs)
        return call_method(self, tx, name, args, kwargs)

    def call_apply_as_eager(self, tx, args, kwargs):
        if not is_compiling.is_plain() or (torch.is_grad_enabled() and _may_require_grad(args, kwargs)):
            return call_apply(self, tx, args, kwargs)
        mode = GradModeVariable.create(tx, False)
        mode.enter(tx)
        result = _with_views(tx, call_apply(self, tx, args, kwargs), [*args, *kwargs.values()])
        mode.exit(tx)
        return result

    context.var_getattr, context.call_method = var_getattr_of_context, call_method_of_context
    function.call_apply = call_apply_as_eager
    return True


def _may_require_grad(args, kwargs) -> bool:
    """At least where Dynamo thinks so (`AutogradFunctionVariable.call_apply`)."""
    from torch._dynamo.variables import NNModuleVariable
    from torch._dynamo.variables.base import VariableTracker

    found = []

    def visit(variable) -> None:
        if isinstance(variable, NNModuleVariable) or (variable.is_tensor() and variable.requires_grad is not False):
            found.append(variable)

    VariableTracker.visit(visit, (args, kwargs))
    return bool(found)


def _with_views(tx, result, given):
    """Results that are arguments, as views of themselves."""
    from torch._dynamo.variables import TupleVariable

    known = {variable.as_proxy().node for variable in given if variable.is_tensor()}

    def one(variable):
        if not variable.is_tensor() or variable.as_proxy().node not in known:
            return variable
        return variable.call_method(tx, "view_as", [variable], {})

    if type(result) is TupleVariable:
        return TupleVariable([one(item) for item in result.items])
    return one(result)
