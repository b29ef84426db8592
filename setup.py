"""Builds the three extension modules in ``ext/`` and says where package data comes from.

`trident_hook._core`  C    the evaluator, the table, the doors; needs only CPython's headers
`trident_hook._rt`    C++  ATen slots, guards, launching; needs PyTorch's headers, never a CUDA toolkit
`trident_hook._ffi`   C++  TVM FFI's function table; only where apache-tvm-ffi is installed

Everything static lives in pyproject.toml. Environment variables that a builder may set:
  MAX_JOBS=n                     compile at most n files at once (default: the number of cores)
  TRIDENT_HOOK_BUILD_ONLY=core   build `_core` alone, on a CPython without PyTorch
  TRIDENT_HOOK_BUILD_DEBUG=1     -O1 -g with assertions on
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
DEBUG = os.environ.get("TRIDENT_HOOK_BUILD_DEBUG") == "1"
ONLY_CORE = os.environ.get("TRIDENT_HOOK_BUILD_ONLY") == "core"

#: Beside `_rt`, for trident_hook/_compat.py to compare with the PyTorch that it finds.
BUILT_WITH = "_built_with.txt"

# Warnings are on for everything that is ours. -g0 after CPython's own -g: debug information of PyTorch's templates
# makes the module fifty times larger.
OPTIMIZE = ["-O1", "-g", "-UNDEBUG", "-DTDH_DEBUG=1"] if DEBUG else ["-O2", "-g0", "-DNDEBUG"]
COMMON = [*OPTIMIZE, "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter"]
COMMON += ["-Wno-missing-field-initializers", "-Wno-cast-function-type"]


def sources(*patterns: str) -> list[str]:
    found = {Path(path).relative_to(ROOT).as_posix() for p in patterns for path in glob(str(ROOT / p), recursive=True)}
    return sorted(found)


def core_extension() -> Extension | None:
    files = sources("ext/modules/core.c", "ext/hook/*.c", "ext/table/*.c", "ext/door/*.c", "ext/compat/*.c")
    if not files:
        return None
    return Extension(
        "trident_hook._core",
        files,
        include_dirs=["ext"],
        extra_compile_args=["-std=gnu11", *COMMON],
        language="c",
    )


def rt_extension() -> Extension | None:
    files = sources(
        "ext/aten/*.cpp",
        "ext/guard/*.cpp",
        "ext/launch/*.cpp",
        "ext/scm/*.cpp",
        "ext/modules/rt.cpp",
        "ext/compat/*.cpp",
    )
    if not files or ONLY_CORE:
        return None
    torch = package_folder("torch")
    if torch is None:
        raise SystemExit(
            f"trident_hook: building needs PyTorch in this Python ({sys.executable}).\n"
            "Install torch>=2.11 first, then: pip install --no-build-isolation ."
        )
    # -isystem: their warnings are not ours to fix. cuda.h comes with Triton's wheel.
    foreign = [torch / "include", torch / "include/torch/csrc/api/include"]
    macros = [("TORCH_EXTENSION_NAME", "_rt"), ("TORCH_API_INCLUDE_EXTENSION_H", None)]
    if triton := package_folder("triton"):
        foreign.append(triton / "backends/nvidia/include")
    if (tvm_ffi := package_folder("tvm_ffi")) and (tvm_ffi / "include").is_dir():
        foreign.append(tvm_ffi / "include")
        macros.append(("TDH_HAVE_TVM_FFI", "1"))
    return Extension(
        "trident_hook._rt",
        files,
        include_dirs=["ext"],
        define_macros=macros,
        extra_compile_args=["-std=c++20", *COMMON, *(f"-isystem{path}" for path in foreign)],
        # No rpath: torch is imported first, so the loader finds its libraries already in the process.
        library_dirs=[str(torch / "lib")],
        libraries=["c10", "torch", "torch_cpu", "torch_python"],
        language="c++",
    )


def ffi_extension() -> Extension | None:
    """None where there are no headers of apache-tvm-ffi: the package then works without that door."""
    torch, tvm_ffi = package_folder("torch"), package_folder("tvm_ffi")
    files = sources("ext/ffi/*.cpp", "ext/modules/ffi.cpp")
    if ONLY_CORE or not files or torch is None or tvm_ffi is None or not (tvm_ffi / "include").is_dir():
        return None
    foreign = [torch / "include", torch / "include/torch/csrc/api/include", tvm_ffi / "include"]
    return Extension(
        "trident_hook._ffi",
        files,
        include_dirs=["ext"],
        define_macros=[("TORCH_EXTENSION_NAME", "_ffi"), ("TORCH_API_INCLUDE_EXTENSION_H", None)],
        extra_compile_args=["-std=c++20", *COMMON, *(f"-isystem{path}" for path in foreign)],
        # No rpath: torch and tvm_ffi are imported first.
        library_dirs=[str(torch / "lib"), str(tvm_ffi / "lib")],
        libraries=["c10", "torch", "torch_cpu", "torch_python", "tvm_ffi"],
        language="c++",
    )


def package_folder(name: str) -> Path | None:
    """Found without importing it: a build needs the headers of torch, not two seconds of its start-up."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def torch_version() -> str:
    """Also without importing it."""
    folder = package_folder("torch")
    text = (folder / "version.py").read_text() if folder else ""
    found = re.search(r"^__version__ *= *['\"]([^'\"]+)", text, re.MULTILINE)
    return found[1] if found else ""


