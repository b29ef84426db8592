"""Three functions that launch Triton kernels, run four ways: `python -m trident_hook.demo`.

Exits with 0 only if every result equalled eager's bit for bit and every warm call was served as it should be.
"""

from __future__ import annotations

import gc
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import torch

import trident_hook

TIMED_CALLS = 1000


@dataclass(frozen=True)
class Case:
    fn: Callable
    args: tuple
    other_args: list[tuple]  # the same function at other shapes


class Checks:
    """Counts what was checked; prints only what failed."""

    def __init__(self) -> None:
        self.made = 0
        self.failed: list[str] = []

    def that(self, held: bool, what: str) -> None:
        self.made += 1
        if not held:
            self.failed.append(what)
            print(f"  CHECK FAILED: {what}")


def choose_device() -> str:
    if torch.cuda.is_available():
        print(f"device: {torch.cuda.get_device_name()} (a real GPU)")
        return "cuda"
    from trident_hook.testing import simdriver

    simdriver.install()
    print("device: simulated CUDA driver, because PyTorch sees no GPU here")
    print("  Kernels are really compiled by Triton (for sm_90) and their launches recorded; Triton's interpreter")
    print("  executes them. torch.compile uses backend='eager': Inductor cannot run Triton kernels without a GPU.")
    return "cpu"


