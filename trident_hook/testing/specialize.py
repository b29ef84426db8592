"""A function with many specializations, without as many builds: for tests and benchmarks."""

from __future__ import annotations

import torch
from torch._dynamo.eval_frame import reset_code

import trident_hook
from trident_hook import api
from trident_hook.config import config

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
        with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
            served = trident_hook.jit(fn)
            served(*calls[0])
            record = api.find_record(served)
            with record.locks.state:
                for args in calls[1:]:
                    reset_code(record.code)
                    served(*args)
        done = trident_hook.settle(limit)
    finally:
        config.build, config.limit, config.rebuilds = before
    if not done or len(record.specializations) != len(calls):
        raise RuntimeError(
            f"{len(record.specializations)} specializations for {len(calls)} calls: {record.refusals.counted}"
        )
    return served
