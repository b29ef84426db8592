"""`torch.autograd.Function` as eager has it, while one of our captures runs on a thread. Where something requires grad, Dynamo
makes one operator of forward and backward, which capture/autograd.py refuses."""

from __future__ import annotations

import torch

from .. import names
from . import trials
from .registry import is_capturing, patch


@patch("torch.autograd.Function", gone_when="Dynamo traces them as eager does", trials=trials.autograd_function)
def autograd_function(changes) -> None:
    """Dynamo does two things otherwise. `ctx.mark_non_differentiable` in a forward that is compiled by itself is forgotten: it
    is traced as the method that it is, which sets an attribute, and that is then set in every call. Where nothing requires
    grad, Dynamo puts the text of forward in the place of `apply`: eager runs it without grad mode, and an argument that
    comes back is a view of itself."""
    from ..names import (
        AutogradFunctionContextVariable,
        AutogradFunctionVariable,
        GradModeVariable,
        UserDefinedObjectVariable,
    )

    def is_the_programs(ctx, name: str) -> bool:
        return name == "mark_non_differentiable" and ctx.source is not None

    def var_getattr(self, tx, name):
        if not is_the_programs(self, name):
            return None
        return getattr(UserDefinedObjectVariable, names.method("reads an attribute"))(self, tx, name)

    def call_method(self, tx, name, args, kwargs):
        if is_the_programs(self, name):
            return UserDefinedObjectVariable.call_method(self, tx, name, args, kwargs)
        return None

    def make(call_apply):
        def call_apply_as_eager(self, tx, args, kwargs):
            if not is_capturing() or (torch.is_grad_enabled() and _may_require_grad(args, kwargs)):
                return call_apply(self, tx, args, kwargs)
            mode = GradModeVariable.create(tx, False)
            mode.enter(tx)
            result = _with_views(tx, call_apply(self, tx, args, kwargs), [*args, *kwargs.values()])
            mode.exit(tx)
            return result

        return call_apply_as_eager

    changes.in_front(AutogradFunctionContextVariable, "reads an attribute", var_getattr)
    changes.in_front(AutogradFunctionContextVariable, "calls a method", call_method)
    changes.replace(AutogradFunctionVariable, "is applied", make)


def _may_require_grad(args, kwargs) -> bool:
    """At least where Dynamo thinks so (`AutogradFunctionVariable.call_apply`)."""
    from ..names import NNModuleVariable, VariableTracker

    found = []

    def visit(variable) -> None:
        if isinstance(variable, NNModuleVariable) or (variable.is_tensor() and variable.requires_grad is not False):
            found.append(variable)

    VariableTracker.visit(visit, (args, kwargs))
    return bool(found)


def _with_views(tx, result, given):
    """Results that are arguments, as views of themselves."""
    from ..names import TupleVariable

    known = {variable.as_proxy().node for variable in given if variable.is_tensor()}

    def one(variable):
        if not variable.is_tensor() or variable.as_proxy().node not in known:
            return variable
        return variable.call_method(tx, "view_as", [variable], {})

    if type(result) is TupleVariable:
        return TupleVariable([one(item) for item in result.items])
    return one(result)
