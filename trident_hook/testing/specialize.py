"""A function with many specializations, without as many builds: for tests and benchmarks."""

from __future__ import annotations

import trident_hook
from trident_hook import api
from trident_hook._config import config
from trident_hook.dynamo.compile_frame import sizes_as_they_are
from trident_hook.dynamo.entries import forget

#: More than the specializations of any function here: our limits are lifted to it meanwhile.
_MANY = 1000


def specialize(fn, calls: list[tuple], limit: float = 600.0):
    """What `jit(fn)` returns, with one specialization for each tuple of arguments in `calls`, in that order. All but the
    first are built at once: the record's lock keeps the builder waiting while they are captured. Values and sizes are
    not made symbolic, and Dynamo forgets each capture, so that it does not serve a later call itself.

    Raises RuntimeError when a call brought no specialization, or the build took `limit` seconds."""
    before = config.build, config.limit, config.rebuilds
    config.build, config.limit, config.rebuilds = "background", _MANY, _MANY
    try:
        with sizes_as_they_are():
            served = trident_hook.jit(fn)
            served(*calls[0])
            record = api.find_record(served)
            assert record is not None, "jit() has made one"
            with record.locks.state:
                for args in calls[1:]:
                    forget(record.code)
                    served(*args)
        done = trident_hook.settle(limit)
    finally:
        config.build, config.limit, config.rebuilds = before
    if not done or len(record.specializations) != len(calls):
        raise RuntimeError(
            f"{len(record.specializations)} specializations for {len(calls)} calls: {record.refusals.counted}"
        )
    return served
