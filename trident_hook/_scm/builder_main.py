"""What runs in the build process: requests come in on standard input, which is a socket, and answers go out on it, each a
line of JSON. Started by path, as `builder_main.py <the program's pid> <the folder that Cython is in>`; see builder_process.py.

What is used of the package must do without torch."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
import types
from pathlib import Path

_CHECK_S = 5  # how often it looks whether the program is still there, although the line has not been closed
_UNWIND_S = 5
_NICE = 5  # of a busy core, a third of what the program gets; 10 would be a tenth, and builds that take a minute

_hung_up = False


def main() -> None:
    os.nice(_NICE)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the program's thread may have had others
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by exception: compilers are ended, files removed
    program, folder_of_cython = int(sys.argv[1]), sys.argv[2]
    line = socket.socket(fileno=os.dup(0))
    requests: queue.SimpleQueue = queue.SimpleQueue()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a compiler must not hold the line open
    threading.Thread(target=_listen, args=(line, program, requests), daemon=True).start()
    try:
        native_module = _imports(folder_of_cython)
    except Exception:
        _say(line, {"fault": traceback.format_exc()})
        return
    _say(line, {"ready": True})
    while True:
        request = json.loads(requests.get())
        pyx = Path(request["pyx"])
        try:
            _say(line, _answer(native_module, request, pyx))
        finally:
            if _hung_up:  # the program may not be there to do it
                shutil.rmtree(pyx.parent, ignore_errors=True)


def _imports(folder_of_cython: str):
    """The package without its __init__, which needs torch; and Cython, before it is asked for."""
    package = types.ModuleType("trident_hook")
    package.__path__ = [str(Path(__file__).resolve().parent.parent)]
    sys.modules["trident_hook"] = package
    sys.path.append(folder_of_cython)
    import Cython.Compiler.Main  # noqa: F401

    from trident_hook._scm import native_module

    return native_module


def _answer(native_module, request: dict, pyx: Path) -> dict:
    from trident_hook.errors import BuildError

    try:
        _adopt(native_module.compiler, request["settings"])
        native_module.build(pyx, [Path(name) for name in request["linked"]], Path(request["target"]))
        return {"built": True}
    except BuildError as error:
        return {"error": [error.seen, error.expected, error.remedy]}
    except Exception:
        return {"fault": traceback.format_exc()}


def _adopt(compiler, settings: dict) -> None:
    from trident_hook._config import config

    os.environ.clear()
    os.environ.update(settings["environment"])
    compiler.PYTHON_INCLUDE = settings["python_include"]
    for name in ("cache_dir", "cache", "logs"):
        setattr(config, name, settings[name])


def _listen(line: socket.socket, program: int, requests: queue.SimpleQueue) -> None:
    """Requests, until the program hangs up or is gone: then this process ends, with the compiler that it may have started."""
    global _hung_up
    text = b""
    while os.getppid() == program:
        if not select.select([line], [], [], _CHECK_S)[0]:
            continue
        part = line.recv(1 << 16)
        if not part:
            break
        text += part
        if text.endswith(b"\n"):  # the next request comes after the answer to this one
            requests.put(text)
            text = b""
    _hung_up = True
    os.killpg(0, signal.SIGTERM)
    time.sleep(_UNWIND_S)
    os.killpg(0, signal.SIGKILL)


def _say(line: socket.socket, answer: dict) -> None:
    with contextlib.suppress(OSError):  # nobody listens: `_listen` notices, too
        line.sendall(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
