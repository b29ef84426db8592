"""enable, disable, jit: what turns the doors on and off."""

from __future__ import annotations

import functools
import os
import threading
import types
import weakref

from . import _compat, _core, _variables
from ._config import config
from ._logs import log
from ._scm import worker
from .dynamo import capturing
from .dynamo.patches import jit_function
from .errors import NotAFunctionError
from .functions.discovery import Selection, full_name, is_machinery, launches_kernels
from .functions.record import FunctionRecord
from .runtime.trusted_kernels import trust_allocations, trust_views

_lock = threading.RLock()
_selection: Selection | None = None  # of the enable() that is in force
_codes: dict[int, weakref.ref] = {}  # id(code) -> every code object that has a record


def enable(include=None, exclude=None) -> Enabled:
    """Serve functions that launch Triton kernels, wherever they are called from, until `disable()`.

    include: None for every function found; else a list of functions and of patterns like "mylib.ops.*" on
        'module.qualname'. exclude: the same, left alone. Functions that are named are served without a search.
    Returns a context manager that restores what was before. Calling it again replaces the selection.
    Raises NotAFunctionError for something in a list that is neither a function nor a string. Where the hook cannot
    run (see `status()`), or under TRIDENT_HOOK_DISABLE=1, it does nothing."""
    global _selection
    selection = Selection(_checked(include, "include"), _checked(exclude, "exclude"))
    with _lock:
        previous = _selection
        if off_reason() is None:
            _set_up()
            _selection = selection
            for code, record in _known():
                if record.launches and selection.admits(code, record.name):
                    _open_doors(code, record)
                else:
                    _close_doors(code, record)
            for function in selection.functions:
                if selection.admits(_plain(function).__code__, full_name(_plain(function))):
                    _serve(_plain(function))
            if not (selection.is_explicit and _promotes()):
                _core.discoverer_set(_discover)
                _core.hook_install()
            log("hook", "enabled, hook %s", _core.hook_state())
        return Enabled(previous)


def disable() -> None:
    """Undo `enable()`: no function is routed any more (but those of `jit`), the hook is out, every call door that
    was given is taken back. What was learned is kept for the next `enable()`. A call under way ends as it began."""
    global _selection
    with _lock:
        if _selection is None:
            return
        _selection = None
        _core.hook_remove()
        _core.discoverer_set(None)
        _core.demote_all()
        for code, record in _known():
            _close_doors(code, record)
        log("hook", "disabled, hook %s", _core.hook_state())


class Enabled:
    """What `enable()` returns: leaving it as a context manager restores the state before."""

    def __init__(self, previous: Selection | None) -> None:
        self._previous = previous

    def __enter__(self) -> Enabled:
        return self

    def __exit__(self, *exc) -> None:
        disable()
        if self._previous is not None:
            enable(self._previous.include, self._previous.exclude)

    def __repr__(self) -> str:
        return f"<trident_hook enabled, hook {_core.hook_state()}>"


def jit(fn):
    """`fn`, with its calls sent to its specialization cache module first. A decorator, also for methods.

    The result is a callable with fn's name, signature and docstring, and `__wrapped__`; fn itself stays as it is.
    Where trident_hook cannot run, or under TRIDENT_HOOK_DISABLE=1, its calls are fn's.
    Raises NotAFunctionError for anything but a plain Python function (put `jit` below staticmethod and classmethod)."""
    _check_function(fn, "trident_hook.jit()")
    if off_reason() is not None:
        return fn
    with _lock:
        _set_up()
        record_for(fn, _core.DOOR_CALL).jitted = True
    wrapper = _core.JitFunction(fn)
    return functools.update_wrapper(wrapper, fn)


def settle(timeout: float | None = None) -> bool:
    """Wait until no build is pending in the background, at most `timeout` seconds (None: as long as it takes).
    Returns False if the time ran out first; what is asked for meanwhile is waited for, too."""
    return worker.wait(timeout)


def off_reason() -> str | None:
    """Why nothing is routed in this process, or None."""
    return _variables.disabled(os.environ) or _compat.unsupported_reason()


def record_for(function, doors: int) -> FunctionRecord:
    """The record of a function's code, made if need be."""
    code = function.__code__
    record = _core.entry_record(code)
    if record is None:
        record = FunctionRecord(weakref.ref(code), full_name(function), launches=launches_kernels(function))
        _codes[id(code)] = weakref.ref(code, functools.partial(_forget, id(code)))
    return _core.entry_create(code, record, doors)


def find_record(function) -> FunctionRecord | None:
    function = getattr(function, "__wrapped__", function)
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    return None if code is None else _core.entry_record(code)


@functools.cache
def _set_up() -> None:
    from torch._C._dynamo.eval_frame import set_eval_frame

    _core.delegation_setup(set_eval_frame, _leak_repair())
    trust_allocations()
    trust_views()
    with capturing.unforked():
        jit_function.teach(_core.JitFunction)


def _leak_repair() -> int | None:
    """Address of the C function that puts Dynamo's callback right after its backend raised (see ext/table/miss.c)."""
    import ctypes
    from pathlib import Path

    import torch

    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_python.so"))
        return ctypes.cast(library.eval_frame_callback_set, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None


def _discover(function) -> None:
    """The hook shows each function once, at its first call."""
    selection = _selection
    if selection is None or is_machinery(function) or not launches_kernels(function):
        return
    if selection.admits(function.__code__, full_name(function)):
        with _lock:
            _serve(function)


def _serve(function) -> None:
    """Calls of this function are ours: through its call door at once, or through the hook."""
    record = record_for(function, 0)
    _open_doors(function.__code__, record)
    if record.refused is None and _promotes():
        _core.promote(function)
    log("hook", "serving %s", record.name)


def _open_doors(code, record: FunctionRecord) -> None:
    call = _core.DOOR_CALL if _promotes() or record.jitted else 0
    _core.entry_doors_set(code, _core.DOOR_FRAME | call)


def _close_doors(code, record: FunctionRecord) -> None:
    """What `jit` made keeps its own way in."""
    _core.entry_doors_set(code, _core.DOOR_CALL if record.jitted else 0)


def _plain(function):
    return function.__wrapped__ if isinstance(function, _core.JitFunction) else function


def _known():
    """(code, record) of every function that has a record and still exists."""
    for reference in list(_codes.values()):
        code = reference()
        record = None if code is None else _core.entry_record(code)
        if record is not None:
            yield code, record


def _after_fork_in_child() -> None:
    """A thread that is not here may be in the middle of enable(), disable() or jit(). Each of their steps can be repeated."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _forget(key: int, _reference) -> None:
    _codes.pop(key, None)


def _promotes() -> bool:
    return _compat.FUNCTIONS_CAN_BE_PROMOTED and config.promote


def _checked(items, name: str):
    if items is None:
        return None
    if isinstance(items, (str, types.FunctionType, _core.JitFunction)):
        items = [items]
    if not isinstance(items, (list, tuple, set, frozenset)):
        raise NotAFunctionError(f"trident_hook.enable({name}=...) was given {type(items).__name__}",
                                "a list of functions and patterns", "Put them into a list.")  # fmt: skip
    for item in items:
        if not isinstance(item, str):
            _check_function(getattr(item, "__wrapped__", item), f"trident_hook.enable({name}=...)")
    return list(items)


def _check_function(fn, where: str) -> None:
    if not isinstance(fn, types.FunctionType):
        raise NotAFunctionError(f"{where} was given {type(fn).__name__} {fn!r}"[:200], "a plain Python function",
                                "Pass the function itself; put it below @staticmethod, @classmethod or @triton.jit's caller.")  # fmt: skip
