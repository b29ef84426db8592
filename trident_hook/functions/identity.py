"""What tells two specializations of a function apart."""

from __future__ import annotations

from typing import Any

from ..ir.specialization import Specialization


def identity(spec: Specialization) -> tuple[Any, ...]:
    """Equal for two that say the same: their guards, their programs and the binaries that they launch."""
    launches = tuple(
        (op.kernel.digest, op.kernel.shared, op.kernel.threads, op.grid, op.params, op.equal, op.unequal, op.keys)
        for op in spec.program.ops
        if hasattr(op, "kernel")
    )
    guards = [(g.kind, g.source.key, g.arg) for g in spec.guards]
    return (spec.state, guards, launches, [str(op) for op in spec.program.ops], spec.launch_device, spec.globals_)


def without_known(fresh: list[Any], known: list[Any]) -> list[Any]:
    """Those that say something new. The same guards again would never be reached: the call missed for another reason."""
    seen = [identity(s) for s in known]
    new = []
    for spec in fresh:
        if identity(spec) not in seen:
            seen.append(identity(spec))
            new.append(spec)
    return new


def tuned(spec: Specialization) -> list[Any]:
    """Its launches whose config a tuner chose by ints of the call."""
    return [op for op in spec.program.ops if getattr(op, "known", None) is not None]
