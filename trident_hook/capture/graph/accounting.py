"""Accounts for every node of Dynamo's graph, before anything of it is executed: a node is of a kind that is known to be found
again in the program, or the capture is refused. This is the one place that says so.

Tracing runs the graph's functions. One that computes with tensors goes through PyTorch's dispatcher, where it is recorded. One
that does something else (sets a default, enters a mode, asks a transform of torch.func) would happen once, while tracing,
and then be missing from the specialization. So the known kinds are listed, and not what is known to go wrong."""

from __future__ import annotations

import functools
import math
import operator
import types
from typing import Any

import torch

from ...dynamo.fake_numbers import count_so_far, nodes_so_far
from ...dynamo.hook_marks import begin, end
from ...dynamo.kept_nodes import checked_item
from ...errors import Unsupported

#: `x.data`: recorded as what takes its place, see `run_data`.
READS_DATA = torch._C._autograd._get_data_attr  # type: ignore[attr-defined] # not in PyTorch's stubs
#: Modes: the normalised graph has a node with the same function, which the program carries out.
MODES = (
    torch._C._set_grad_enabled,
    torch.amp.autocast_mode._enter_autocast,
    torch.amp.autocast_mode._exit_autocast,
)
#: Nodes that do nothing to a tensor and leave nothing behind: what they say became a guard, a symbol or a mark.
_SAYS_ONLY = (
    torch._C._log_api_usage_once,
    begin,
    end,
    torch._check,
    torch._check_is_size,
    torch._constrain_as_size,
    torch.sym_int,
    torch.sym_float,
    torch.sym_max,
    torch.sym_min,
    torch.sym_not,
    torch.sym_sum,
    torch.sym_ite,
)
#: Written in Python, and no more than the calls of operators that they are made of.
_OF_OPERATORS = (torch._assert_async, torch._refs.tensor, torch.as_tensor, torch.asarray, torch.tensor, checked_item)
#: Methods of tensors that change what Python holds of them (hooks, gradients, flags) and not what they compute.
_NOT_COMPUTING = frozenset(
    [
        "backward",
        "register_hook",
        "register_post_accumulate_grad_hook",
        "retain_grad",
        "requires_grad_",
        "share_memory_",
        "rename_",
        "rename",
        "swap_",
        "set_",
        "resize_",
        "resize_as_",
        "_backward_hooks",
        "pin_memory",
        "record_stream",
        "__setstate__",
        "__deepcopy__",
        "untyped_storage",
        "storage",
        "data_ptr",
        "numpy",
        "tolist",
        "__dlpack__",
        "refine_names",
        "align_to",
        "align_as",
        "names",
    ]
)


def refuse_unaccounted(graph_module) -> None:
    """Raises Unsupported for a graph with a node of no known kind. Of what higher-order operators hold as well."""
    for module in graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            if node.op == "call_function" and not _is_known(node.target):
                raise Unsupported("unaccounted", f"{_name(node.target)} does something besides computing with tensors")
            if node.op == "call_method" and not _is_computing_method(node):
                raise Unsupported("unaccounted", f"method {node.target} does something besides computing with tensors")


def account_for(node, result, made_before: int) -> None:
    """Of a node that tracing has just run. What changes a tensor or a mode, or only acts, must have been recorded.

    made_before: how many nodes the traced graph had."""
    if node.op not in ("call_function", "call_method") or count_so_far() > made_before:
        return
    acts = node.target in MODES or (isinstance(result, torch.Tensor) and _changes(node))
    if acts or (result is None and node.target not in _SAYS_ONLY and not _asserts(node.target)):
        raise Unsupported("unaccounted", f"{_name(node.target)} is not found again in the traced program")


def run_data(tensor):
    """What `x.data` is while tracing: the same tensor as `detach()` gives. Behind the trace the node becomes `aten::data`,
    which differs in that the result counts its own versions."""
    value = tensor.detach()
    made = nodes_so_far()[-1]
    if made.target is not torch.ops.aten.detach.default:
        raise Unsupported("unaccounted", "reading .data was not recorded")
    made.meta["trident_hook_data"] = True
    return value


def name_data(traced) -> None:
    """Puts `aten::data` where `.data` was read."""
    for node in traced.graph.nodes:
        if node.meta.get("trident_hook_data"):
            node.target = torch.ops.aten.data.default


def _changes(node) -> bool:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name in ("setitem", "__setitem__") or (name.startswith("__i") and hasattr(operator, name))


def _asserts(target) -> bool:
    return "assert" in _name(target) or "constrain_range" in _name(target)


def _is_known(target) -> bool:
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator)):
        return True
    if target is READS_DATA or any(target is each for each in (*MODES, *_SAYS_ONLY, *_OF_OPERATORS)):
        return True
    module = getattr(target, "__module__", None)
    if isinstance(target, types.BuiltinFunctionType) and module in ("_operator", "math", "builtins"):
        return True
    if target in (math.ceil, math.floor, math.trunc, min, max, int, float, bool, divmod, pow, abs, round, sum):
        return True
    if _is_generated(target) or module == "torch.masked._ops":  # those are written in Python over operators
        return True
    return target in _overridable()


def _is_generated(target) -> bool:
    """Whether it is one of the functions that PyTorch generates from its operators' schemas."""
    if not isinstance(target, types.BuiltinMethodType):
        return False
    c: Any = torch._C  # PyTorch's stubs leave most of these modules out
    homes = (c._VariableFunctions, c._nn, c._linalg, c._fft, c._special, c._sparse, c._nested)
    return any(getattr(home, target.__name__, None) == target for home in homes)


@functools.cache
def _overridable() -> frozenset:
    """Functions that tensors can override: what PyTorch takes for computing with them."""
    found = set()
    for owner, functions in torch.overrides.get_overridable_functions().items():
        if owner is torch.Tensor:
            functions = [f for f in functions if getattr(f, "__name__", "") not in _NOT_COMPUTING]
        found.update(functions)
    return frozenset(found)


def _is_computing_method(node) -> bool:
    if node.target in _NOT_COMPUTING:
        return False
    if node.target == "item":  # recorded, whatever Dynamo has noted of what it reads
        return True
    given = node.args[0].meta.get("example_value") if node.args and isinstance(node.args[0], torch.fx.Node) else None
    if isinstance(given, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
        return hasattr(type(given), node.target)
    return isinstance(given, (torch.Size, tuple, list)) and hasattr(type(given), node.target)


def _name(target) -> str:
    return target if isinstance(target, str) else str(getattr(target, "__name__", target))
