"""Truth of objects: what `if o:` asks."""

from __future__ import annotations

import sys
import types

from ..refusal import forbid
from . import trials
from .registry import is_capturing, patch


@patch(
    "the truth of objects",
    gone_when="Dynamo asks __bool__ and __len__ as Python does, and minds which way the jump goes",
    trials=trials.branches,
)
def branches(changes) -> None:
    """Where `__bool__` or `__len__` gives a number that is a symbol, Dynamo jumps if it is true, also where the jump is for what is
    false. And an object whose class has them from a builtin type is true to Dynamo, whatever it holds."""
    from ..names import ConstantVariable, SymNodeVariable, UserDefinedObjectVariable, UserMethodVariable

    def make(original):
        def call_function(self, tx, args, kwargs):
            answer = original(self, tx, args, kwargs)
            if isinstance(answer, SymNodeVariable) and is_capturing() and _is_asked_by_a_jump():
                return ConstantVariable.create(answer.evaluate_expr())
            return answer

        return call_function

    def var_getattr(self, tx, name):
        if name == "__bool__" and _is_asked_by_a_jump():
            asked = getattr(type(self.value), "__bool__", None) or getattr(type(self.value), "__len__", None)
            if asked is not None and not isinstance(asked, types.FunctionType):
                forbid(
                    "folded", f"whether an object of {type(self.value).__name__} is true, which its base class decides"
                )

    changes.replace(UserMethodVariable, "is called", make)
    changes.in_front(UserDefinedObjectVariable, "reads an attribute", var_getattr)


def _is_asked_by_a_jump() -> bool:
    """Whether Dynamo's handler of a conditional jump is what called what Dynamo's method was put in front of."""
    frame: types.FrameType | None = sys._getframe(2)
    for _ in range(3):
        if frame is None:
            return False
        if "generic_jump" in frame.f_code.co_qualname:
            return True
        frame = frame.f_back
    return False


PATCHES = (branches,)
