"""Cython, the C compiler and the linker, one by one. What goes in decides what comes out: see `cache.key_of`. Runs in whichever
process builds: see `builder_process`. `native_module` puts them together."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sysconfig
import time
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
#: For a question that it answers without compiling anything.
ANSWER_S = 20
#: A compiler that did not end is not asked again for so long: each call that misses would wait for it.
HUNG_S = 600
#: For any file that it writes, its messages included.
MOST_BYTES = 256 << 20
_MESSAGES = 1 << 20  # bytes that are read of them
_KILLED_S = 5
_NOWHERE = Path("/")  # where it is asked what leaves no files
#: Variables that change what GCC and Clang do.
_READ_BY_COMPILERS = (
    "CPATH",
    "C_INCLUDE_PATH",
    "GCC_EXEC_PREFIX",
    "COMPILER_PATH",
    "CCC_OVERRIDE_OPTIONS",
    "SOURCE_DATE_EPOCH",
)


def include_dir() -> Path:
    """Where tdh_rt.h and tdh.pxd are: inside an installed package, or in the source tree beside it."""
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "_include", package.parent / "ext" / "abi"):
        if (candidate / "tdh_rt.h").exists():
            return candidate
    raise BuildError(f"no tdh_rt.h beside {package}", "the package's own headers", "Reinstall trident_hook.")


def compiler_command() -> list[str]:
    """$TRIDENT_HOOK_CC, else $CC, else the first of cc, gcc, clang on PATH."""
    for variable in ("TRIDENT_HOOK_CC", "CC"):
        if os.environ.get(variable, "").strip():
            try:
                return shlex.split(os.environ[variable])
            except ValueError as error:
                raise BuildError(f"{variable}={os.environ[variable]!r}: {error}", "a command", "Correct it.") from None
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name)
        if path:
            return [path]
    raise BuildError("no C compiler on PATH", "cc, gcc or clang", "Install one, or set TRIDENT_HOOK_CC.")


def compiler_version() -> str:
    """The first line of what it says of itself."""
    command = compiler_command()
    out = _answer(tuple(command), ("--version",))
    return out.splitlines()[0] if out else "?"


def identity() -> str:
    """All that what it makes depends on beside the source: its version, and how it starts its own parts with our options and
    the user's. There `-march=native` has become the name and the abilities of this machine."""
    command = compiler_command()
    asked = ("-###", "-E", "-x", "c", os.devnull)
    try:
        said = _answer(tuple(command), (*CFLAGS, *asked))
    except BuildError:  # a compiler that does not know -###
        said = _abilities()
    # Where it lies, and the name that it was called by, say nothing about what it makes.
    lines = [line for line in said.splitlines() if not line.startswith(("COLLECT_GCC=", "InstalledDir:"))]
    surroundings = [f"{name}={os.environ[name]}" for name in _READ_BY_COMPILERS if name in os.environ]
    return "\n".join([compiler_version(), *command[1:], *CFLAGS, *LDFLAGS, *surroundings, *lines])


def _abilities() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return line
    return ""


def _answer(command: tuple[str, ...], options: tuple[str, ...]) -> str:
    """What a compiler says when it is asked something. It is asked once."""
    surroundings = tuple(os.environ.get(name) for name in _READ_BY_COMPILERS)
    return _answer_once(command, options, surroundings)


@functools.cache
def _answer_once(command: tuple[str, ...], options: tuple[str, ...], surroundings: tuple) -> str:
    done = _run([*command, *options], _NOWHERE, ANSWER_S)
    if done.returncode:
        raise BuildError(
            f"{shlex.join(done.args)} failed: {done.stdout[-2000:]}", "a working C compiler", "Set TRIDENT_HOOK_CC."
        )
    return done.stdout


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


def compile_c(source: Path, target: Path, more: list[str]) -> None:
    """source.c -> an object. Raises BuildError."""
    done = _run_compiler(source, target, more)
    _require(done, "a compiled module", target)


def try_compile_c(source: Path, target: Path, more: list[str]) -> bool:
    """The same; False where the compiler refuses, or makes nothing that this machine can run."""
    return not _run_compiler(source, target, more).returncode and _machine(target) is not None


