"""The headers that every generated module includes, precompiled once (GCC): a fifth of the C compiler's time.

Made in the background when a process first compiles a module, kept in the cache directory, and only ever a help: a module
that does not compile with it is compiled again without."""

from __future__ import annotations

import atexit
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from .._config import config
from .._logs import log
from . import compiler, limit, store, trusted

#: In the order of Cython's own includes. Nothing that Cython defines before them is read by them.
_HEADER = """#define PY_SSIZE_T_CLEAN
#include "Python.h"
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include "tdh_scm.h"
#include "tdh_rt.h"
#include "tdh_num.h"
#include <pythread.h>
#include <stdlib.h>
#include "compile.h"
#include "frameobject.h"
#include "traceback.h"
#include <string.h>
#include <pthread.h>
"""
_NAME = "tdh_prelude.h"

_lock = threading.Lock()
_ready: dict[str, Path] = {}  # key -> the header beside its .gch, once it is known to be there
_maker: threading.Thread | None = None
_running: subprocess.Popen | None = None
_given_up = False  # a module did not compile with it: this process makes no other


def _after_fork_in_child() -> None:
    """Who was making one stayed with the parent."""
    global _lock, _maker, _running
    _lock, _maker, _running = threading.Lock(), None, None


os.register_at_fork(after_in_child=_after_fork_in_child)


def options() -> list[str]:
    """Compiler options that use the prelude, or none while there is none. Starts making it where that is worth it."""
    global _maker
    if "clang" in compiler.compiler_version():  # has another form of precompiled headers
        return []
    key = _key()
    with _lock:
        if _given_up:
            return []
        if not config.cache or config.cache_dir is None:
            return []
        header = config.cache_dir / "prelude" / key / _NAME
        if _is_usable(header):
            _ready[key] = header
        else:
            _ready.pop(key, None)
            if _maker is None or not _maker.is_alive():
                _maker = threading.Thread(target=_make, args=(header,), name="trident_hook-prelude", daemon=True)
                _maker.start()
        return ["-include", str(_ready[key])] if key in _ready else []


def _is_usable(header: Path) -> bool:
    """Whether both files are there, and nobody else's work. The compiler then opens them by name: nobody else can have changed
    what that means."""
    try:
        with trusted.folder(header.parent) as at:
            for name in (_NAME, _NAME + ".gch"):
                trusted.check(at, name)
            store.mark_used(at, _NAME)
        return True
    except (OSError, trusted.NotTrusted):
        return False


def forget() -> None:
    """After a compile that failed with it."""
    global _given_up
    with _lock:
        _given_up = True
        for header in _ready.values():
            shutil.rmtree(header.parent, ignore_errors=True)
        _ready.clear()


def wait() -> None:
    """Until a prelude that is being made is there (or given up)."""
    maker = _maker
    if maker is not None:
        maker.join()


def _key() -> str:
    """Of all that its bytes depend on: the compiler does not notice that a header has changed since."""
    digest = hashlib.sha256()
    parts = [_HEADER, compiler.identity(), " ".join(compiler.compile_command())]
    for path in sorted(compiler.include_dir().glob("*.h")):
        parts += [path.name, path.read_text()]
    # CPython's headers by their folder and the interpreter's build: they come and go together.
    parts += [compiler.PYTHON_INCLUDE, sys.version]
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:32]


def _make(header: Path) -> None:
    global _running
    try:
        with trusted.folder(header.parent.parent, make=True) as at:
            name = limit.TEMPORARY + secrets.token_hex(8)
            trusted.make_folder(at, name)
            work = header.parent.parent / name
    except (OSError, trusted.NotTrusted) as error:
        log("build", "no precompiled header: %s", error)
        return
    try:
        (work / _NAME).write_text(_HEADER)
        command = [*compiler.compile_command(), "-x", "c-header", str(work / _NAME), "-o", str(work / (_NAME + ".gch"))]
        _running = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )  # fmt: skip
        try:
            done = _running.wait(compiler.TIMEOUT_S)
        finally:
            if _running.returncode is None:
                compiler.end(_running)
        if done == 0:
            for path in work.iterdir():
                path.chmod(0o600)
            os.replace(work, header.parent)  # both files at once
            log("build", "precompiled header %s", header.parent)
    except (OSError, subprocess.TimeoutExpired) as error:  # another process was first, or the disk is full
        log("build", "no precompiled header: %s", error)
    finally:
        _running = None
        shutil.rmtree(work, ignore_errors=True)


@atexit.register
def _stop() -> None:
    running = _running
    if running is not None:
        compiler.end(running)
        wait()
