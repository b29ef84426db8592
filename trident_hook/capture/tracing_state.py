"""While one of our captures runs on a thread, `torch.compiler.is_compiling()` and its relatives are traced as what they
are for the plain function: False. Dynamo would fold them to True, and the specialization would answer what the function
does not. Dynamo is also made to guard method descriptors that are passed around (`f = torch.Tensor.relu`), which it
takes to be what they were without looking, and an argument that is the same object as a global, which it knows that it
leaves unguarded (make_dupe_guard in torch/_dynamo/guards.py). Other compiles are left alone."""

from __future__ import annotations

import contextlib
import functools
import threading
import types

from ..logs import log

_thread = threading.local()
_NAMES = (
    ("torch.compiler", "is_compiling"),
    ("torch.compiler", "is_dynamo_compiling"),
    ("torch.compiler", "is_exporting"),
    ("torch._utils", "is_compiling"),
    ("torch._dynamo.external_utils", "is_compiling"),
    ("torch._dynamo.eval_frame", "_is_in_optimized_module"),
)


_DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType)


@contextlib.contextmanager
def as_plain():
    before = getattr(_thread, "plain", False)
    _thread.plain = True
    try:
        yield
    finally:
        _thread.plain = before


def is_plain() -> bool:
    """Whether one of our captures runs on this thread."""
    return getattr(_thread, "plain", False)


def teach() -> bool:
    """Once per process; whether all of it worked."""
    return all([_teach_tracing_state(), _teach_descriptors(), _teach_duplicates()])


def _teach_duplicates() -> bool:
    try:
        import torch._dynamo.variables.builder as builder
        from torch._dynamo.guards import GuardBuilder

        original, duplicate = builder.make_dupe_guard, GuardBuilder.DUPLICATE_INPUT
    except (ImportError, AttributeError) as error:
        log("capture", "Dynamo cannot be made to guard duplicates: %s", error)
        return False

    def make_dupe_guard(source, other):
        guard = original(source, other)
        if guard is None and other and other != source and getattr(_thread, "plain", False):
            guard = functools.partial(duplicate, source_b=other)
        return guard

    builder.make_dupe_guard = make_dupe_guard
    return True


def _teach_descriptors() -> bool:
    try:
        from torch._dynamo.guards import GuardBuilder, install_guard
        from torch._dynamo.variables.torch import BaseTorchVariable

        original = BaseTorchVariable.create_with_source.__func__
    except (ImportError, AttributeError) as error:
        log("capture", "Dynamo cannot be made to guard descriptors: %s", error)
        return False

    def create_with_source(cls, value, source):
        if getattr(_thread, "plain", False) and isinstance(value, _DESCRIPTORS):
            install_guard(source.make_guard(GuardBuilder.ID_MATCH))
        return original(cls, value, source)

    BaseTorchVariable.create_with_source = classmethod(create_with_source)
    return True


def _teach_tracing_state() -> bool:
    """Puts our table in front of Dynamo's."""
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
        return plain if getattr(_thread, "plain", False) else original()

    variables.tracing_state_functions = tracing_state_functions
    return True
