"""The only Python home of version differences: facts about the running CPython, PyTorch and Triton, named by what
they mean. Everything else asks this module."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path

PYTHON = sys.version_info[:2]
PYTHON_SUPPORTED = (3, 11) <= PYTHON <= (3, 13)

#: PyFunction_SetVectorcall is honoured by Python call sites (CPython 3.12, gh-98831): functions can be promoted.
FUNCTIONS_CAN_BE_PROMOTED = PYTHON >= (3, 12)

#: The low bit of LOAD_ATTR's argument asks for a method and its self (CPython 3.12); before, LOAD_METHOD did.
LOAD_ATTR_LOADS_METHODS = PYTHON >= (3, 12)

#: A callable lies below the NULL that says "no self" (CPython 3.13, gh-106581); before, above it.
NULL_FOLLOWS_CALLABLE = PYTHON >= (3, 13)


#: What FOR_ITER jumps over behind its loop when it is exhausted: END_FOR (CPython 3.12), END_FOR and POP_TOP (3.13).
INSTRUCTIONS_SKIPPED_BEHIND_A_LOOP = max(0, PYTHON[1] - 11)


def parse_version(text: str) -> tuple[int, ...]:
    """'2.11.0+cu130' -> (2, 11, 0). Letters end the number that they follow ('3.7.0rc1' -> (3, 7, 0))."""
    numbers = []
    for part in text.split("+")[0].split("."):
        match = re.match(r"\d+", part)
        if not match:
            break
        numbers.append(int(match.group()))
        if match.group() != part:
            break
    return tuple(numbers)


def torch_version() -> tuple[int, ...]:
    import torch

    return parse_version(torch.__version__)


#: What every lesson was proven on. 2.12 moved where Dynamo subscripts a dict: it would be served with guards missing.
TORCH_MIN, TORCH_BELOW = (2, 11), (2, 12)


@functools.cache
def other_torch() -> str | None:
    """The PyTorch that `_rt` was built beside, where that is another release than this: the layout of what it reads may be another."""
    try:
        built = Path(__file__).with_name("_built_with.txt").read_text().strip()
    except OSError:
        return None
    return built if built and parse_version(built) != torch_version() else None


def unsupported_reason() -> str | None:
    """Why the hook must stay off in this process, or None."""
    if not PYTHON_SUPPORTED:
        return f"CPython {PYTHON[0]}.{PYTHON[1]} is not supported (supported: 3.11, 3.12, 3.13)"
    version = torch_version()
    if not TORCH_MIN <= version[:2] < TORCH_BELOW:
        import torch

        return f"PyTorch {torch.__version__} is not supported (supported: 2.11)"
    if (built := other_torch()) is not None:
        import torch

        return f"it was built beside PyTorch {built} and runs beside {torch.__version__}: install it anew here"
    return None


#: PyDict_AddWatcher and PyType_AddWatcher (CPython 3.12).
HAS_WATCHERS = PYTHON >= (3, 12)

#: A type whose version tag is valid has a flag that says so; CPython 3.13 no longer sets it, the tag itself tells (0 is none).
VERSION_TAG_HAS_A_FLAG = PYTHON < (3, 13)