def link(objects: list[Path], target: Path) -> None:
    command = [*compiler_command(), *LDFLAGS, *map(str, objects), "-o", str(target)]
    _require(_run(command, target.parent, TIMEOUT_S), "a linked module", target)


def _require(done: subprocess.CompletedProcess, expected: str, made: Path) -> None:
    if done.returncode:
        raise BuildError(f"{shlex.join(done.args)} failed:\n{done.stdout[-2000:]}", expected, REPORT)
    if _machine(made) != _machine(Path("/proc/self/exe")):
        raise BuildError(
            f"{done.args[0]} said that all is well, but {made.name} is nothing that this machine can run", expected,
            "Set TRIDENT_HOOK_CC to a C compiler for this machine.",
        )  # fmt: skip


def _machine(path: Path) -> bytes | None:
    """What an ELF file says of the machine that it is for."""
    try:
        with path.open("rb") as file:
            head = file.read(20)
    except OSError:
        return None
    return head[4:6] + head[18:20] if len(head) == 20 and head.startswith(b"\x7fELF") else None


def _run_compiler(source: Path, target: Path, more: list[str]) -> subprocess.CompletedProcess:
    command = [*compile_command(), *more, f"-Wa,-I{source.parent}", "-c", str(source), "-o", str(target)]
    return _run(command, source.parent, TIMEOUT_S)


_hung: dict[tuple[str, ...], tuple[float, BuildError]] = {}  # a compiler that did not end -> when it is asked again


def _run(command: list[str], folder: Path, seconds: float) -> subprocess.CompletedProcess:
    """`stdout` of the result is all that it said. Whatever becomes of this call, no process of it is left."""
    compiler = tuple(compiler_command())
    until, failure = _hung.get(compiler, (0.0, None))
    if failure is not None and time.monotonic() < until:
        raise BuildError(failure.seen, failure.expected, failure.remedy)
    said = os.memfd_create("trident_hook: what a compiler says")
    try:
        status = _wait(command, folder, seconds, said)
        text = os.pread(said, _MESSAGES, max(0, os.fstat(said).st_size - _MESSAGES))
    except subprocess.TimeoutExpired as error:
        failure = BuildError(
            f"{command[0]} did not end within {seconds:g} s", "a C compiler that ends", "Set TRIDENT_HOOK_CC."
        )
        _hung[compiler] = time.monotonic() + HUNG_S, failure
        raise failure from error
    except OSError as error:
        raise BuildError(f"{command[0]} does not run: {error}", "a C compiler", "Set TRIDENT_HOOK_CC.") from error
    finally:
        os.close(said)
    return subprocess.CompletedProcess(command, status, text.decode(errors="replace"))


def _wait(command: list[str], folder: Path, seconds: float, said: int) -> int:
    """Its exit status. Its own temporary files go where we put ours."""
    surroundings = {**os.environ, "LC_ALL": "C", **({"TMPDIR": str(folder)} if folder != _NOWHERE else {})}
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=folder, env=surroundings
    )  # fmt: skip
    try:
        _limit_files(process.pid)
        return process.wait(seconds)
    finally:
        if process.returncode is None:
            end(process)


def end(process: subprocess.Popen) -> None:
    """A compiler, and what it has started."""
    for number in [*_descendants(process.pid), process.pid]:
        with contextlib.suppress(OSError):
            os.kill(number, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel holds it: a file system that hangs
        process.wait(_KILLED_S)


def _limit_files(number: int) -> None:
    """Of the process and of what it has started by now; what it starts from here on inherits the limit."""
    with contextlib.suppress(OSError):  # it has ended, or may not be limited
        resource.prlimit(number, resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
        for child in _children(number):
            _limit_files(child)


def _descendants(number: int) -> list[int]:
    return [each for child in _children(number) for each in (*_descendants(child), child)]


def _children(number: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for path in Path(f"/proc/{number}/task").glob("*/children"):
            found += map(int, path.read_text().split())
    return found
