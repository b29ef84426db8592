"""Named ranges in traces of the PyTorch profiler, one for each call of a served function. Off unless asked for, and then
without any cost: the doors call the module itself."""

from __future__ import annotations

import os
import threading
import weakref

from . import _core

_lock = threading.RLock()
_on = False
#: id of a code object -> (weak reference to it, to its module, its name), of every function that is served
_served: dict[int, tuple[weakref.ref, weakref.ref, str]] = {}


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def ranges(on: bool = True) -> None:
    """From now on every call that reaches a specialization is in a range `trident_hook: NAME` (`on=False`: no more).
    Calls that are under way are not changed. Python frames of a served function do not run, so without ranges a trace
    shows its operators and kernels alone."""
    global _on
    with _lock:
        _on = on
        for code_reference, module_reference, name in list(_served.values()):
            code, module = code_reference(), module_reference()
            if code is not None and module is not None and _core.entry_record(code) is not None:
                _core.entry_scm_set(code, _presented(code, module, name))


def presented(code, module, name: str):
    """What the doors of `code` are given for its module; called when that is new."""
    with _lock:
        for key in [key for key, (reference, *_) in _served.items() if reference() is None]:
            del _served[key]
        _served[id(code)] = weakref.ref(code), weakref.ref(module), name
        return _presented(code, module, name)


def _presented(code, module, name: str):
    return _Ranged(code, module, name) if _on else module


class _Ranged:
    def __init__(self, code, module, name: str) -> None:
        from . import _rt

        self.module = module
        shown = name.encode("utf-8", "backslashreplace").decode()  # UTF-8 does not hold every name
        self.__tdh_scm__ = _rt.scm_ranged(module.__tdh_scm__, code, f"trident_hook: {shown}")
