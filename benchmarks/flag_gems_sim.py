"""FlagGems on a machine without a GPU: as much of `torch.cuda` as it asks for, in front of the simulated driver.

    flag_gems = present()

Kernels are compiled for Hopper, launched by FlagGems' own wrappers on CPU tensors, and interpreted. Tuning takes the first
config that compiles instead of a clock's answer. What is tested is what a wrapper launches, not how fast it is.

For processes of its own: nothing is taken back."""

from __future__ import annotations

import contextlib
import os
import tempfile
import types
from pathlib import Path

import torch

_PROPERTIES = types.SimpleNamespace(
    major=9, minor=0, multi_processor_count=132, L2_cache_size=50 << 20, name="NVIDIA H200", total_memory=141 << 30,
    shared_memory_per_block_optin=227 << 10,
)  # fmt: skip


class _Device:
    """`torch.cuda.device`: there is one device, and it is current."""

    def __init__(self, device) -> None:
        self.device = device

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc) -> bool:
        return False


def present():
    """Imports FlagGems and returns it. Raises ImportError where it is not installed."""
    from trident_hook.testing import simdriver

    simdriver.install()
    os.environ.setdefault("GEMS_VENDOR", "nvidia")  # else the library asks nvidia-smi
    home = Path(tempfile.mkdtemp(prefix="flag-gems-"))  # tuning results and generated code of this process alone
    os.environ.setdefault("FLAGGEMS_CACHE_DIR", str(home))
    os.environ.setdefault("FLAGGEMS_DB_URL", f"sqlite:///{home}/tuning.db")
    cuda, asked = torch.cuda, torch.cuda.is_available
    cuda.device_count, cuda.current_device = (lambda: 1), (lambda: 0)
    cuda.get_device_name = lambda device=None: _PROPERTIES.name
    cuda.get_device_properties = lambda device=None: _PROPERTIES
    cuda.get_device_capability = lambda device=None: (9, 0)
    cuda.device, cuda.synchronize = _Device, lambda device=None: None
    cuda.is_available = lambda: True  # while the library is imported: what follows sees the truth again
    try:
        import flag_gems
    finally:
        cuda.is_available = asked
    _choose_without_a_clock()
    _accept_cpu_tensors(flag_gems)
    return flag_gems


@contextlib.contextmanager
def registered(flag_gems, names: list[str]):
    """`use_gems` for CPU tensors: the library registers for CUDA tensors alone."""
    library = torch.library.Library("aten", "IMPL")
    for entry in flag_gems._FULL_CONFIG:
        if entry[1].__name__ in names:
            library.impl(entry[0], entry[1], "CPU")
    try:
        yield
    finally:
        library._destroy()


def use_cpu_tensors(flag_gems) -> None:
    """For code that asks the library which device to use: the CPU, and `use_gems()` registers for that."""
    flag_gems.device, flag_gems.runtime.device.name, flag_gems.runtime.device.dispatch_key = "cpu", "cpu", "CPU"


def _choose_without_a_clock() -> None:
    from triton.runtime.autotuner import Autotuner

    Autotuner._bench = lambda self, *args, config, **meta: [1.0, 1.0, 1.0]


def _accept_cpu_tensors(flag_gems) -> None:
    """`where` looks for a device that is not the CPU."""
    import sys

    function = sys.modules["flag_gems.ops.where"].where_self_out
    function.__code__ = _replaced(function.__code__, "cpu", "no device")


def _replaced(code: types.CodeType, old: str, new: str) -> types.CodeType:
    constants = tuple(
        _replaced(c, old, new) if isinstance(c, types.CodeType) else new if c == old else c for c in code.co_consts
    )
    return code.replace(co_consts=constants)
