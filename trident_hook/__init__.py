"""trident_hook: functions that launch Triton kernels, served from native code.

    import trident_hook
    trident_hook.enable()

`enable` / `disable` for everything, `jit` for one function, `status` and `explain` to see what happens. Modules: `ffi`, `integrations`,
`profiling`, `errors`. A file or folder whose name begins with an underscore holds what stands here under a name of its own."""

import os as _os

import torch as _torch  # noqa: F401 - first: our extension modules find its libraries in the process

from . import (
    _built,  # noqa: F401 - next: says how to build what is missing
    _logs,
    _variables,
    errors,
    ffi,
    integrations,
    profiling,
)
from ._autoselect import autoselect
from ._config import config
from ._explain import counts, explain, status
from ._report import report
from .api import disable, enable, jit, settle
from .ffi import MISS, scm

__version__ = "0.1.0"  # the one place; pyproject.toml reads it from here
__all__ = [
    "MISS",
    "autoselect",
    "config",
    "counts",
    "disable",
    "enable",
    "explain",
    "jit",
    "report",
    "scm",
    "settle",
    "status",
]


def __dir__() -> list[str]:
    """The names that are for users."""
    modules = (module.__name__.rpartition(".")[2] for module in (errors, ffi, integrations, profiling))
    return sorted([*__all__, "__version__", *modules])


for _complaint in _variables.complaints(_os.environ):
    _logs.warn(f"trident_hook: {_complaint}")
