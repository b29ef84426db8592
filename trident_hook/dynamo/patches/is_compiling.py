"""While one of our captures runs on a thread, `torch.compiler.is_compiling()` and its relatives are traced as what they
are for the plain function: False. Other compiles are left alone."""

from __future__ import annotations

import importlib

from . import trials
from .registry import is_capturing, patch

_NAMES = (
    ("torch.compiler", "is_compiling"),
    ("torch.compiler", "is_dynamo_compiling"),
    ("torch.compiler", "is_exporting"),
    ("torch._utils", "is_compiling"),
    ("torch._dynamo.external_utils", "is_compiling"),
    ("torch._dynamo.eval_frame", "_is_in_optimized_module"),
)


@patch("is_compiling() and its relatives", gone_when="Dynamo can leave them alone", trials=trials.tracing_state)
def tracing_state(changes) -> None:
    """Dynamo would fold them to True, and the specialization would answer what the function does not."""
    from ..names import variables_of_torch as variables

    def make(original):
        plain = dict(original())
        for module, name in _NAMES:
            function = getattr(importlib.import_module(module), name, None)
            if function in plain:
                plain[function] = False

        def tracing_state_functions():
            return plain if is_capturing() else original()

        return tracing_state_functions

    make(variables.tracing_state_functions)  # what has moved is noticed now
    changes.replace(variables, "tracing_state_functions", make)