def cases(device: str) -> list[Case]:
    from trident_hook.testing.workloads import masked_fill, rms_norm, silu

    torch.manual_seed(0)
    rows, many = (1024, 4096) if device == "cuda" else (8, 256)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device)

    def mask(n: int) -> torch.Tensor:
        return torch.rand(n, device=device) > 0.5

    weight = normal(128)
    return [
        Case(
            rms_norm, (normal(rows, 128), weight, 1e-5), [(normal(n, 128), weight, 1e-5) for n in (rows // 2, 24, 40)]
        ),
        Case(silu, (normal(many),), [(normal(n),) for n in (many // 2, 96, 160)]),
        Case(masked_fill, (normal(16, 64), mask(64), -1.0), [(normal(n, 64), mask(64), -1.0) for n in (8, 24, 40)]),
    ]


@contextmanager
def launches_not_executed(device: str) -> Iterator[None]:
    """The simulated driver only checks launches in this context: timing it executing would time the interpreter."""
    if device == "cuda":
        yield
        return
    from trident_hook.testing import simdriver

    with simdriver.no_interpret(), simdriver.record(False):
        yield


def same_bits(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if (a.shape, a.stride(), a.dtype, a.device) != (b.shape, b.stride(), b.dtype, b.device):
            return False
        return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))
    if isinstance(a, (tuple, list)) and type(a) is type(b) and len(a) == len(b):
        return all(map(same_bits, a, b))
    return type(a) is type(b) and a == b


def median_host_us(fn: Callable, args: tuple) -> float:
    """Until the call returns; the device is idle before each call. The result is freed outside the timed part."""
    sync = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    times = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(TIMED_CALLS):
            sync()
            start = perf_counter_ns()
            result = fn(*args)
            times.append(perf_counter_ns() - start)
            del result
    finally:
        gc.enable()
    return statistics.median(times) / 1e3


@contextmanager
def each_way(fn: Callable, device: str) -> Iterator[list[tuple[str, Callable, Callable[[], AbstractContextManager]]]]:
    """(name, callable, scope): eager first. Nothing about `fn` or its kernels is changed for any of them."""
    compiled = torch.compile(fn) if device == "cuda" else torch.compile(fn, backend="eager")
    yield [
        ("eager", fn, nullcontext),
        ("torch.compile", compiled, nullcontext),
        ("trident_hook.jit(fn)", trident_hook.jit(fn), nullcontext),
        ("enable(), frame door", fn, lambda: enabled(fn, promote=False)),
        ("enable(), promoted", fn, lambda: enabled(fn, promote=True)),
    ]


@contextmanager
def enabled(fn: Callable, promote: bool) -> Iterator[None]:
    """Found by the hook at its first call; promote=False keeps it served through the hook (the frame door)."""
    before, trident_hook.config.promote = trident_hook.config.promote, promote
    try:
        with trident_hook.enable(include=[f"{fn.__module__}.{fn.__qualname__}"]):
            yield
    finally:
        trident_hook.config.promote = before


def compare(case: Case, device: str, checks: Checks) -> None:
    name = case.fn.__name__
    with each_way(case.fn, device) as ways:
        expected = case.fn(*case.args)
        for way, call, scope in ways[1:]:
            with scope():
                for nth in ("first", "second", "third"):  # captured, built, served
                    result, what = call(*case.args), f"{name}, {way}: the {nth} result"
                    if way != "torch.compile":
                        checks.that(same_bits(result, expected), f"{what} equals eager's bit for bit")
                    elif not same_bits(result, expected):
                        print(
                            f"  note: {what} is close to eager's but not the same bits (Inductor's own specialization)"
                        )
                        checks.that(close(result, expected), f"{what} is close to eager's")
                    else:
                        checks.that(True, what)


def close(a: Any, b: Any) -> bool:
    pairs = zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]
    return all(torch.allclose(x, y) for x, y in pairs)


def grow(case: Case, checks: Checks) -> None:
    served = trident_hook.jit(case.fn)
    steps = [f"{_shape(case.args)}: {_specializations(served)}"]
    for args in case.other_args:
        expected = case.fn(*args)
        for _ in range(2):
            checks.that(same_bits(served(*args), expected), f"{case.fn.__name__} at {_shape(args)} equals eager")
        steps.append(f"{_shape(args)}: {_specializations(served)}")
    print(f"  {case.fn.__name__:<12} {'   '.join(steps)}")
    checks.that(_specializations(served) > 1, f"{case.fn.__name__} gained a specialization for other shapes")


def measure(case: Case, device: str, checks: Checks) -> None:
    name = case.fn.__name__
    with each_way(case.fn, device) as ways, launches_not_executed(device):
        eager_us = None
        for way, call, scope in ways:
            ours = way.startswith(("trident_hook.jit", "enable()"))
            with scope():
                for _ in range(5):
                    call(*case.args)
                trident_hook.settle()
                before = dict(trident_hook.counts(call)) if ours else {}
                us = median_host_us(call, case.args)
                after = trident_hook.counts(call) if ours else {}
            eager_us = eager_us or us
            change = {key: after[key] - before.get(key, 0) for key in after}
            counted = ", ".join(f"{n} {key}" for key, n in change.items() if n or key in ("hits", "misses"))
            print(f"  {name:<12} {way:<28} {us:>9.1f} {eager_us / us:>9.2f}x   {counted or '-'}")
            if ours:
                others = {key: n for key, n in change.items() if key != "hits" and n}
                checks.that(
                    change["hits"] == TIMED_CALLS and not others,
                    f"{name}, {way}: {TIMED_CALLS} warm calls are {TIMED_CALLS} hits and nothing else, got {change}",
                )


def _specializations(fn: Callable) -> int:
    return len(trident_hook.explain(fn).specializations)


def _shape(args: tuple) -> str:
    return "x".join(map(str, args[0].shape))


def main() -> int:
    device = choose_device()
    trident_hook.config.build = "sync"  # a demonstration should not depend on when a background build ends
    checks = Checks()
    work = cases(device)

    print("\n1. Results: eager, torch.compile, trident_hook through both doors")
    for case in work:
        compare(case, device, checks)
    print(f"  {checks.made - len(checks.failed)} of {checks.made} results as they must be (ours: bit for bit)")

    print("\n2. Specializations of one function as shapes change (the first change makes a size symbolic)")
    for case in work:
        grow(case, checks)

    print(f"\n3. Host time per call, median of {TIMED_CALLS} (until the call returns)")
    if device == "cpu":
        print("  launches are checked but not executed while timing; these figures say nothing about a GPU")
    print(f"  {'function':<12} {'way':<28} {'us':>9} {'vs eager':>10}   routes of these calls")
    for case in work:
        measure(case, device, checks)

    print(f"\n{trident_hook.status()}")
    if checks.failed:
        print(f"\nFAILED: {len(checks.failed)} of {checks.made} checks did not hold:")
        print("\n".join(f"  {what}" for what in checks.failed))
        return 1
    print(f"\nall {checks.made} checks held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
