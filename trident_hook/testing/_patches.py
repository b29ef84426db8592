"""Reversible changes to PyTorch and Triton that let kernels be compiled, traced and launched without a GPU."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from . import interpret

_ABSENT = object()


class Patches:
    """Attribute changes that can be taken back, last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        original = vars(owner).get(name, _ABSENT)

        def undo() -> None:
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

        setattr(owner, name, value)
        self._undo.append(undo)

    def on_undo(self, action: Callable[[], None]) -> None:
        self._undo.append(action)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


def accept_kernels_on_cpu(patches: Patches, is_active: Callable[[], bool], arch: int) -> None:
    """Makes `has_triton()` and, from Hopper on, the tests for TMA descriptors true wherever PyTorch asks.

    Modules import these functions by name, so each that did is changed too, and changed back, also those that were
    imported in between. Whoever else kept the replacement gets the original's answers once the simulation is off."""
    from torch.utils import _triton

    answers = {"has_triton": True, "_device_supports_tma": arch >= 90}
    for name, answer in answers.items():
        original = getattr(_triton, name, None)
        if original is None:
            continue

        @functools.wraps(original)
        def replacement(original: Any = original, answer: bool = answer) -> bool:
            return answer if is_active() else original()

        replacement.cache_clear = original.cache_clear  # type: ignore[attr-defined]
        _replace_everywhere(name, original, replacement)
        patches.on_undo(functools.partial(_replace_everywhere, name, replacement, original))

    def forget() -> None:
        for name, value in list(vars(_triton).items()):
            if name.startswith(("has_", "_device_", "triton_")) and hasattr(value, "cache_clear"):
                value.cache_clear()

    forget()
    patches.on_undo(forget)


def _replace_everywhere(name: str, old: Any, new: Any) -> None:
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("torch") and getattr(module, "__dict__", {}).get(name) is old:
            setattr(module, name, new)


def watch_compilation(patches: Patches) -> None:
    """Makes every compiled kernel known to the interpreter (also those that come from Triton's disk cache), and keeps
    code generation and interpretation apart, since both use `triton.language` but differently."""
    from triton.compiler.compiler import ASTSource, CompiledKernel

    init, make_ir = CompiledKernel.__init__, ASTSource.make_ir

    @functools.wraps(init)
    def remembering_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        interpret.remember(self)

    @functools.wraps(make_ir)
    def exclusive_make_ir(self: Any, *args: Any, **kwargs: Any) -> Any:
        with interpret.language_lock:
            return make_ir(self, *args, **kwargs)

    patches.set(CompiledKernel, "__init__", remembering_init)
    patches.set(ASTSource, "make_ir", exclusive_make_ir)
