"""Compile ``trident_hook._core`` and the tests' fake SCM for the running interpreter, with nothing but a C compiler.

The hook tests run on every supported CPython, also where neither PyTorch nor setuptools is installed. They use the
extension that lies in the tree if it is newer than its sources, and otherwise build one in a temporary folder.

    python tests/hook/build_core.py            # print the path of a usable _core, building it if need be
    python tests/hook/build_core.py --in-place # (re)build trident_hook/_core.<abi>.so
"""

import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXT = ROOT / "ext"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
IN_PLACE = ROOT / "trident_hook" / f"_core{SUFFIX}"
CFLAGS = ["-std=c11", "-O2", "-g", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"]


def core_sources():
    return [
        EXT / "modules" / "core.c",
        *sorted(p for part in ("hook", "table", "door") for p in (EXT / part).glob("*.c")),
    ]


def core_dependencies():
    headers = [p for part in ("compat", "common", "abi", "hook", "table", "door") for p in (EXT / part).glob("*.h")]
    return core_sources() + sorted(headers)


def compile_extension(sources, target):
    """Compile ``sources`` into ``target``. Written aside and renamed: another process may have the old one loaded."""
    includes = [f"-I{EXT}", f"-I{EXT / 'abi'}", f"-I{sysconfig.get_path('include')}"]
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    extra = shlex.split(os.environ.get("TDH_TEST_CFLAGS", ""))
    scratch = target.with_name(f"{target.name}.{os.getpid()}")
    command = [*compiler, *CFLAGS, *extra, *includes, "-shared", *map(str, sources), "-o", str(scratch)]
    subprocess.run(command, check=True)
    os.replace(scratch, target)
    return target


def build_cached(name, sources, dependencies):
    digest = hashlib.sha256((sys.version + repr(CFLAGS) + os.environ.get("TDH_TEST_CFLAGS", "")).encode())
    for path in dependencies:
        digest.update(path.read_bytes())
    folder = Path(tempfile.gettempdir()) / f"trident_hook-tests-{os.getuid()}" / digest.hexdigest()[:16]
    target = folder / f"{name}{SUFFIX}"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        compile_extension(sources, target)
    return target


def core_path():
    dependencies = core_dependencies()
    if os.environ.get("TDH_TEST_CFLAGS"):  # assertions, sanitizers: a build of its own
        return build_cached("_core", core_sources(), dependencies)
    if IN_PLACE.exists() and IN_PLACE.stat().st_mtime >= max(p.stat().st_mtime for p in dependencies):
        return IN_PLACE
    return build_cached("_core", core_sources(), dependencies)


def fake_scm_path():
    sources = [HERE / "fake_scm.c"]
    return build_cached("fake_scm", sources, sources + [EXT / "compat" / "py.h", EXT / "abi" / "tdh_scm.h"])


def load(name, path):
    """Import the extension at ``path`` as top-level module ``name``, without its package."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module


def load_core():
    return load("_core", core_path())


def load_fake():
    return load("fake_scm", fake_scm_path())


if __name__ == "__main__":
    print(compile_extension(core_sources(), IN_PLACE) if "--in-place" in sys.argv[1:] else core_path())
