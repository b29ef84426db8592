"""PyTorch's operator database. Its module also imports `expecttest`, for test classes that are not used here: where it is
not installed, an empty stand-in is enough."""

from __future__ import annotations

import functools
import importlib.util
import sys
import types
import unittest


@functools.cache
def operators() -> dict:
    """Formatted name -> OpInfo."""
    if importlib.util.find_spec("expecttest") is None and "expecttest" not in sys.modules:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        stand_in.assert_expected_inline = None
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.formatted_name: op for op in op_db}