class ParallelBuildExt(build_ext):
    """Compiles the files of an extension side by side, and only those whose inputs changed.

    torch's BuildExtension would need ninja for that and would compile our C with a C++ compiler.
    """

    def build_extension(self, ext: Extension) -> None:
        jobs = int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1)
        base = [*self.compiler_command(ext), *self.preprocessor_flags(ext), *ext.extra_compile_args]
        work = [(source, self.object_path(ext, source)) for source in ext.sources]
        stale = [(source, obj) for source, obj in work if self.force or not up_to_date(obj, base)]
        if stale:
            print(f"{ext.name}: compiling {len(stale)} of {len(work)} files, {min(jobs, len(stale))} at a time")
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            list(pool.map(lambda pair: compile_one(base, *pair), stale))
        target = Path(self.get_ext_fullpath(ext.name))
        objects = [str(obj) for _, obj in work]
        if stale or not target.exists() or any(Path(o).stat().st_mtime > target.stat().st_mtime for o in objects):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)  # a new inode: a process that has the old file mapped keeps it
            self.compiler.link_shared_object(
                objects,
                str(target),
                libraries=self.get_libraries(ext),
                library_dirs=ext.library_dirs,
                extra_postargs=ext.extra_link_args,
                build_temp=self.build_temp,
                target_lang=ext.language,
            )
        if ext.name == "trident_hook._rt":
            target.with_name(BUILT_WITH).write_text(torch_version())

    def copy_extensions_to_source(self) -> None:
        super().copy_extensions_to_source()
        built = Path(self.build_lib) / "trident_hook" / BUILT_WITH
        if built.exists():
            (ROOT / "trident_hook" / BUILT_WITH).write_text(built.read_text())

    def compiler_command(self, ext: Extension) -> list[str]:
        if ext.language == "c++":
            command = getattr(self.compiler, "compiler_so_cxx", None)
            return list(command) if command else ["c++", *self.compiler.compiler_so[1:]]
        return list(self.compiler.compiler_so)

    def preprocessor_flags(self, ext: Extension) -> list[str]:
        flags = [f"-D{name}" if value is None else f"-D{name}={value}" for name, value in ext.define_macros]
        return flags + [f"-I{path}" for path in [*ext.include_dirs, *self.include_dirs]]

    def object_path(self, ext: Extension, source: str) -> Path:
        return Path(self.build_temp) / ext.name / Path(source).with_suffix(".o")


def up_to_date(obj: Path, base: list[str]) -> bool:
    command, depfile = obj.with_suffix(".cmd"), obj.with_suffix(".d")
    if not (obj.exists() and command.exists() and depfile.exists() and command.read_text() == shlex.join(base)):
        return False
    inputs = depfile.read_text().replace("\\\n", " ").split(":", 1)[-1].split()
    built = obj.stat().st_mtime
    return all(os.path.exists(path) and os.path.getmtime(path) <= built for path in inputs)


def compile_one(base: list[str], source: str, obj: Path) -> None:
    obj.parent.mkdir(parents=True, exist_ok=True)
    obj.unlink(missing_ok=True)
    command = [*base, "-MMD", "-MF", str(obj.with_suffix(".d")), "-c", source, "-o", str(obj)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.stderr:
        print(done.stderr, file=sys.stderr, end="")
    if done.returncode:
        raise SystemExit(f"trident_hook: {source} did not compile; the command was:\n{shlex.join(command)}")
    obj.with_suffix(".cmd").write_text(shlex.join(base))


os.chdir(ROOT)  # relative source paths keep machine paths out of objects and wheels
extensions = [ext for ext in (core_extension(), rt_extension(), ffi_extension()) if ext is not None]

# Headers that generated modules include, and the simulated driver's sources, live in ext/ but are installed as package
# folders. In place, and in an editable install, they are simply read from ext/.
package_dir = {}
if not {"editable_wheel", "develop"} & set(sys.argv):
    package_dir = {"trident_hook._include": "ext/abi", "trident_hook._simcuda": "ext/simcuda"}
    package_dir = {name: path for name, path in package_dir.items() if (ROOT / path).is_dir()}

setup(
    packages=[*find_packages(include=["trident_hook", "trident_hook.*"]), *package_dir],
    package_dir=package_dir,
    package_data={
        "trident_hook": ["py.typed", "**/*.pyi"],
        "trident_hook._include": ["*.h", "*.pxd"],
        "trident_hook._simcuda": ["*.c", "*.h", "*.cpp", "*.map"],
    },
    include_package_data=False,  # exactly the above: MANIFEST.in is about the source distribution
    ext_modules=extensions,
    cmdclass={"build_ext": ParallelBuildExt},
)
