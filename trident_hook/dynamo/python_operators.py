"""Operators whose kernels are written in Python (`torch.library`): they run code of the program in the middle of what is captured.

Dynamo reads what the function reads before any of them runs, and writes what it writes after all of them. So one that changes
something outside, or that runs among such writes, is refused."""

from __future__ import annotations

import dis
import types

import torch

#: Names by which a container or an attribute is changed.
_CHANGES = frozenset(("append", "appendleft", "extend", "extendleft", "insert", "pop", "popitem", "popleft", "update", "setdefault",
                      "remove", "discard", "clear", "setattr", "delattr", "__setitem__", "__setattr__", "__dict__", "globals", "vars",
                      "exec", "eval", "next", "move_to_end"))  # fmt: skip
_WRITES = frozenset(("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "STORE_DEREF", "DELETE_DEREF"))  # fmt: skip


def is_written_in_python(op) -> bool:
    """Whether somebody has registered a kernel in Python for this operator. Meta kernels compute no result."""
    name = op.name().replace("::", "/")
    return any(key.startswith(f"{name}/") and not key.endswith("/Meta") for key in torch.library._impls)


def problem_of(graph, has_effects: bool) -> str:
    """Why the operators of a graph may not be called where Dynamo calls them; empty where they may."""
    for node in graph.nodes:
        op = node.target
        if node.op != "call_function" or not isinstance(op, torch._ops.OpOverload) or op.namespace == "aten":
            continue
        if not is_written_in_python(op):
            continue
        if has_effects:
            return f"{op} is written in Python, and runs between what the function changes"
        if _may_change_something(op):
            return f"{op} is written in Python, and may change what the function reads"
    return ""


def _may_change_something(op) -> bool:
    """By the names and instructions of its kernels; of those that are not at hand nothing is known."""
    definition = torch._library.custom_ops.OPDEFS.get(op.name().partition(".")[0])
    if definition is None:
        return True
    functions = [definition._init_fn, *definition._backend_fns.values()]
    seen: set = set()
    return any(_writes(function, seen) for function in functions)


def _writes(function, seen: set) -> bool:
    """Of a function and of those functions of its own module that it names."""
    function = getattr(function, "__wrapped__", function)
    if not isinstance(function, types.FunctionType):
        return False
    if function.__code__ in seen:
        return False
    seen.add(function.__code__)
    codes = list(_codes(function.__code__))
    if any(_code_writes(code) for code in codes):
        return True
    space = function.__globals__
    if any(_fills(code, space) for code in codes):
        return True
    named = [space[name] for code in codes for name in code.co_names if isinstance(space.get(name), types.FunctionType)]
    return any(other.__module__ == function.__module__ and _writes(other, seen) for other in named)


def _codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _fills(code, space: dict) -> bool:
    """Whether it sets items, and something that lives longer than the call is at hand to set them in."""
    if not any(step.opname in ("STORE_SUBSCR", "DELETE_SUBSCR") for step in dis.get_instructions(code)):
        return False
    plain = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type, int, float, str, torch.dtype)
    kept = [name for name in code.co_names if name in space and not isinstance(space[name], plain)]
    return bool(kept or code.co_freevars)


def _code_writes(code) -> bool:
    if not _CHANGES.isdisjoint(code.co_names):
        return True
    own = set(code.co_cellvars)
    return any(
        step.opname in _WRITES and not ("DEREF" in step.opname and step.argval in own)
        for step in dis.get_instructions(code)
    )
