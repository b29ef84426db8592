"""What Dynamo believes of every operator's result, held against what PyTorch gives: sizes, strides, dtype, device and storage offset. The
program reads them while it is traced (`y.stride(0)` as an argument of a kernel), so a difference refuses the capture, before
anything of the call has run.

The operators are run on the call's own tensors, without effect: what writes, draws random numbers, or is written in Python is
not run, and its result is taken to be as traced; so is that of pointwise operators, whose strides follow one rule."""

from __future__ import annotations

import functools

import torch

from ... import _rt
from ...dynamo.noted_warnings import noted
from ...dynamo.python_operators import is_written_in_python
from ...errors import Unsupported

#: Operators that write to what their schema does not name (running statistics) get copies.
_WRITES_SILENTLY = ("norm", "rnn", "lstm", "gru")


def check(traced, inputs: list) -> None:
    """Refuses a capture of which an operator's real result is not as it was traced."""
    # Of a symbol, what it is at this call: an operator that is given the symbol itself would fix it for good.
    values = [value if isinstance(value, torch.Tensor) else _like(value) for value in inputs]
    with torch.no_grad(), noted():
        _Rehearsal(traced, garbage_collect_values=True).run(*values)


class _Rehearsal(torch.fx.Interpreter):
    def run_node(self, node):
        if node.op == "output":
            return None
        traced = node.meta.get("val")
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            if not _may_run(node.target):
                return self._stand_in(node, traced)
            return self._run(node, traced)
        if node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator):
            return _like(traced)
        try:
            return super().run_node(node)
        except Exception:
            return _like(traced)

    def _run(self, node, traced):
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        if any(word in node.target.__name__ for word in _WRITES_SILENTLY):  # running statistics are vectors
            args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, _kept, (args, kwargs))
        try:
            real = _rt.call_warned(functools.partial(node.target, *args, **kwargs))
        except Exception:  # the program's own error, or one of stand-ins
            return _like(traced)
        for one, other in zip(_tensors(real), _tensors(traced), strict=True):
            difference = _difference(one, other)
            if difference:
                raise Unsupported("metadata", f"{node.target}: {difference}")
        return real

    def _stand_in(self, node, traced):
        """What is written to is handed on as it is."""
        if node.target._schema.is_mutable and isinstance(traced, torch.Tensor):
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            value = kwargs.get("out", args[0] if args else None)
            if isinstance(value, torch.Tensor) and tuple(value.shape) == _numbers(traced.shape):
                return value
        return _like(traced)


def _may_run(op) -> bool:
    if op.namespace != "aten" or op._schema.is_mutable or is_written_in_python(op):
        return False
    return torch.Tag.pointwise not in op.tags and torch.Tag.nondeterministic_seeded not in op.tags


def _kept(tensor):
    return tensor.clone() if tensor.dim() == 1 else tensor


def _tensors(value) -> list:
    values = value if isinstance(value, (tuple, list)) else [value]
    return [v for v in values if isinstance(v, torch.Tensor)]


def _number(value) -> int | None:
    """An int, or what a symbol was at this call; None where that is not known."""
    return value if isinstance(value, int) else value.node.hint


def _numbers(values) -> tuple:
    return tuple(map(_number, values))


def _like(traced):
    """A value as traced; without contents."""
    if isinstance(traced, (tuple, list)):
        return type(traced)(map(_like, traced))
    if isinstance(traced, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return traced.node.hint
    if not isinstance(traced, torch.Tensor):
        return traced
    sizes, strides = _numbers(traced.shape), _numbers(traced.stride())
    if None in sizes or None in strides:
        return None
    return torch.empty_strided(sizes, strides, dtype=traced.dtype, device=traced.device).zero_()


def _difference(real, traced) -> str:
    """The first thing that is not as traced; what depends on the data is not compared."""
    for name in ("dtype", "layout"):
        if getattr(real, name) != getattr(traced, name):
            return f"{name} {getattr(real, name)}, traced as {getattr(traced, name)}"
    if real.device.type != traced.device.type:
        return f"device {real.device}, traced as {traced.device}"
    if real.layout is not torch.strided:
        return ""
    if not _agree(tuple(real.shape), _numbers(traced.shape)):
        return f"sizes {tuple(real.shape)}, traced as {_numbers(traced.shape)}"
    if not real.numel():
        return ""
    steps = [
        (one, other)
        for one, other, size in zip(real.stride(), _numbers(traced.stride()), real.shape, strict=True)
        if size != 1  # no element is reached by the others
    ]
    if any(other not in (None, one) for one, other in steps):
        return f"strides {real.stride()}, traced as {_numbers(traced.stride())}"
    if not _agree((real.storage_offset(),), _numbers((traced.storage_offset(),))):
        return f"storage offset {real.storage_offset()}, traced as {_number(traced.storage_offset())}"
    return ""


def _agree(found: tuple, expected: tuple) -> bool:
    return len(found) == len(expected) and all(e in (None, f) for f, e in zip(found, expected, strict=True))
