"""What native code calls back for launches: registered once, when the first module is loaded. C++ knows no module by name."""

from __future__ import annotations

from .. import _rt


def _load_cubin(cubin: bytes, name: str, shared: int, threads: int, device: int) -> int:
    """The address of a kernel's function on a device."""
    from . import cubins

    return cubins.load(cubin, name, shared, threads, device)


def _raise_error(*details) -> None:
    """Raises what a failed launch is to the program."""
    from . import launch_errors

    launch_errors.raise_launch_error(*details)


def register() -> None:
    """Hands both to `_rt`. Again makes no difference."""
    _rt.launch_callbacks(_load_cubin, _raise_error)
