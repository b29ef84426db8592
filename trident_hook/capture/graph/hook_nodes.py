"""What the hooks of a tuner's configs do, in the two graphs of a capture: which nodes it is, and what of it a specialization
has. Runs of a graph leave these nodes out, since the tuner's own `run()` calls the hook (dynamo/variables/tuner_hooks.py)."""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_leaves

from ...dynamo import remembered_numbers
from ...dynamo.fake_numbers import count_so_far, decided_by_data, nodes_so_far
from ...dynamo.hook_marks import begin, end
from ...errors import Unsupported
from . import accounting

#: In `meta` of a node that a hook has made: (number of the launch's TracedHooks, number of the config).
OF_HOOK = "trident_hook_pre_hook"

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_NUMBERS = (int, float, *_SYMBOLIC)
#: What asks for the shape of a tensor, in the normalised graph and in Dynamo's.
_OF_SHAPES = ("aten::sym_size", "aten::sym_stride", "aten::sym_numel", "aten::sym_storage_offset", "size", "stride", "numel",
              "storage_offset")  # fmt: skip
_READS_DATA = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)


class MarkingInterpreter(torch.fx.Interpreter):
    """Runs Dynamo's graph while another one is traced from it, in which what hooks do is marked. Every node is accounted for."""

    def run_node(self, node):
        if node.target is begin:
            self._before = set(nodes_so_far())
        elif node.target is end:
            for made in nodes_so_far():
                if made not in self._before:
                    made.meta[OF_HOOK] = node.args
        before = count_so_far()
        if node.target is accounting.READS_DATA:
            return accounting.run_data(self.fetch_args_kwargs_from_env(node)[0][0])
        result = super().run_node(node)
        accounting.account_for(node, result, before)
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            remembered_numbers.forget(self.env.values())
        return result


def mark_between_boundaries(graph) -> None:
    """In Dynamo's own graph. What the hooks of configs that are not chosen would have made of a tensor may not be part of the
    trace: whether autograd watches it."""
    where, grad_mode = None, torch.is_grad_enabled()
    for node in graph.nodes:
        if node.target is begin:
            where = node.args
        if where is not None:
            node.meta[OF_HOOK] = where
        if node.target is torch._C._set_grad_enabled:
            grad_mode = node.args[0]
        elif where is not None and grad_mode and any(map(_is_watched, node.all_input_nodes[1:])):
            raise Unsupported("launch", "the pre_hook of a tuner's config is recorded by autograd")
        if node.target is end:
            where = None
    _separate(graph, "example_value")


def check_marked(graph) -> None:
    """In the normalised graph. Nor may what kind of tensor it is, or what its data say."""
    _separate(graph, "val")
    for node in graph.nodes:
        if OF_HOOK not in node.meta:
            continue
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            raise Unsupported("launch", "the pre_hook of a tuner's config has a launch or a function of its own")
        if torch.Tag.inplace_view in getattr(node.target, "tags", ()) and not _is_of_a_constant(node):
            raise Unsupported("launch", "the pre_hook of a tuner's config changes what a tensor is, not what it holds")
        for value in tree_leaves(node.meta.get("val")):
            plain = isinstance(value, _SYMBOLIC) or (isinstance(value, torch.Tensor) and value.layout is torch.strided)
            if node.target in _READS_DATA or (plain and decided_by_data(value)):
                raise Unsupported("launch", "the pre_hook of a tuner's config depends on data")


def is_left_out(node, sites: dict) -> bool:
    """Whether the node is what the hook of another config does than the one that was chosen for its launch."""
    where = node.meta.get(OF_HOOK)
    return where is not None and where not in [chosen(site) for site in sites.values()]


def chosen(site) -> tuple[int, int] | None:
    """The mark of what the hook of the chosen config does. None where the launch has no traced hooks."""
    hooks = getattr(site.kernel, "hooks", None)
    if hooks is None:
        return None
    index = site.kernel.index_of(site.record.config) if site.record is not None else None
    if index is None:
        raise Unsupported("launch", "the autotuner's choice is not among its configs")
    return hooks.number, index


def _separate(graph, value_key: str) -> None:
    """Numbers are shared by all that uses them: those that follow from shapes and numbers are everyone's. Nothing else may
    be. A tensor that a hook has written to is, to all others, the tensor that it was."""
    for node in graph.nodes:
        where = node.meta.get(OF_HOOK)
        for other in node.all_input_nodes:
            node.replace_input_with(other, _as_known_to(where, other))
        used = [n.meta[OF_HOOK] for n in node.all_input_nodes if OF_HOOK in n.meta]
        if where is not None and not used and _follows_from_shapes(node, value_key):
            del node.meta[OF_HOOK]
        elif any(other != where for other in used):
            raise Unsupported("launch", f"{node.name} uses what the pre_hook of a tuner's config has made")


def _follows_from_shapes(node, value_key: str) -> bool:
    if not isinstance(node.meta.get(value_key), _NUMBERS):
        return False
    asks = node.target._schema.name if isinstance(node.target, torch._ops.OpOverload) else node.target
    return asks in _OF_SHAPES or all(isinstance(n.meta.get(value_key), _NUMBERS) for n in node.all_input_nodes)


def _as_known_to(where, node):
    """The node itself, or what a hook other than `where` has written to, and the graph has under another name since."""
    while node.meta.get(OF_HOOK) not in (None, where) and (written := _written(node)) is not None:
        node = written
    return node


def _written(node):
    """The argument that an operator returns, having written to it."""
    if not isinstance(node.target, torch._ops.OpOverload) or len(node.target._schema.returns) != 1:
        return None
    (returned,) = node.target._schema.returns
    if returned.alias_info is None or not returned.alias_info.is_write:
        return None
    for index, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.before_set == returned.alias_info.before_set:
            return node.kwargs.get(argument.name, node.args[index] if index < len(node.args) else None)
    return None


def _is_watched(node) -> bool:
    value = node.meta.get("example_value")
    return isinstance(value, torch.Tensor) and value.requires_grad


def _is_of_a_constant(node) -> bool:
    """Tracing detaches a tensor that it has made out of Python numbers."""
    aten = torch.ops.aten
    return node.target is aten.detach_.default and node.args[0].target is aten.lift_fresh_copy.default
