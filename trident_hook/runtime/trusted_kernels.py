"""Operators whose kernels are all PyTorch's own at this moment: plain allocations, and the views that may be made without them. A
kernel that a library registers later is noticed natively, call by call (see ext/aten/alloc.cpp and view.cpp)."""

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


def trust_allocations() -> dict[str, bool]:
    """Lets plain allocations skip the dispatcher on the backends whose `empty_strided` is PyTorch's own."""
    _rt.registrations_watch(torch.library._impls)
    table = _kernels_of("aten::empty_strided")
    numbers = {"CPU": _rt.DEVICE_CPU, "CUDA": _rt.DEVICE_CUDA}
    return {
        key: _at_home(table.get(key, ""), (f"Register{key}",)) and bool(_rt.alloc_trust(number))
        for key, number in numbers.items()
    }


def allocations_are_replaced() -> bool:
    """Whether Python code stands for one of PyTorch's allocating operators now (`torch.library`). It is part of the torch state."""
    return _rt.state_read()[1][3] >> 8 & 0xFF != 0


def _is_pytorchs(name: str) -> bool:
    table = _kernels_of(name)
    return all(_at_home(table.get(key, ""), homes) for key, homes in _HOMES.items() if key in table) and "CPU" in table


def _kernels_of(name: str) -> dict[str, str]:
    """Dispatch key -> where the kernel was registered that the dispatcher calls for it. The only reader of its dumps."""
    lines = torch._C._dispatch_dump_table(name).splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def _at_home(text: str, homes: tuple[str, ...]) -> bool:
    return any(f"/{home}" in text for home in homes)
