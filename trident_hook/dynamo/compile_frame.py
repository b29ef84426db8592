"""Dynamo's compile of one frame for one of our captures: with our settings and patches, under its own compile lock, and with
nothing left behind."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy
from torch._guards import TracingContext

from . import adapters
from .capturing import capturing
from .names import ConvertFrameReturn, Hooks, convert_frame, eval_frame
from .noted_warnings import noted
from .patches import catalogue
from .patches.guard_recording import GuardLog, recording
from .quiet import quiet

#: record_runtime_overhead adds calls to the generated code that only Dynamo's own logs need. specialize_float: off, a float
#: that changes becomes a symbol, see capture/graph/float_inputs.py.
#: *recompile_limit: the limit of a function's specializations is ours; between two builds there may be more of Dynamo's entries.
#: invalidate_compile_context_weakrefs: what tracing remembers of the program's tensors goes with the trace. Its weak references would
#: forbid `torch.utils.swap_tensors` of a parameter that a served function reads.
#: skip_*: guards that Dynamo leaves out by default for speed, and is wrong without: hooks that are added to a module,
#: parameters that become the same tensor, defaults of functions that are called.
_SETTINGS: dict[str, Any] = {
    "record_runtime_overhead": False,
    "specialize_float": False,
    "recompile_limit": 1 << 30,
    "accumulated_recompile_limit": 1 << 30,
    "capture_scalar_outputs": True,
    "capture_dynamic_output_shape_ops": True,
    "skip_nnmodule_hook_guards": False,
    "skip_no_tensor_aliasing_guards_on_parameters": False,
    "skip_guards_on_constant_func_defaults": False,
    "invalidate_compile_context_weakrefs": True,
}
#: Of a capture whose symbols could not be followed (a size divided, compared as a float, sorted by).
_AS_THEY_ARE: dict[str, Any] = {"automatic_dynamic_shapes": False, "assume_static_by_default": True}
#: Of functions whose floats cannot be symbols: each is a constant of its specialization.
_FIXED_FLOATS: dict[str, Any] = {"specialize_float": True}


@dataclass
class Compiled:
    """What came of it. at_limit: Dynamo has as many entries for the code as it keeps. breaks: its words for each graph
    break."""

    answer: ConvertFrameReturn
    guard_log: GuardLog
    at_limit: bool
    breaks: list[str]

    @property
    def guarded_code(self):
        """Dynamo's code with its guards; None where there was nothing to compile."""
        return self.answer.guarded_code


class FrameCompiler:
    """Compiles frames with one backend. `chain` is what Dynamo follows from its callback to the backend when it looks for its
    cache entries: who hands this compiler's answers to Dynamo has it as `_torchdynamo_orig_backend`."""

    def __init__(self, backend) -> None:
        hooks = Hooks()
        compiler = eval_frame.get_compiler_fn(backend)
        self.chain = convert_frame.catch_errors_wrapper(convert_frame.convert_frame(compiler, hooks), hooks)

    def compile(self, frame, cache_entry, frame_state, symbolic: bool = True, fixed_floats: bool = False) -> Compiled:
        """Raises what Dynamo or the backend raises. symbolic: sizes that have changed become symbols."""
        settings = _SETTINGS | ({} if symbolic else _AS_THEY_ARE) | (_FIXED_FLOATS if fixed_floats else {})
        # As torch.compile marks its functions: without this, Dynamo passes over a frame that holds no tensor.
        eval_frame.always_optimize_code_objects[frame.f_code] = True
        before = _graph_breaks()
        changes = (
            recording(),
            quiet(),
            noted(),
            catalogue.in_force(),
            adapters.in_force(),
            torch._dynamo.config.patch(settings),
        )
        with capturing(*changes) as (guard_log, *_):
            answer = self.chain(frame, cache_entry, frame_state)
        at_limit = answer.frame_exec_strategy.cur_action == _FrameAction.RUN_ONLY
        # Only this frame: what it calls, and the rest of it after a graph break, runs as plain Python.
        answer.frame_exec_strategy = _FrameExecStrategy(_FrameAction.DEFAULT, _FrameAction.SKIP)
        if answer.guarded_code is None:
            answer.apply_to_code = False
        return Compiled(answer, guard_log, at_limit, list(_graph_breaks() - before))


def left_alone() -> ConvertFrameReturn:
    """The answer for a frame that runs as plain Python, and about which nothing is remembered."""
    answer = ConvertFrameReturn()
    answer.frame_exec_strategy = _FrameExecStrategy(_FrameAction.DEFAULT, _FrameAction.SKIP)
    answer.apply_to_code = False
    return answer


def passed_over() -> ConvertFrameReturn:
    """The same, and frames that it calls are asked about."""
    answer = ConvertFrameReturn()
    answer.apply_to_code = False
    return answer


def traced_code() -> list:
    """Code objects of the function that is being compiled, and of all that was inlined into it."""
    return list(TracingContext.get_traced_code() or ())


def sizes_as_they_are() -> contextlib.AbstractContextManager:
    """Captures make no symbols of sizes while the block runs, in the whole process."""
    return torch._dynamo.config.patch(automatic_dynamic_shapes=False)


def _graph_breaks() -> Counter:
    return Counter(torch._dynamo.utils.counters.get("graph_break", {}))
