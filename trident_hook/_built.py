"""Checks at its import, the first of the package's, that the extension modules are there; says how to build them if not."""

from __future__ import annotations

import importlib.util
import platform
from pathlib import Path

from . import _stand_in  # noqa: F401 - in the place of `_rt` where this PyTorch must not load it

_MODULES = ("_core", "_rt")


def check() -> None:
    """Raises ImportError, in one sentence, unless the extension modules can be imported."""
    folder = Path(__file__).resolve().parent
    missing = [name for name in _MODULES if importlib.util.find_spec(f"{__package__}.{name}") is None]
    if missing:
        raise ImportError(
            f"trident_hook in {folder} is not built for CPython {platform.python_version()} ({' and '.join(missing)} missing): "
            f"run `make setup` or `python setup.py build_ext --inplace` in {folder.parent}, or install it with pip.",
            name=__package__,
        )
    try:
        from . import _core, _rt  # noqa: F401
    except ImportError as error:
        import torch

        raise ImportError(
            f"trident_hook in {folder} was built for another PyTorch or Python than PyTorch {torch.__version__} on CPython "
            f"{platform.python_version()}: build or install it again ({error}).",
            name=__package__,
        ) from error


check()
