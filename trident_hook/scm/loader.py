"""Loads a compiled SCM. Each load is a private copy: two functions may generate the same text, and their modules
must not share static data."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import tempfile

from .._logs import log
from ..runtime import callbacks
from ..runtime.watching import Environment
from . import cache

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
        return _import(generated.module_name, cache.compiled(generated))


def _import(name: str, content: bytes):
    handle, private = tempfile.mkstemp(suffix=".so", prefix="trident_hook_")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        loader = importlib.machinery.ExtensionFileLoader(name, private)
        spec = importlib.util.spec_from_file_location(name, private, loader=loader)
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        return module
    finally:
        with contextlib.suppress(OSError):
            os.unlink(private)  # stays mapped while the process lives
