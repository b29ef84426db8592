"""All patches, in the order in which they are put in place. Who adds one writes a function with `registry.patch` in a file of
this folder, and names it here."""

from __future__ import annotations

from . import (
    autograd_function,
    containers,
    context_variables,
    finalizers,
    float_symbols,
    folded_answers,
    guard_recording,
    identity,
    inlined_globals,
    is_compiling,
    kept_nodes,
    left_out_guards,
    marked_functions,
    registry,
    triton_launch,
    truth,
)

PATCHES = (
    is_compiling.tracing_state,
    *left_out_guards.PATCHES,
    *identity.PATCHES,
    *containers.PATCHES,
    *folded_answers.PATCHES,
    *marked_functions.PATCHES,
    *finalizers.PATCHES,
    *context_variables.PATCHES,
    *truth.PATCHES,
    autograd_function.autograd_function,
    float_symbols.float_symbols,
    inlined_globals.inlined_globals,
    kept_nodes.dead_reads,
    triton_launch.triton_launch,
    guard_recording.guard_tree,
)


def in_force():
    """Puts all of them in place while the block runs on this thread."""
    return registry.in_force(PATCHES)


def unknown_lessons() -> list[str]:
    """What Dynamo has to be taught before anything that it traces can be trusted, and cannot be taught in this PyTorch."""
    return [patch.about for patch in PATCHES if patch.is_lesson and (patch.changes(), patch.missing)[1]]
