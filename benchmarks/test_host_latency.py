"""pytest-benchmark rows over the same callables as host_latency.py (which makes the committed ratios, interleaved).

pytest benchmarks --benchmark-enable --benchmark-json=out.json
"""

from __future__ import annotations

import pytest

from benchmarks import rivals
from benchmarks.device import simulated, synchronize, without_interpretation
from benchmarks.timing import warm

ROUNDS, WARM = 200, 5


@pytest.fixture(scope="module", params=["rms_norm", "silu"])
def work(request):
    import trident_hook

    trident_hook.config.build = "sync"
    return next(w for w in rivals.workloads() if w.name == request.param)


@pytest.fixture(params=[*rivals.EVERYWHERE, *rivals.GPU_ONLY], ids=lambda make: make.__name__)
def rival(request, work):
    if request.param in rivals.GPU_ONLY and simulated():
        pytest.skip("Inductor needs a CUDA device to run Triton kernels")
    with without_interpretation():
        made = request.param(work)
        with made.scope():
            warm(made, work.args)
            yield made


def _run(benchmark, rival, work, clock: str, target) -> None:
    benchmark.group = f"{work.name} {clock}" + (" (simulated driver)" if simulated() else "")
    benchmark.extra_info["rival"] = rival.name
    rival.begin_route()
    # setup runs outside the timed part: the device is idle before each call.
    benchmark.pedantic(target, setup=lambda: (synchronize(), (work.args, {}))[1], rounds=ROUNDS, warmup_rounds=WARM)
    calls = 1 if benchmark.disabled else ROUNDS + WARM
    benchmark.extra_info["route"] = rival.assert_route(calls)


def test_host(benchmark, rival, work):
    _run(benchmark, rival, work, "host", rival.call)


@pytest.mark.skipif("not __import__('torch').cuda.is_available()", reason="end to end needs a CUDA device")
def test_e2e(benchmark, rival, work):
    def call_and_wait(*args):
        result = rival.call(*args)
        synchronize()
        return result

    _run(benchmark, rival, work, "e2e", call_and_wait)
