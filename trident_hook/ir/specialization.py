"""A specialization: one captured path of one function, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from .guard import Guard
from .program import HostProgram
from .recipe import ReturnRecipe


@dataclass(frozen=True)
class Specialization:
    name: str  # module.qualname of the function
    index: int  # which capture of the function it was, from 0
    argument_names: tuple[str, ...]  # in localsplus order
    free_names: tuple[str, ...]
    state: tuple[int, ...]  # words of the torch state (see tdh_state in ext/rt/tdh_rt.h)
    guards: tuple[Guard, ...]
    program: HostProgram
    recipe: ReturnRecipe
    launch_device: int | None  # device that was current at capture; None without launches
    launch_device_type: str | None
    globals_: object  # ObjectKey of the function's globals

    def __str__(self) -> str:
        lines = [f"specialization {self.index} of {self.name}", "  guards:"]
        lines += [f"    [{g.class_}] {g}" for g in self.guards]
        lines += ["  host program:"] + [f"    {line}" for line in str(self.program).splitlines()]
        lines += ["  returns:", f"    {self.recipe.result}"]
        return "\n".join(lines)
