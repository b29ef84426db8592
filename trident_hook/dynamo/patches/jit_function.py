"""Tells Dynamo what our own callables are: a `JitFunction` is traced as the function that it wraps, whoever is being
captured or compiled. Where Dynamo has no such table any more, a caller of a `JitFunction` breaks its graph there."""

from __future__ import annotations

from ..._logs import log


def teach(jit_type: type) -> bool:
    """Registers `jit_type` in Dynamo's table of types; whether that worked. Idempotent."""
    try:
        from ..names import AttrSource, GuardBuilder, VariableBuilder

        table = VariableBuilder._type_dispatch()
    except (ImportError, AttributeError) as error:
        log("capture", "Dynamo cannot be told of JitFunction: %s", error)
        return False

    def wrap(builder, value):
        builder.install_guards(GuardBuilder.TYPE_MATCH)
        return VariableBuilder(builder.tx, AttrSource(builder.source, "__wrapped__"))(value.__wrapped__)

    table[jit_type] = wrap
    return True
