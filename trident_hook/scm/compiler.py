"""Cython, then the C compiler. What goes in decides what comes out: see `cache.key_of`. Runs in whichever process builds:
see `process`."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path

from ..errors import BuildError

#: -O1 halves the time of -O2 on Cython's boilerplate and is within noise of it on the code that we generate. -Og would
#: take another fifth off, and add 2 % to a hit. NDEBUG: CPython's inline functions assert what guards have just checked.
CFLAGS = ("-O1", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-w", "-g0")
#: A module needs nothing that the process has not loaded already: neither start files nor the search for libraries.
LDFLAGS = ("-shared", "-nostartfiles", "-nodefaultlibs")
#: CPython's headers. The build process is told: without its site module an interpreter may have another answer.
PYTHON_INCLUDE = sysconfig.get_path("include")
#: For one run of the C compiler, in seconds. A module takes a few; a compiler that waits for something waits for ever.
TIMEOUT_S = 600


def include_dir() -> Path:
    """Where tdh_rt.h and tdh.pxd are: inside an installed package, or in the source tree beside it."""
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "_include", package.parent / "ext" / "abi"):
        if (candidate / "tdh_rt.h").exists():
            return candidate
    raise BuildError(f"no tdh_rt.h beside {package}", "the package's own headers", "Reinstall trident_hook.")


def compiler_command() -> list[str]:
    """$TRIDENT_HOOK_CC, else $CC, else the first of cc, gcc, clang on PATH."""
    import shutil

    for variable in ("TRIDENT_HOOK_CC", "CC"):
        if os.environ.get(variable):
            return shlex.split(os.environ[variable])
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name)
        if path:
            return [path]
    raise BuildError("no C compiler on PATH", "cc, gcc or clang", "Install one, or set TRIDENT_HOOK_CC.")


@functools.cache
def compiler_version() -> str:
    command = compiler_command()
    try:
        out = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(
            f"{command[0]} --version failed: {error}", "a working C compiler", "Set TRIDENT_HOOK_CC."
        ) from error
    return out.splitlines()[0] if out else "?"


_declarations: list = []  # contexts of Cython that have read tdh.pxd (25 ms); one that is in use is not in the list


@contextlib.contextmanager
def _no_collection():
    """Cython makes so many objects that Python looks for garbage, also in all that PyTorch has: 0.2 s and more, each time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def cythonize(source: Path) -> Path:
    """source.pyx -> source.c, in this process: Cython's command line would take half a second to start."""
    from Cython.Compiler import Errors
    from Cython.Compiler.Main import CompilationOptions, Context, compile_single, default_options

    options = CompilationOptions(
        default_options, include_path=[str(include_dir())], language_level=3, output_file=str(source.with_suffix(".c")),
        errors_to_stderr=False, show_version=0,
    )  # fmt: skip
    try:
        context = _declarations.pop()
    except IndexError:
        context = Context.from_options(options)
    try:
        with _no_collection():
            result = compile_single(str(source), options, None, context=context)
    except Errors.CompileError as error:
        raise BuildError(f"Cython refused {source}: {error}", "a source it accepts", REPORT) from error
    if result.num_errors or not source.with_suffix(".c").exists():
        raise BuildError(f"Cython refused {source}", "a source it accepts", REPORT)
    context.modules.pop(source.stem, None)  # what stays are the declarations that all modules share
    _declarations.append(context)
    written = source.with_suffix(".c")
    written.write_text(functions_of(written.read_text()))
    return written


#: Where Cython's functions begin, and what comes behind them.
_CODE, _BEHIND = "/* #### Code section: module_code ### */", "/* #### Code section: module_exttypes ### */"
#: Helpers, constants and error paths of Cython's.
_OF_CYTHON = re.compile(r"__Pyx_(?!RefNanny)\w+|__PYX_\w+|__pyx_mstate\w*")
REPORT = "This is a fault of trident_hook: please report it with the source."


def compile_command() -> list[str]:
    """All but the input and the output: the same for modules and for the precompiled prelude."""
    return [*compiler_command(), *CFLAGS, f"-I{PYTHON_INCLUDE}", f"-I{include_dir()}"]


def build(pyx: Path, linked: list[Path], target: Path) -> None:
    """A unit and the objects of those that it goes on from, as one module. The unit's object stays beside its source."""
    unit = pyx.with_suffix(".o")
    compile_c(cythonize(pyx), unit)
    link([unit, *linked], target)


def functions_of(source: str) -> str:
    """What Cython wrote, without what it adds for a module of its own, two thirds of the C compiler's time: the generated code
    brings the module itself (TDH_MODULE). Raises BuildError where a function uses something of what is left out."""
    begin, end = source.find(_CODE), source.find(_BEHIND)
    if not 0 <= begin < end:
        raise BuildError(
            "Cython wrote C without the marks of its sections", "the Cython that is installed with us", REPORT
        )
    foreign = _OF_CYTHON.search(source, begin, end)
    if foreign:
        line = source[source.rfind("\n", 0, foreign.start()) + 1 : source.find("\n", foreign.end())]
        raise BuildError(f"Cython made Python objects of it: {line.strip()}", "code that is C alone", REPORT)
    return source[:end] + "#endif\n"  # of the `#ifndef Py_PYTHON_H` that all of it stands in


def compile_c(source: Path, target: Path) -> None:
    """source.c -> an object."""
    from . import prelude

    helped = prelude.options()
    if helped and not _run_compiler(source, target, helped).returncode:
        return
    if helped:
        prelude.forget()
    done = _run_compiler(source, target, [])
    _require(done, "a compiled module")


def link(objects: list[Path], target: Path) -> None:
    command = [*compiler_command(), *LDFLAGS, *map(str, objects), "-o", str(target)]
    _require(_run(command, target.parent), "a linked module")


def _require(done: subprocess.CompletedProcess, expected: str) -> None:
    if done.returncode:
        raise BuildError(f"{shlex.join(done.args)} failed:\n{done.stderr[-2000:]}", expected, REPORT)


def _run_compiler(source: Path, target: Path, more: list[str]) -> subprocess.CompletedProcess:
    command = [*compile_command(), *more, f"-Wa,-I{source.parent}", "-c", str(source), "-o", str(target)]
    return _run(command, source.parent)


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise BuildError(
            f"{command[0]} did not end within {TIMEOUT_S} s", "a C compiler that ends", "Set TRIDENT_HOOK_CC."
        ) from error
    except OSError as error:
        raise BuildError(f"{command[0]} does not run: {error}", "a C compiler", "Set TRIDENT_HOOK_CC.") from error
