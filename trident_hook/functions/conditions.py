"""What must hold for any call to be served, whatever its function: no tool watches Triton's launches, and the program has
not asked for eager code. Where it does not hold, the call takes its previous path and nothing is learned from it."""

from __future__ import annotations

from ..dynamo import stance
from ..ir.condition import Condition
from ..ir.kinds import ConditionKind, RootKind, StepKind
from ..ir.objects import ObjectKey
from ..ir.source import Source


def conditions() -> list[Condition]:
    """Those that a module checks on every call, through a plan of watched guards."""
    from triton import knobs

    root = Source((RootKind.OBJECT, ObjectKey(knobs.runtime)), (), "triton.knobs.runtime")
    found = [
        Condition(_calls_of(root, name), ConditionKind.EMPTY_LIST, f"triton.knobs.runtime.{name} is empty")
        for name in ("launch_enter_hook", "launch_exit_hook")
    ]
    read = stance.source()
    if read is not None:
        found.append(Condition(read, ConditionKind.NOT_EAGER, "torch.compiler's stance is not force_eager"))
    return found


def _calls_of(root: Source, hook: str) -> Source:
    return root.then(StepKind.ATTR, hook).then(StepKind.ATTR, "calls")


def allows_learning() -> bool:
    """Whether a miss may be captured now: under a stance other than the default nothing is compiled anew, and nothing
    raises because it would have been. Nor inside a compile: PyTorch calculates with constants while it traces, and the
    dispatcher then calls a library's function in a state that no call of the program's has."""
    import torch
    from torch._guards import CompileContext, TracingContext
    from triton import knobs

    if CompileContext.try_get() is not None or TracingContext.try_get() is not None:
        return False
    if torch._C._dispatch_tls_local_exclude_set().has(torch._C.DispatchKey.Python):
        return False

    runtime = knobs.runtime
    if runtime.launch_enter_hook.calls or runtime.launch_exit_hook.calls:
        return False
    if not stance.is_default():
        return False
    # A CUDA graph that is being captured would hold what a build or a load does.
    return not (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
