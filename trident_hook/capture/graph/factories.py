"""Operators that make tensors out of numbers alone, as Python's functions of the same names call them: below autograd, where what fills
the new tensor is no change of it. Called by name in the dispatcher, `aten::zeros` would count one."""

from __future__ import annotations

import contextlib
import functools

import torch


def as_python_calls(target) -> contextlib.AbstractContextManager:
    """In force while `target` runs. ext/aten/op_site.cpp does the same for a hit."""
    if isinstance(target, torch._ops.OpOverload) and _is_factory(target):
        return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView))
    return contextlib.nullcontext()


@functools.cache
def _is_factory(op) -> bool:
    if op.namespace != "aten" or "_like" in op._schema.name:
        return False
    arguments = op._schema.arguments
    return any(a.name == "layout" for a in arguments) and not any("Tensor" in str(a.type) for a in arguments)
