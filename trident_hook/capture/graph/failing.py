"""Operators that can fail while a program runs, and where that is lost on what Dynamo makes of a function.

What fails before the program's first effect is no matter on a hit: the program is left, and the plain function runs, with its
handlers and its own exception. Behind an effect there is no way back. Dynamo's code has no handlers, and does what it has put
off (attributes, items of containers) after all operators. So where there is either, an operator that can fail behind the first
effect is refused, and a call is not answered by Dynamo's code at all where one can fail anywhere."""

from __future__ import annotations

import dis
import itertools
import os

import torch
from torch.utils._pytree import tree_leaves

from ...dynamo.python_operators import is_written_in_python
from ...errors import Unsupported
from ...ir.recipe import Call, Evaluate, walk
from .data_dependent import has_effect

#: Operators (without a trailing underscore) that only fail for what is guarded: types, sizes, devices. Besides those that
#: PyTorch tags as pointwise, and views. All others are taken to fail by their data. Out of memory is left aside.
_SAFE_NAMES = """
    add addbmm addcdiv addcmul addmm addmv addr amax amin aminmax all any arange argmax argmin argsort as_strided
    baddbmm bmm cat clone concat contiguous conv1d conv2d conv3d convolution copy cummax cummin cumprod cumsum data
    detach diagonal dot empty empty_like empty_permuted empty_strided eye fill flip full full_like item layer_norm
    lift_fresh lift_fresh_copy linear linspace log_softmax logsumexp matmul max mean min mm mv native_group_norm
    native_layer_norm group_norm rms_norm new_empty new_empty_strided new_full new_ones new_zeros norm ones
    ones_like outer pad constant_pad_nd prod repeat reshape roll rsub scalar_tensor silu softmax _softmax
    _log_softmax sort split stack std std_mean sum sym_numel sym_size sym_storage_offset sym_stride t to _to_copy
    topk transpose tril triu unbind unsafe_split var var_mean vdot where zero zeros zeros_like set_grad_enabled
    _local_scalar_dense mse_loss dropout native_dropout rand rand_like randn randn_like _reshape_alias unfold chunk
    flatten squeeze unsqueeze scaled_dot_product_attention
"""
_SAFE = frozenset(_SAFE_NAMES.split())
#: Pointwise, and raises for a zero, a negative exponent or a number that is not in its range where the numbers are integers.
_OF_INTEGERS = ("div", "divide", "floor_divide", "remainder", "fmod", "pow", "true_divide", "gcd", "lcm")
_TORCH = os.path.dirname(torch.__file__)
#: PyTorch's own handlers around whole modules and methods, which are entered for hooks and operators of other classes only.
_NOT_OURS = (os.path.join(_TORCH, "nn", ""), os.path.join(_TORCH, "_tensor.py"))


def can_fail(node) -> bool:
    """Whether what the node does may raise an exception that no guard has ruled out."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    name = target._schema.name.partition("::")[2]
    plain = name.removesuffix("_")
    if target.namespace != "aten" or "assert" in name:
        return target is not torch.ops.aten._assert_scalar.default
    if plain in _OF_INTEGERS:
        return not all(t.dtype.is_floating_point or t.dtype.is_complex for t in _results(node))
    if plain in _SAFE or torch.Tag.pointwise in target.tags:
        return False
    returns = target._schema.returns
    is_view = bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
    return not is_view


def first_failing(graph, sites, behind_effects: bool) -> str:
    """The first node that can fail; of those behind the first effect, or that are an effect themselves."""
    changed = False
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        changed |= node in sites or changes(node)
        if can_fail(node) and (changed or not behind_effects):
            return node.name
    return ""


def changes(node) -> bool:
    """Whether the operation cannot be undone, or done twice. The grad mode is put back by who leaves the program."""
    if node.target is torch._C._set_grad_enabled:
        return False
    return has_effect(node) or (isinstance(node.target, torch._ops.OpOverload) and is_written_in_python(node.target))


def needs_order(recipe, codes: list) -> str:
    """What is lost where an operator fails in Dynamo's code: effects that it has put off, handlers. Empty for nothing."""
    if any(not isinstance(e, Evaluate) or _calls(e) for e in recipe.effects):
        return "what the function changes"
    return "a handler of exceptions" if any(map(_handles, codes)) else ""


def check_order(capture) -> bool:
    """Refuses a capture in which the failure of an operator could not be as in the plain function. True where Dynamo's code
    may not answer calls, and hits may."""
    lost = needs_order(capture.recipe, capture.traced_code)
    if not lost:
        return False
    graph, sites = capture.traced.graph, capture.sites
    if late := first_failing(graph, sites, behind_effects=True):
        raise Unsupported("order-of-errors", f"{late} may fail behind an effect, and {lost} must know of it")
    early = first_failing(graph, sites, behind_effects=False)
    if early and sites:
        raise Unsupported("order-of-errors", f"{early} may fail before a launch, and {lost} must know of it")
    return bool(early)


def _results(node) -> list:
    return [v for v in tree_leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]


def _calls(effect) -> bool:
    return any(isinstance(expr, Call) for expr in walk(effect))


def _handles(code) -> bool:
    """Whether a code object has an `except` or a `finally`, or is what leaves a `with` of the program. Contexts of PyTorch
    that Dynamo knows are not gone through: their handlers are the interpreter's own."""
    if code.co_filename.startswith(_NOT_OURS):
        return False
    if code.co_name == "__exit__":
        return True
    steps = list(dis.get_instructions(code))
    followed = itertools.pairwise(steps)
    return any(one.opname == "PUSH_EXC_INFO" and other.opname != "WITH_EXCEPT_START" for one, other in followed)
