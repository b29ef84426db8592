"""While one of our captures runs on a thread, `torch.compiler.is_compiling()` and its relatives are traced as what they
are for the plain function: False. Dynamo would fold them to True, and the specialization would answer what the function
does not. Other compiles are left alone."""

from __future__ import annotations

import contextlib
import threading

from ..._logs import log

_thread = threading.local()
_NAMES = (
    ("torch.compiler", "is_compiling"),
    ("torch.compiler", "is_dynamo_compiling"),
    ("torch.compiler", "is_exporting"),
    ("torch._utils", "is_compiling"),
    ("torch._dynamo.external_utils", "is_compiling"),
    ("torch._dynamo.eval_frame", "_is_in_optimized_module"),
)


@contextlib.contextmanager
def as_plain():
    before = is_plain()
    _thread.plain = True
    try:
        yield
    finally:
        _thread.plain = before


def is_plain() -> bool:
    """Whether one of our captures runs on this thread."""
    return getattr(_thread, "plain", False)


def teach() -> bool:
    """Puts our table in front of Dynamo's. Once per process; whether it worked."""
    import importlib

    try:
        import torch._dynamo.variables.torch as variables

        original = variables.tracing_state_functions
        plain = dict(original())
        for module, name in _NAMES:
            function = getattr(importlib.import_module(module), name, None)
            if function in plain:
                plain[function] = False
    except (ImportError, AttributeError, TypeError) as error:
        log("capture", "Dynamo's tracing state functions are not where they were: %s", error)
        return False

    def tracing_state_functions():
        return plain if is_plain() else original()

    variables.tracing_state_functions = tracing_state_functions
    return True
