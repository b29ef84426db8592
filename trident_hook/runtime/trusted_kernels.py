"""Views that may be made without PyTorch's kernels: those whose kernels are all PyTorch's own at this moment. A kernel that
a library registers later is noticed natively, call by call (see ext/aten/view.cpp)."""

from __future__ import annotations

import torch

from .. import _rt

#: The views that ext/aten/view.cpp can make, and the operator that most of their kernels call.
VIEWS = ("view", "transpose.int", "t", "permute", "expand", "select.int", "slice.Tensor", "unsqueeze", "squeeze.dim", "alias",
         "as_strided")  # fmt: skip

#: Where the kernels of a key are registered in PyTorch's own build.
_HOMES = {
    "CPU": ("RegisterCPU", "RegisterCompositeExplicitAutograd"),
    "CUDA": ("RegisterCUDA", "RegisterCompositeExplicitAutograd"),
    "ADInplaceOrView": ("ADInplaceOrViewType",),
    "AutogradCPU": ("VariableType",),
    "AutogradCUDA": ("VariableType",),
}


def trust_views() -> tuple[str, ...]:
    """The operators (without `aten::`) that are trusted from here on."""
    return tuple(name for name in VIEWS if _is_pytorchs(f"aten::{name}") and _rt.view_trust(*_parts(name)))


def _parts(name: str) -> tuple[str, str]:
    packet, _, overload = name.partition(".")
    return f"aten::{packet}", overload


def _is_pytorchs(name: str) -> bool:
    table = dict(line.split(": ", 1) for line in torch._C._dispatch_dump_table(name).splitlines() if ": " in line)
    return all(_at_home(table.get(key, ""), homes) for key, homes in _HOMES.items() if key in table) and "CPU" in table


def _at_home(text: str, homes: tuple[str, ...]) -> bool:
    return any(f"/{home}" in text for home in homes)
