"""Tells a capture of each float that Dynamo makes a symbol, and of all that it computes from one. What becomes of them is said
in capture/graph/float_inputs.py."""

from __future__ import annotations

import contextlib
import functools
import threading

import torch

from .registry import is_capturing, patch

_thread = threading.local()


@contextlib.contextmanager
def noting(note):
    """On this thread, `note(source=name)` is called when Dynamo makes a float a symbol, and `note(computed=text)` when it
    computes something from one."""
    before = getattr(_thread, "note", None)
    _thread.note = note
    try:
        yield
    finally:
        _thread.note = before


def _tell(**what) -> None:
    note = getattr(_thread, "note", None)
    if note is not None and is_capturing():
        note(**what)


@patch(
    "floats that change",
    is_lesson=False,
    gone_when="Dynamo says which floats are symbols, and computes nothing from them",
)
def float_symbols(changes) -> None:
    """Dynamo's arithmetic of such a float is symbolic, which reorders and folds, so a capture has to know of it. Where it
    cannot be told, captures have no such symbols."""
    from torch.fx.experimental import proxy_tensor

    from ..names import SymNodeVariable, VariableBuilder

    def wrapping(original):
        @functools.wraps(original)
        def wrap_symfloat(self, value):
            answer = original(self, value)
            if not answer.is_python_constant():
                _tell(source=self.name)
            return answer

        return wrap_symfloat

    def making(original):
        @functools.wraps(original)
        def __init__(self, proxy, sym_num, *args, **kwargs):
            original(self, proxy, sym_num, *args, **kwargs)
            if is_capturing() and _is_computed(proxy.node, sym_num):
                _tell(computed=f"by {getattr(proxy.node.target, '__name__', proxy.node.target)}")

        return __init__

    def dispatching(original):
        @functools.wraps(original)
        def handle_sym_dispatch(func, args, kwargs):  # what operators compute while the graph is normalised
            if is_capturing() and any(map(has_float, args)):
                _tell(computed=f"by {getattr(func, '__name__', func)} in an operator")
            return original(func, args, kwargs)

        return handle_sym_dispatch

    changes.replace(VariableBuilder, "wrap_symfloat", wrapping)
    changes.replace(SymNodeVariable, "__init__", making)
    changes.replace(proxy_tensor, "handle_sym_dispatch", dispatching)


def is_known() -> bool:
    """Whether captures can be told: else they have no such symbols."""
    return bool(float_symbols.changes())


def _is_computed(node, value) -> bool:
    """Of a node of Dynamo's graph: from a float that is a symbol, and not the reading of it."""
    if reads_number(node):
        return False
    return any(map(has_float, (value, *(n.meta.get("example_value") for n in node.all_input_nodes))))


def has_float(value) -> bool:
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return False
    expr = getattr(value.node, "expr", None)  # a nested int has none
    return any(symbol_is_type(symbol, SymT.FLOAT) for symbol in getattr(expr, "free_symbols", ()))


def is_number_input(node) -> bool:
    """Of a placeholder in Dynamo's own graph: a float, or a number of NumPy's, as a tensor that no code of the program ever
    sees."""
    argument = node.meta.get("grapharg")
    return node.op == "placeholder" and argument is not None and bool(getattr(argument, "pass_arg_as_tensor", False))


def reads_number(node) -> bool:
    """Of a node of Dynamo's own graph: it takes a number out of such a tensor. There is no data that could change."""
    return node.op == "call_method" and node.target == "item" and is_number_input(node.args[0])
