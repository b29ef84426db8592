"""Which functions launch Triton kernels: those whose globals or closure reach a launcher by a name in their code."""

from __future__ import annotations

import fnmatch
import sys
import types
from typing import Any

from ..dynamo.entries import is_dynamos
from ..integrations import registry

#: Packages whose own functions are never served: they are the machinery.
_NOT_OURS = ("torch", "triton", "trident_hook")


def launcher_types() -> tuple[type, ...]:
    """Triton's launcher classes, if Triton was imported at all, and those that libraries' adapters describe."""
    if "triton.runtime.autotuner" not in sys.modules:
        return ()
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    return (JITFunction, Autotuner, Heuristics, *registry.launcher_types())


def launches_kernels(function: types.FunctionType) -> bool:
    """Looks at names only: globals, attributes of modules and of classes among them, and closure cells."""
    kinds = launcher_types()
    if not kinds:
        return False
    if registry.serves(function):
        return True
    code, scope = function.__code__, function.__globals__
    holders = []
    for name in code.co_names:
        value = scope.get(name)
        if isinstance(value, kinds):
            return True
        if isinstance(value, types.ModuleType):
            holders.append(value)
    for holder in holders:
        space = vars(holder)
        if any(isinstance(space.get(name), kinds) for name in code.co_names):
            return True
    for cell in function.__closure__ or ():
        try:
            if isinstance(cell.cell_contents, kinds):
                return True
        except ValueError:  # an empty cell
            continue
    return False


def is_machinery(function: types.FunctionType) -> bool:
    if is_dynamos(function.__code__):
        return True
    module = function.__module__ or function.__globals__.get("__name__") or ""
    if module.split(".")[0] in _NOT_OURS:
        return not module.startswith("trident_hook.testing")
    return module in registry.machinery()


class Selection:
    """include / exclude of `enable()`: functions, or patterns on 'module.qualname'."""

    def __init__(self, include: Any, exclude: Any) -> None:
        self.include, self.exclude = include, exclude

    def admits(self, code: Any, name: str) -> bool:
        if self.include is not None and not _matches(code, name, self.include):
            return False
        return not _matches(code, name, self.exclude or ())

    @property
    def is_explicit(self) -> bool:
        """Only named functions: nothing is to be looked for."""
        return self.include is not None and not any(isinstance(p, str) for p in self.include)

    @property
    def functions(self) -> list[Any]:
        """Functions that were named themselves: served without being looked for."""
        return [f for f in self.include or () if not isinstance(f, str)]


def full_name(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _matches(code: Any, name: str, patterns: Any) -> bool:
    for pattern in patterns:
        if isinstance(pattern, str):
            if fnmatch.fnmatchcase(name, pattern):
                return True
        elif getattr(pattern, "__code__", None) is code:
            return True
    return False
