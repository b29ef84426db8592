"""Whether what Dynamo is taught is learned: a name that exists proves nothing. Each lesson has trials (`patches/trials.py`): a tiny
function is captured with all patches in force, and what the lesson is for is then looked at. Guards are asked: they admit
what was captured, and may not admit what a trial makes of it. Trials run on a thread of their own, whose state is that of a
new thread whatever the program has set on its own."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch._C._dynamo.eval_frame import set_eval_frame

from .._logs import log
from . import entries
from .compile_frame import Compiled, FrameCompiler, passed_over
from .patches import catalogue
from .patches.registry import Patch
from .patches.trials import Trial
from .refusal import forbidden


def unproven(patches: Iterable[Patch] = catalogue.PATCHES) -> list[str]:
    """Lessons whose trials fail, in a user's words. It takes a second or two."""
    failed = ["the trials of what Dynamo is taught"]  # until they have run
    done = threading.Event()

    def prove() -> None:
        try:
            failed[:] = _failing(patches)
        finally:
            done.set()
        # It stays. Where there is no GPU, FakeTensorMode.__enter__ was seen to crash (in _ensureCUDADeviceGuardSet, PyTorch
        # 2.11) in a capture on another thread once the thread of the first capture had ended.
        threading.Event().wait()

    threading.Thread(target=prove, name="trident_hook-trials", daemon=True).start()
    done.wait()
    return failed


def _failing(patches: Iterable[Patch]) -> list[str]:
    return [patch.about for patch in patches if patch.is_lesson and not is_proven(patch)]


def is_proven(patch: Patch) -> bool:
    """Whether every trial of a lesson shows what it is for. (tests/dynamo/test_lessons.py wants some of each.)"""
    if not patch.is_wanted or patch.trials is None:
        return True
    if not patch.changes():
        return False
    try:
        return all(map(_shows, patch.trials()))
    except Exception as error:
        log("capture", "the trial of %s: %s: %s", patch.about, type(error).__name__, error)
        return False


def _shows(trial: Trial) -> bool:
    found = captured(trial.function, trial.arguments, trial.call)
    if trial.refused:
        return forbidden() is not None
    if found is None:
        log("capture", "%s was not captured", trial.function.__qualname__)
        return False
    if trial.change is None:
        return bool(trial.holds(found))
    if not found.admits(*trial.arguments):
        return False
    try:
        changed = trial.change(*trial.arguments)
        return not found.admits(*(trial.arguments if changed is None else changed))
    finally:
        trial.undo()


@dataclass
class Captured:
    """One capture of a function, of which the first call has returned `answer`."""

    function: types.FunctionType
    answer: Any
    compiled: Compiled

    @property
    def guards(self):
        """The root of Dynamo's guard tree."""
        return self.compiled.guarded_code.guard_manager.root

    def admits(self, *arguments: Any) -> bool:
        """Whether Dynamo's guards hold for a call."""
        code = self.function.__code__
        values = dict(zip(code.co_varnames[: code.co_argcount], arguments, strict=True))
        for name, cell in zip(code.co_freevars, self.function.__closure__ or (), strict=True):
            values[name] = cell.cell_contents
        return self.guards.check(values)

    def leaves(self) -> list[str]:
        """Kinds of the guards that were recorded."""
        tree = self.compiled.guard_log.tree_of(self.guards)
        return [kind for node in tree for kind, _ in node.leaves]

    def names_of_what_is_guarded(self) -> set[str]:
        """Attributes and keys on the ways to what the guards ask for."""
        tree = self.compiled.guard_log.tree_of(self.guards)
        return {value for node in tree for value in (*node.args, *node.kwargs.values()) if isinstance(value, str)}


def captured(function: types.FunctionType, arguments: tuple, call: Callable | None = None) -> Captured | None:
    """Captures one call of the function, in `call(*arguments)` if that is given, as ours are. None where there was nothing to
    capture, or more than one graph. Raises what Dynamo raises."""
    code, found = function.__code__, []
    compiler = FrameCompiler(lambda graph_module, inputs: graph_module.forward)

    class Callback:
        """What Dynamo asks for a frame."""

        _torchdynamo_orig_backend = compiler.chain

        def __call__(self, frame, cache_entry, frame_state):
            if frame.f_code is not code:
                return passed_over()
            found.append(compiler.compile(frame, cache_entry, frame_state))
            return found[-1].answer

    before = set_eval_frame(Callback())
    try:
        answer = (call or function)(*arguments)
    finally:
        set_eval_frame(before)
        entries.forget(code)
    if len(found) != 1 or found[0].guarded_code is None or found[0].breaks:
        return None
    return Captured(function, answer, found[0])
