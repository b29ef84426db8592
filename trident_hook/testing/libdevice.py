"""Functions of CUDA's libdevice for the interpreter, which has none. Results agree with a GPU's up to rounding."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

#: The one for CUDA, and the one that stands for whichever the target has.
_MODULES = ("triton.language.extra.cuda.libdevice", "triton.language.extra.libdevice")

_erf = np.vectorize(math.erf, otypes=[np.float64])

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cos": np.cos, "div_rn": np.divide, "erf": _erf, "exp": np.exp, "exp2": np.exp2, "fast_expf": np.exp, "log": np.log,
    "log1p": np.log1p, "pow": np.power, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "sqrt": np.sqrt,
    "tanh": np.tanh, "trunc": np.trunc,
}  # fmt: skip


def stand_in(value: Any) -> Any:
    """What a kernel is given where its globals hold `value`: the same, but for functions of libdevice."""
    if getattr(value, "__module__", None) not in _MODULES:
        return value
    function = _FUNCTIONS.get(getattr(value, "__name__", ""))
    return value if function is None else _elementwise(function)


def attributes() -> list[tuple[Any, str, Any]]:
    """(module, name, stand-in), for kernels that reach a function through its module."""
    modules = [importlib.import_module(name) for name in _MODULES]
    return [(m, name, _elementwise(f)) for m in modules for name, f in _FUNCTIONS.items() if hasattr(m, name)]


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """The result's type is that of the first argument, a float32 or float64 as libdevice demands."""

    def call(*args: Any, **_: Any) -> Any:
        import triton.language as tl
        from triton.runtime import interpreter

        values = [arg.handle.data if isinstance(arg, tl.tensor) else getattr(arg, "value", arg) for arg in args]
        first = args[0]
        result = np.asarray(function(*values)).astype(first.handle.data.dtype)
        return tl.tensor(interpreter.TensorHandle(result, first.dtype.scalar), first.type)

    return call
