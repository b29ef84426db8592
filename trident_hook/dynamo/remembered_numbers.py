"""What tracing remembers of the data of tensors: `.item()`, the length of `nonzero`. It forgets them when a tensor's version
changes, which it does not when a kernel writes to it. So it is made to forget all of them behind every launch: a later read
is then a read of its own."""

from __future__ import annotations

from collections.abc import Iterable

from torch._subclasses.fake_tensor import FakeTensor


def forget(fakes: Iterable) -> None:
    """Makes the fake tensors among `fakes`, and all others of their mode, forget what their data decided."""
    modes = set()
    for fake in fakes:
        if isinstance(fake, FakeTensor):
            fake.item_memo = None  # of a CPU scalar that was passed in: a new epoch leaves a float
            modes.add(fake.fake_mode)
    for mode in modes:
        mode.epoch += 1
