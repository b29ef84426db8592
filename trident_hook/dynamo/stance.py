"""The stance of torch.compiler, with which a program asks for eager code."""

from __future__ import annotations

from ..ir.kinds import RootKind, StepKind
from ..ir.objects import ObjectKey
from ..ir.source import Source


def is_default() -> bool:
    """Whether the program has asked for nothing: then what is not compiled yet may be."""
    from .names import eval_frame

    return getattr(getattr(eval_frame, "_stance", None), "stance", "default") == "default"


def source() -> Source | None:
    """Where it is read; None where this PyTorch has none."""
    from .names import eval_frame

    if not hasattr(getattr(eval_frame, "_stance", None), "stance"):
        return None
    module = Source((RootKind.OBJECT, ObjectKey(eval_frame)), (), "torch._dynamo.eval_frame")
    return module.then(StepKind.GENERIC_DICT).then(StepKind.DICT_ITEM, "_stance")
