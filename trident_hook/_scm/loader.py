"""Loads a compiled SCM. Each load is a private copy: two functions may generate the same text, and their modules
must not share static data."""

from __future__ import annotations

import fcntl
import importlib.machinery
import importlib.util
import itertools
import os

from .._logs import log
from ..errors import BuildError
from ..runtime import callbacks, interrupts
from ..runtime.watching import Environment
from . import cache, places

live = 0  # loaded SCMs whose references have not been dropped


class LoadedScm:
    """What the doors hold. The generated module's references are dropped when the last call has left it."""

    def __init__(self, generated) -> None:
        global live
        from .. import _rt

        callbacks.register()
        self.objects = list(generated.objects)
        self.sites = [_rt.op_site(op, overload, template, n) for op, overload, template, n in generated.sites]
        self.environments = [Environment(wanted) for wanted in generated.environments]
        self.plans = [environment.plan for environment in self.environments]
        loaded = _load(generated)
        self.module = loaded.__tdh_module__
        # Per specialization: the guard that failed when it was last asked.
        self.failed = loaded.__tdh_failed__.cast("i")
        with interrupts.put_off():
            self.__tdh_scm__ = _rt.scm_bind(self.module, self.objects, self.sites, self.plans, self.environments)
            self._unbind = _rt.scm_unbind
            live += 1

    def __del__(self) -> None:
        global live
        if hasattr(self, "_unbind"):
            live -= 1
            self._unbind(self.module)


def _load(generated):
    content = cache.compiled(generated)
    try:
        return _import(generated.module_name, content)
    except ImportError as error:
        log("build", "a module does not load (%s): built again", error)
        cache.forget(generated)
    try:
        return _import(generated.module_name, cache.compiled(generated))
    except ImportError as error:
        raise BuildError(
            f"the compiled module does not load: {error}", "a C compiler for this machine, and a place to load code from",
            "Set TRIDENT_HOOK_CC, or TMPDIR to a folder that is not mounted noexec.",
        ) from error  # fmt: skip


@interrupts.put_off()
def _import(name: str, content: bytes):
    """From memory; where the system does not let code be mapped from there, from a private file, wherever that is allowed."""
    try:
        return _import_from_memory(name, content)
    except (ImportError, OSError) as error:
        log("build", "a module does not load from memory: %s", error)
        failure = error
    for folder in places.scratch_folders(runs_code=True):
        private = folder / f"{name}.so"
        try:
            private.write_bytes(content)
            return _import_file(name, str(private))  # stays mapped when the file is gone
        except (ImportError, OSError) as error:
            log("build", "a module does not load from %s: %s", folder.parent, error)
    raise failure if isinstance(failure, ImportError) else ImportError(str(failure))


def _import_from_memory(name: str, content: bytes):
    handle = os.memfd_create(f"trident_hook:{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(handle, "wb", closefd=False) as out:
            out.write(content)
        fcntl.fcntl(handle, fcntl.F_ADD_SEALS, _SEALS)
        return _import_file(name, _path_of(handle))
    finally:
        os.close(handle)


_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_paths = itertools.count()


def _path_of(handle: int) -> str:
    """A path to it that was never used before: the loader takes one that it knows for the module that it loaded from there,
    and descriptors are used again. `//` and `/./` are the bits of a number, and both mean `/`."""
    number = f"{next(_paths):b}"
    return "/proc/self/fd" + "".join("/." if bit == "1" else "/" for bit in number) + f"/{handle}"


def _import_file(name: str, path: str):
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None, "a loader was given"
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
