"""trident_hook: functions that launch Triton kernels, served from native code.

    import trident_hook
    trident_hook.enable()

`enable` / `disable` for everything, `jit` for one function, `status` and `explain` to see what happens."""

import torch  # noqa: F401 - first: our extension modules find its libraries in the process

from ._report import report
from .api import disable, enable, jit
from .autoselect import autoselect
from .config import config
from .explain import counts, explain, status
from .ffi import MISS, scm
from .scm.worker import wait as settle

__version__ = "0.1.0"
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
