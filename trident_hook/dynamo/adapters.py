"""Dynamo is told of the libraries that have an adapter, while one of our captures runs on this thread."""

from __future__ import annotations

import contextlib

from .. import integrations
from .._logs import log
from . import launch_result, remembered_calls, set_contexts
from .refusal import forget_refusal


@contextlib.contextmanager
def in_force():
    """Dynamo knows the adapters while the block runs, on this thread alone."""
    forget_refusal()
    remembered_calls.forget()
    set_contexts.forget()
    launch_result.begin()
    try:
        from .adapter_tables import described
    except (ImportError, AttributeError) as error:  # a PyTorch that has them elsewhere: launchers break the graph
        log("capture", "Dynamo cannot be told of launchers: %s", error)
        yield
        return
    with described(integrations.adapters()):
        yield
