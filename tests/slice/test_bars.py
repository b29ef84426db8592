"""The bars: warm calls are hits and nothing else, through every door; a million hits leave nothing behind."""

from __future__ import annotations

import contextlib
import gc
import sys

import pytest
import torch
from support.routes import counted, routed, warm

from trident_hook import _core, _rt
from trident_hook.testing import simdriver, workloads


def arguments(name):
    x = torch.randn(4, 64)
    return {"rms_norm": (x, torch.randn(64), 1e-5), "silu": (x,), "masked_fill": (x, torch.rand(64) > 0.5, -1.0)}[name]


DEMO = ["rms_norm", "silu", "masked_fill"]


@pytest.mark.parametrize("name", DEMO)
def test_a_thousand_warm_calls_are_a_thousand_hits(through, name):
    fn, args = through(getattr(workloads, name)), arguments(name)
    warm(fn, *args)
    compiled = torch._dynamo.utils.counters["frames"]["total"]
    with counted(fn) as added, simdriver.no_interpret():
        for _ in range(1000):
            fn(*args)
    assert (added["hits"], added["misses"], added["errors"], added["bypasses"]) == (1000, 0, 0, 0)
    assert (added["delegated"], added["python"]) == (0, 0)
    assert added["frame_hits" if through.door == "frame" else "call_hits"] == 1000
    assert (added["rt_launch"], added["rt_launch_python"]) == (1000, 0)
    assert torch._dynamo.utils.counters["frames"]["total"] == compiled
    routed(fn, *args, via="scm", launches=1)


def resident_kib() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def level(args) -> dict:
    gc.collect()
    return {
        "references": [sys.getrefcount(a) for a in args],
        "handles": _rt.live_handles(),
        "alive": _core.live_counts(),
        "modules": simdriver.live_modules(),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", DEMO)
def test_a_million_hits_leak_nothing(through, name):
    fn, args = through(getattr(workloads, name)), arguments(name)
    warm(fn, *args)

    def call(times):
        for _ in range(times):
            fn(*args)

    with simdriver.no_interpret(), simdriver.record(False):
        call(20_000)  # pools and caches fill up
        before, blocks, resident = level(args), sys.getallocatedblocks(), resident_kib()
        with counted(fn) as added:
            call(1_000_000)
        after, more_blocks, more_resident = level(args), sys.getallocatedblocks(), resident_kib()
    assert (added["hits"], added["misses"]) == (1_000_000, 0)
    assert after == before
    assert more_blocks - blocks < 100, "one block in ten thousand calls would be noise; one a call is a leak"
    assert more_resident - resident < 4096, f"{more_resident - resident} KiB more after a million calls"


def test_errors_leak_nothing(through):
    from support import programs

    fn = through(programs.failing)
    x, good, bad = torch.randn(8), torch.tensor([0, 7]), torch.tensor([0, 8])
    warm(fn, x, good)
    routed(fn, x, bad, via="error", raises=IndexError)

    def call(times):
        for _ in range(times):
            with contextlib.suppress(IndexError):
                fn(x, bad)

    with simdriver.no_interpret(), simdriver.record(False):
        call(200)
        before, blocks = level((x, bad)), sys.getallocatedblocks()
        with counted(fn) as added:
            call(2_000)
        after, more_blocks = level((x, bad)), sys.getallocatedblocks()
    assert (added["errors"], added["misses"]) == (2_000, 0)
    assert after == before
    assert more_blocks - blocks < 100
