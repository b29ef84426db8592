"""From the source of a unit to a module that can be loaded: Cython, the C compiler with the precompiled prelude where there is
one, the linker."""

from __future__ import annotations

from pathlib import Path

from . import compiler, prelude


def build(pyx: Path, linked: list[Path], target: Path) -> None:
    """A unit and the objects of those that it goes on from, as one module. The unit's object stays beside its source. Raises
    BuildError."""
    unit = pyx.with_suffix(".o")
    compile_c(compiler.cythonize(pyx), unit)
    compiler.link([unit, *linked], target)


def compile_c(source: Path, target: Path) -> None:
    """source.c -> an object. A prelude is only ever a help: what does not compile with it is compiled again without."""
    helped = prelude.options()
    if helped and compiler.try_compile_c(source, target, helped):
        return
    if helped:
        prelude.forget()
    compiler.compile_c(source, target, [])
