"""Functions that somebody has marked for Dynamo (`assume_constant_result`, `allow_in_graph` and its relatives). The marks are promises to
torch.compile, and nobody who made them spoke of us: the plain function calls such a function each time, once. So a capture that comes
to one is given up before Dynamo has called it."""

from __future__ import annotations

from ..refusal import forbid
from . import trials
from .registry import patch


@patch(
    "functions whose result is taken for a constant",
    gone_when="Dynamo guards what such a function reads",
    trials=trials.constant_results,
)
def constant_results(changes) -> None:
    """`assume_constant_result`: called while tracing, and never again."""
    from ..names import UserFunctionVariable, UserMethodVariable

    def call_function(self, tx, args, kwargs):
        if self.is_constant and not _is_torchs(self.fn):
            forbid("folded", f"the result of {self.fn.__name__}(), which is marked as constant")

    changes.in_front(UserFunctionVariable, "is called", call_function)
    changes.in_front(UserMethodVariable, "is called", call_function)


@patch(
    "functions that are allowed in the graph",
    gone_when="Dynamo does not run them while tracing",
    trials=trials.allowed_in_graph,
)
def allowed_in_graph(changes) -> None:
    """Dynamo runs them with stand-ins of the tensors, for what they return: whatever else they do happens once more."""
    from ..names import AutogradFunctionVariable, TorchInGraphFunctionVariable, trace_rules

    def refuse_marked(value) -> None:
        if trace_rules.is_callable_allowed(value) and not _is_torchs(value):
            forbid("unaccounted", f"{getattr(value, '__name__', value)}() is allowed in the graph, and may do anything")

    def call_function(self, tx, args, kwargs):
        refuse_marked(self.value)

    def call_apply(self, tx, name, args, kwargs):
        if name == "apply":
            refuse_marked(self.fn_cls)

    changes.in_front(TorchInGraphFunctionVariable, "is called", call_function)
    changes.in_front(AutogradFunctionVariable, "calls a method", call_apply)


def _is_torchs(function) -> bool:
    return (getattr(function, "__module__", None) or "").split(".")[0] == "torch"


PATCHES = (constant_results, allowed_in_graph)
