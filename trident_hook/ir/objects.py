"""Python objects inside plain data."""

from __future__ import annotations

from typing import Any


class ObjectKey:
    """An object inside plain data: equal and hashed by identity, printed by its repr (shortened)."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, ObjectKey) and other.value is self.value

    def __hash__(self) -> int:
        return hash(id(self.value))

    def __repr__(self) -> str:
        return describe(self.value)


def describe(value: Any) -> str:
    """A short name that is the same in every process: no addresses, no paths."""
    import types

    if isinstance(value, types.ModuleType):
        return f"<module {value.__name__}>"
    if isinstance(value, dict) and "__build_class__" in value:
        return "builtins"
    if isinstance(value, types.CodeType):
        return f"<code {value.co_qualname}>"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if isinstance(name, str):
        return f"<{type(value).__name__} {name}>" if not isinstance(value, type) else f"<class {name}>"
    if (
        value is None
        or type(value) in (int, float, bool, str, bytes, tuple, complex)
        or type(value).__module__ == "torch"
    ):
        text = repr(value)
        return text if len(text) < 80 else text[:77] + "..."
    return f"<{type(value).__name__}>"
