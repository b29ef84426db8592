"""A small operator library with launchers of its own, in the shapes that published libraries have: a launch cache
around the kernel, a tuner with key strategies, wrapped tensors, logging in every operator, memoised wrappers, a device
context, and operators that the dispatcher calls. Nothing here knows of trident_hook."""

from __future__ import annotations

import torch

from . import ops


class use_mini_gems:
    """Registers operators with the dispatcher while the block runs."""

    def __init__(self, *names: str, key: str = "CPU") -> None:
        self.library = torch.library.Library("aten", "IMPL")
        for name in names:
            self.library.impl(name, getattr(ops, name), key)

    def __enter__(self):
        return self

    def __exit__(self, *exc) -> None:
        self.library._destroy()
