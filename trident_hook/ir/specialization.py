"""A specialization: one captured path of one function, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .guard import Guard
from .kinds import GuardKind
from .program import GRAD_MODE, HostProgram, OpCall
from .recipe import ReturnRecipe

HOOKS_WORD = 7  # of the state: not 0 while saved-tensor hooks are active (TDH_STATE_HOOKS)
_GRAD_MODE_BIT = 1  # of word 2: grad mode is on


@dataclass(frozen=True)
class Specialization:
    name: str  # module.qualname of the function
    index: int  # which capture of the function it was, from 0
    argument_names: tuple[str, ...]  # in localsplus order
    free_names: tuple[str, ...]
    state: tuple[int, ...]  # words of the torch state (see tdh_state in ext/abi/tdh_rt.h)
    guards: tuple[Guard, ...]
    program: HostProgram
    recipe: ReturnRecipe
    launch_device: int | None  # device that was current at capture; None without launches
    launch_device_type: str | None
    globals_: Any  # ObjectKey of the function's globals

    @property
    def saves_nothing(self) -> bool:
        """No run of it saves a tensor for a backward, or reads one that was: saved-tensor hooks have nothing to do with it.
        Either nothing is recorded at all, or no tensor requires grad, and none comes to."""
        ops = [op for op in self.program.ops if isinstance(op, OpCall)]
        if any(guard.kind is GuardKind.PLAIN_CONTEXT for guard in self.guards):
            return False
        tensors = [i.meta for i in self.program.inputs if i.meta is not None]
        tensors += [guard.arg for guard in self.guards if guard.kind is GuardKind.TENSOR]
        if not any(facts.requires_grad for facts in tensors) and not any("requires_grad" in op.op for op in ops):
            return True
        return not self.state[2] & _GRAD_MODE_BIT and not any((op.op, op.overload) == GRAD_MODE for op in ops)

    def __str__(self) -> str:
        lines = [f"specialization {self.index} of {self.name}", "  guards:"]
        lines += [f"    [{g.class_}] {g}" for g in self.guards]
        lines += ["  host program:"] + [f"    {line}" for line in str(self.program).splitlines()]
        lines += ["  returns:", f"    {self.recipe.result}"]
        return "\n".join(lines)
