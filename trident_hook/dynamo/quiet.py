"""Dynamo's log during one of our captures. It warns whoever compiled something, and reports what failed with a traceback;
nobody compiled anything here, and a failed capture is no fault of the program's. What somebody asked for (TORCH_LOGS, a
logger set to a lower level) is printed as ever."""

from __future__ import annotations

import contextlib
import logging
import os
import threading

_thread = threading.local()
_ROOT = "torch"


def _admits(record: logging.LogRecord) -> bool:
    if not getattr(_thread, "quiet", False):
        return True
    return logging.getLogger(record.name).isEnabledFor(logging.INFO)


@contextlib.contextmanager
def quiet():
    """Nothing that was not asked for is logged on this thread. One capture at a time: the filters are there for its length,
    on every logger of PyTorch's, since a logger's filters do not see what its children pass on to it."""
    if os.environ.get("TORCH_LOGS") or getattr(_thread, "quiet", False):
        yield
        return
    known = logging.root.manager.loggerDict
    loggers = [known[name] for name in list(known) if name == _ROOT or name.startswith(_ROOT + ".")]
    loggers = [logger for logger in loggers if isinstance(logger, logging.Logger)]
    for logger in loggers:
        logger.addFilter(_admits)
    _thread.quiet = True
    try:
        yield
    finally:
        _thread.quiet = False
        for logger in loggers:
            logger.removeFilter(_admits)
