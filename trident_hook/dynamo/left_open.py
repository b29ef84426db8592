"""What a trace that was broken off may leave behind on its thread: modes of dispatch, dispatch keys and other state of PyTorch's,
contexts of tracing. All is noted before the trace and put back. Signals wait until a trace is over (see
`runtime/interrupts.py`); this is for what does not: an exception that another thread sends, a second Ctrl-C."""

from __future__ import annotations

import traceback

import torch
import torch._guards
import torch._ops

from .. import _rt

_MODES = (torch._C._TorchDispatchModeKey.PROXY, torch._C._TorchDispatchModeKey.FUNCTIONAL)


class ThreadState:
    """The state of the thread that makes it."""

    def __init__(self) -> None:
        self._state = _rt.thread_state()
        self._contexts = dict(vars(torch._guards._TLS))
        self._modes = [torch._ops._get_dispatch_mode_pre_dispatch(key) for key in _MODES]

    def put_back(self, error: BaseException, handled: BaseException | None) -> None:
        """Restores it after `error`; `handled` was being handled before, and is not looked behind."""
        _end_frames(error, handled)
        for key, before in zip(_MODES, self._modes, strict=True):
            if before is None and torch._ops._get_dispatch_mode_pre_dispatch(key) is not None:
                torch._ops.unset_mode_pre_dispatch(key)
        contexts = vars(torch._guards._TLS)
        contexts.clear()
        contexts.update(self._contexts)
        _rt.thread_state_restore(self._state)


def _end_frames(error: BaseException | None, handled: BaseException | None) -> None:
    """Frames that the traceback holds own context managers that were never entered or left. These act when they are freed:
    that is now, not after the state was put back."""
    seen: set[int] = set()
    while error is not None and error is not handled and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__context__
