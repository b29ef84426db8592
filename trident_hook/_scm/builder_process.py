"""Builds in a process of their own, at low priority. Cython is Python: on a thread of the program it would ask for the GIL
for seconds, and every launch that lets the GIL go would wait for it. Whoever waits here holds no GIL.

The process is started by the first background build, ended when nothing was built for a while, and ends by itself when
the program does, however that ends. One that dies gets one successor; after that, builds are made in the program.
What runs there is builder_main.py."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from .._config import config
from .._logs import log
from ..errors import BuildError
from . import compiler

#: Seconds without a build after which it is ended: it may hold 200 MB, and a program may wait for all of its children.
IDLE_S = 60
_START_S = 60
_CHECK_S = 5
_DEADLINE_S = 3 * compiler.TIMEOUT_S + 300  # the C compiler runs at most twice, and links
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)

_lock = threading.Lock()  # one build at a time
_running: _Builder | None = None
_given_up = False  # it cannot be started, or does not stay alive
_ending = False  # the program is


def build(pyx: Path, linked: list[Path], target: Path) -> bool:
    """`native_module.build` in the build process. False: there is none, it has to be done here. Raises BuildError."""
    global _given_up
    if _given_up or not sys.executable or getattr(sys, "frozen", False):
        return False
    request = {"pyx": str(pyx), "linked": [*map(str, linked)], "target": str(target), "settings": _settings()}
    with _lock:
        answer = _ask(request)
        if "gone" in answer:
            answer = _ask(request)
        if "gone" in answer and -answer["status"] not in _CRASHES:
            log("build", "builds are made in the program from now on")
            _given_up = True
            return False
    if "built" in answer:
        return True
    if "error" in answer:
        raise BuildError(*answer["error"])
    if "gone" in answer:  # as the program would if it did the same
        fault = f"the build process crashed (signal {-answer['status']})"
    else:
        log("build", "%s", answer["fault"])
        fault = answer["fault"].strip().splitlines()[-1]
    raise BuildError(fault, "a compiled module", compiler.REPORT)


def is_running() -> bool:
    return _running is not None


def end() -> None:
    """When it has not been needed for a while."""
    global _running
    with _lock:
        if _running is not None:
            _running.end()
            _running = None


def _ask(request: dict) -> dict:
    """What it answers: "built", "error" (the parts of a BuildError) or "fault" (a traceback). "gone" if it ended instead,
    with its exit status."""
    global _running
    try:
        if _ending:
            raise _Gone("not started")
        if _running is None:
            _running = _Builder()
            _running.greet()
        return _running.ask(request)
    except (_Gone, OSError) as error:
        if _ending:
            raise BuildError("the program ends", "time to build", "Nothing needs to be done.") from None
        status = _drop()
        log("build", "the build process ended (%s; exit status %d)", error, status)
        return {"gone": str(error), "status": status}
    except BaseException:
        _drop()
        raise


def _drop() -> int:
    global _running
    dropped, _running = _running, None
    return dropped.kill() if dropped is not None else 0


def _settings() -> dict:
    """What a build depends on beside its source, as it is in the program now."""
    return {
        "environment": dict(os.environ), "python_include": compiler.PYTHON_INCLUDE,
        "cache_dir": config.cache_dir and str(config.cache_dir), "cache": config.cache, "logs": sorted(config.logs),
    }  # fmt: skip


def _folder_of_cython() -> str:
    spec = importlib.util.find_spec("Cython")
    assert spec is not None, "Cython is a dependency"
    assert spec.origin is not None, "a package with an __init__.py"
    return str(Path(spec.origin).resolve().parent.parent)


class _Gone(Exception):
    """The process ended before it had answered."""


class _Builder:
    """The process and our end of the line to it, which the kernel closes when either side ends."""

    def __init__(self) -> None:
        # -I -S: nothing that the environment or site-packages would run. In a group of its own, for `kill`.
        options = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
        main = Path(__file__).with_name("builder_main.py")
        command = [sys.executable, *options, str(main), str(os.getpid()), _folder_of_cython()]
        self.line, theirs = socket.socketpair()
        try:
            self.process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, process_group=0)
        except BaseException:
            self.line.close()
            raise
        finally:
            theirs.close()

    def greet(self) -> None:
        """Until it can build."""
        try:
            greeting = self._listen(_START_S)
        except TimeoutError:
            raise _Gone(f"not ready within {_START_S} s") from None
        if "fault" in greeting:
            raise _Gone(greeting["fault"])

    def ask(self, request: dict) -> dict:
        try:
            self.line.settimeout(_DEADLINE_S)
            # Without this flag a program that has SIGPIPE at its default would end here.
            self.line.sendall(json.dumps(request).encode() + b"\n", socket.MSG_NOSIGNAL)
            return self._listen(_DEADLINE_S)
        except TimeoutError:
            raise BuildError(
                f"the build process did not answer within {_DEADLINE_S} s", "a compiled module", compiler.REPORT
            ) from None

    def _listen(self, seconds: float) -> dict:
        deadline = time.monotonic() + seconds
        self.line.settimeout(min(seconds, _CHECK_S))
        text = b""
        while not text.endswith(b"\n"):
            try:
                part = self.line.recv(1 << 16)
            except TimeoutError:
                if self._has_ended():  # a fork of the program at the wrong moment keeps its end of the line open
                    raise _Gone("it ended") from None
                if time.monotonic() > deadline:
                    raise
                continue
            if not part:
                raise _Gone("it hung up")
            text += part
        return json.loads(text)

    def _has_ended(self) -> bool:
        """Without waiting for it: until then its number is not given to another process."""
        try:
            return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def end(self) -> None:
        """Hangs up. It ends its compiler, removes what they were working on and ends. From any thread."""
        with contextlib.suppress(OSError):
            self.line.shutdown(socket.SHUT_RDWR)
        try:
            self.process.wait(2)
            self.line.close()
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> int:
        """It, and the compiler that it may have left, which removes its own files. Returns its exit status."""
        # Its number is still its own, unless the program waited for all of its children.
        with contextlib.suppress(OSError):
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            os.kill(self.process.pid, signal.SIGKILL)
            os.killpg(self.process.pid, signal.SIGTERM)
        self.line.close()
        return self.process.wait()

    def abandon(self) -> None:
        """In the child of a fork: it is the parent's."""
        self.line.close()
        self.process.returncode = 0  # nothing to wait for


def _after_fork_in_child() -> None:
    global _lock, _running
    if _running is not None:
        _running.abandon()
    _lock, _running = threading.Lock(), None


os.register_at_fork(after_in_child=_after_fork_in_child)


@atexit.register
def _end_of_program() -> None:
    """Does not wait for the lock: a build holds it."""
    global _ending
    _ending = True
    running = _running
    if running is not None:
        running.end()
