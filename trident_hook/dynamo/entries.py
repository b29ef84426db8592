"""What Dynamo has in the process of its own making: code, and cache entries of the program's code."""

from __future__ import annotations

import sys
import types

#: How Dynamo names the rest of a function after a graph break (TORCH_DYNAMO_RESUME_IN_PREFIX).
_RESUMED = "torch_dynamo_resume_in"


def forget(code: types.CodeType) -> None:
    """Drops Dynamo's cache entries of a code object. No call of it may be in Dynamo: it holds on to what that would free."""
    from .names import reset_code

    reset_code(code)


def is_dynamos(code: types.CodeType) -> bool:
    """Whether Dynamo made it out of a function, or of its rest after a graph break. It has the function's module and launches
    its kernels, but lives as long as Dynamo's cache has it."""
    convert_frame = sys.modules.get("torch._dynamo.convert_frame")
    if convert_frame is None:
        return False
    return code.co_name.startswith(_RESUMED) or code in getattr(convert_frame, "output_codes", ())
