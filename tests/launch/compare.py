"""The same call through Triton's own launcher and through a specialization: what reached the driver, side by side.

A function under comparison returns every tensor that it allocates, so that pointers into its own results can be told
from wrong ones; everything else is compared byte for byte."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import zlib

import torch
import triton
import triton.testing
from support.routes import twin

import trident_hook
from trident_hook.testing import simdriver


@dataclasses.dataclass
class Verdict:
    """What became of a call that was made until a specialization should serve it."""

    served: bool
    reason: str = ""  # why not
    launches: int = 0


class Differs(AssertionError):
    pass


def launches_of(call) -> tuple[object, list]:
    """The call's outcome (an exception counts as one), and its launches."""
    simdriver.launches.clear()
    try:
        value = call()
    except Exception as error:
        value = error
    return value, list(simdriver.launches)


def compare_call(plain, served, args: tuple, where: str = "") -> int:
    """One call each way, the second of which must be a hit with the same launches. Returns how many there were."""
    expected, theirs = launches_of(lambda: plain(*args))
    hits = trident_hook.counts(served)["hits"]
    got, ours = launches_of(lambda: served(*args))
    if trident_hook.counts(served)["hits"] != hits + 1:
        raise Differs(f"{where}: not a hit: {trident_hook.explain(served)}")
    assert_same(theirs, ours, expected, got, args, where)
    return len(ours)


def assert_same(theirs: list, ours: list, expected, got, args, where: str) -> None:
    __tracebackhide__ = True
    if isinstance(expected, Exception) or isinstance(got, Exception):
        raise Differs(f"{where}: raised\n  stock {expected!r}\n  ours  {got!r}")
    if len(theirs) != len(ours):
        raise Differs(f"{where}: Triton made {len(theirs)} launches, the specialization {len(ours)}")
    known = _tensors(args)
    for number, (a, b) in enumerate(zip(theirs, ours, strict=True)):
        a, b = _portable(a, known, _tensors(expected)), _portable(b, known, _tensors(got))
        if different := a.same(b):
            lines = [f"  {name}: stock {getattr(a, name)}, ours {getattr(b, name)}" for name in different]
            raise Differs("\n".join([f"{where}: launch {number} of {a.name} differs", *lines]))


def _tensors(value) -> list:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in _tensors(item)] if isinstance(value, (tuple, list)) else []


def _portable(launch, known: list, results: list):
    """Pointers into memory that the call itself allocated are written as (result number, offset)."""
    arguments = {t.untyped_storage().data_ptr() for t in known}
    ranges = []
    for number, tensor in enumerate(results):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in arguments:
            ranges.append((number, storage.data_ptr(), storage.data_ptr() + max(1, storage.nbytes())))

    def portable(raw: bytes):
        address = int.from_bytes(raw, "little")
        for number, low, high in ranges:
            if len(raw) == 8 and low <= address < high:
                return (number, address - low)
        return raw

    return dataclasses.replace(launch, params=tuple(map(portable, launch.params)))


def judge(fn, args: tuple, before=None) -> Verdict:
    """Serves a fresh twin of `fn`, and compares its first hit. `before(served)`: earlier calls, on other arguments."""
    served, plain = trident_hook.jit(twin(fn)), twin(fn)
    if before is not None:
        before(served)
    plain(*args)  # tunes what Triton has to tune
    served(*args)
    counts = trident_hook.counts(served)
    _, launches = launches_of(lambda: served(*args))
    if trident_hook.counts(served)["hits"] != counts["hits"] + 1:
        explanation = trident_hook.explain(served)
        return Verdict(False, "; ".join(explanation.refusals) or f"missed: {explanation.last_miss}", len(launches))
    python = _native_python_launches()
    count = compare_call(plain, served, args, fn.__name__)
    if _native_python_launches() != python:
        return Verdict(False, "launched through Triton inside a hit", count)
    return Verdict(True, "", count)


def _native_python_launches() -> int:
    from trident_hook import _rt

    return _rt.counters()["launch_python"]


@contextlib.contextmanager
def stable_tuning():
    """An autotuner's measurement that is a number of the config's own: it chooses the same one wherever it is asked,
    and not simply the first."""

    def measure(call, quantiles=None, **_):
        call()
        config = inspect.getclosurevars(call).nonlocals["config"]
        time = 1.0 + zlib.crc32(repr(sorted(config.all_kwargs().items())).encode()) / 2**32
        return [time] * len(quantiles) if quantiles is not None else time

    before = simdriver._benchmark, triton.testing.do_bench  # the second where a tuner was given warmup or rep
    simdriver._benchmark = triton.testing.do_bench = measure
    try:
        yield
    finally:
        simdriver._benchmark, triton.testing.do_bench = before
