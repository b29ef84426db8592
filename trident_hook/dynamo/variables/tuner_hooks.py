"""The `pre_hook` of a tuner's configs in a trace. Triton calls that of the chosen config before every launch.

Which config it chooses is not known while tracing, so every config's hook is traced (that of the config which the tuner
has for the key of the moment would be wrong for the next key, with which Dynamo's entry runs the same graph). What a hook
does to tensors stands in the graph between two boundaries. Runs of the graph leave that out: there the launch is the
tuner's own `run()`, which calls the hook itself, as often as ever. A specialization holds what the hook of its own config
does (see capture/pre_hooks.py). What is set on tensor descriptors is in the binary.

A hook may do nothing else: what a program could see of it in Python would have to be done again in every hit."""

from __future__ import annotations

import torch
from triton.runtime.autotuner import Autotuner

from ..hook_marks import TracedHooks, begin, end
from ..names import (
    AttrSource,
    ConstantVariable,
    ConstDictVariable,
    GlobalSource,
    GuardBuilder,
    ObservedException,
    Unsupported,
    ValueMutationNew,
    VariableBuilder,
    VariableTracker,
    enter_new_scope,
    install_guard,
)
from ..refusal import refuse
from .descriptor import DescriptorVariable


def are_called_as_triton_does(tuner) -> bool:
    return type(tuner).run is Autotuner.run


def traced(tx, tuner, args, kwargs: dict) -> TracedHooks:
    """`args`, `kwargs`: what the tuner's `run()` is given."""
    if not tx.output.is_root_tracer():
        refuse("a tuner's config has a pre_hook, inside a function of a higher order")
    found = TracedHooks()
    # What nobody should look at: a run of the graph has the grid in another form.
    of_the_launch = {"grid": VariableTracker(), "warmup": ConstantVariable.create(False)}
    given = {**dict(zip(tuner.arg_names, args, strict=False)), **of_the_launch, **kwargs}
    descriptors = {v for v in given.values() if isinstance(v, DescriptorVariable)}
    for index, config in enumerate(tuner.configs):
        # The config itself is the guard's root: its attributes are watched, which costs nothing on a call.
        source = AttrSource(GlobalSource(tx.output.install_global_by_id("__trident_hook_config", config)), "pre_hook")
        install_guard(source.make_guard(GuardBuilder.ID_MATCH))
        before = {v: v.stored(tx) for v in descriptors}
        if config.pre_hook is not None:
            _trace(tx, config, source, given, (found.number, index))
        found.blocks.append({v.number: v.block(tx) for v in descriptors})
        for descriptor, stored in before.items():
            descriptor.store(tx, stored)
    return found


def settle(tx, hooks: TracedHooks | None, given) -> None:
    """Behind the launch the descriptors are as the chosen config's hook has left them. `hooks` is None where all that is
    known of the hooks is that they set blocks."""
    for value in given:
        if isinstance(value, DescriptorVariable):
            blocks = {None} if hooks is None else {blocks[value.number] for blocks in hooks.blocks}
            value.leave(tx, blocks.pop() if len(blocks) == 1 else None)


def _trace(tx, config, source, given: dict, where: tuple[int, int]) -> None:
    graph, calls = tx.output.graph, len(tx.output.random_calls)
    first = tx.output.create_node("call_function", begin, where, {})
    mode = torch.is_grad_enabled()
    try:
        options = {name: VariableTracker.build(tx, value) for name, value in config.all_kwargs().items()}
        with enter_new_scope():  # nothing that is older may be changed
            items = {ConstantVariable.create(name): v for name, v in {**given, **options}.items()}
            arguments = ConstDictVariable(items, mutation_type=ValueMutationNew())
            VariableBuilder(tx, source)(config.pre_hook).call_function(tx, [arguments], {})
    except (Unsupported, ObservedException) as error:
        refuse(f"a tuner's config has a pre_hook that a graph cannot express: {_first_line(error)}")
    if torch.is_grad_enabled() != mode or len(tx.output.random_calls) != calls:
        refuse("a tuner's config has a pre_hook that a graph cannot express: it changes the grad mode or draws numbers")
    if next(iter(reversed(graph.nodes))) is first:
        tx.output.remove_node(first)
    else:
        tx.output.create_node("call_function", end, where, {})


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
