"""The slice on real hardware: what is served, what must miss, and that the answers are eager's, bit for bit."""

from __future__ import annotations

import contextlib
import gc
import threading

import pytest
import torch
from support import routes
from support.routes import counted, routed

import trident_hook
from trident_hook import _rt
from trident_hook.runtime import cubins
from trident_hook.testing import workloads

pytestmark = pytest.mark.gpu


def cuda(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def arguments(name: str, rows: int = 64):
    if name == "rms_norm":
        return cuda(rows, 128), cuda(128), 1e-5
    if name == "silu":
        return (cuda(rows * 64),)
    if name == "add":
        return cuda(rows, 128), cuda(rows, 128)
    if name == "matmul":
        return cuda(rows, 64), cuda(64, 96)
    return cuda(rows, 64), torch.rand(64, device="cuda") > 0.5, -1.0


def warm(fn, *args):
    for _ in range(3):
        routed(fn, *args, via=None)
    routed(fn, *args, via="scm")


@pytest.fixture(params=routes.DOORS)
def through(request):
    with contextlib.ExitStack() as stack:
        yield lambda fn: stack.enter_context(routes.door(request.param, routes.twin(fn)))


@pytest.mark.parametrize("name", ["rms_norm", "silu", "masked_fill", "add", "matmul"])
def test_a_thousand_warm_calls_are_a_thousand_hits(through, name):
    fn, args = through(getattr(workloads, name)), arguments(name)
    warm(fn, *args)
    with counted(fn) as added:
        for _ in range(1000):
            fn(*args)
    torch.cuda.synchronize()
    assert (added["hits"], added["misses"], added["errors"], added["bypasses"]) == (1000, 0, 0, 0)
    assert (added["delegated"], added["python"], added["rt_launch"]) == (0, 0, 1000)


@pytest.mark.parametrize("name", ["rms_norm", "silu", "masked_fill"])
def test_shapes_become_symbolic(through, name):
    fn = through(getattr(workloads, name))
    for rows in (64, 32):
        warm(fn, *arguments(name, rows))
    for rows in (16, 48, 96, 128, 80):  # multiples of 16: other sizes are other binaries
        routed(fn, *arguments(name, rows), via="scm")
    assert len(trident_hook.explain(fn).specializations) == 2


def test_what_must_miss(through):
    fn = through(workloads.silu)
    x = cuda(4096)
    warm(fn, x)
    routed(fn, x.half(), via="dynamo")
    routed(fn, x.half(), via="scm")
    routed(fn, x.bfloat16(), via="dynamo")
    routed(fn, cuda(4097)[1:], via="dynamo")  # misaligned
    routed(fn, cuda(4097)[1:], via="scm")
    routed(fn, x, via="scm")
    routed(fn, cuda(0), via=None)
    routed(fn, cuda(1), via=None)
    routed(fn, torch.nn.Parameter(x), via=None)
    routed(fn, x, via="scm")


def test_a_cpu_tensor_is_refused_as_triton_refuses_it(through):
    fn = through(workloads.silu)
    x = cuda(4096)
    warm(fn, x)
    routed(fn, x.cpu(), via=None, raises=ValueError)
    routed(fn, x, via="scm")


def test_the_current_stream_is_used(through):
    fn = through(workloads.silu)
    x = cuda(1 << 20)
    warm(fn, x)
    expected = workloads.silu(x)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        with counted(fn) as added:
            y = fn(x)
        assert not stream.query()  # the launch queued behind the sleep, so it went to this stream
    assert added["hits"] == 1
    stream.synchronize()
    assert torch.equal(y, expected)


def test_a_cuda_graph_of_served_calls_replays(through):
    fn = through(workloads.silu)
    x = cuda(4096)
    warm(fn, x)
    graph = torch.cuda.CUDAGraph()
    with counted(fn) as added, torch.cuda.graph(graph):
        y = fn(x)
    assert added["hits"] == 1
    for _ in range(100):
        x.copy_(cuda(4096))
        graph.replay()
        assert torch.equal(y, workloads.silu(x))


def test_a_cold_function_under_capture_behaves_as_eager_does(through):
    fn, x = through(workloads.silu), cuda(4096)
    workloads.silu(x)  # the kernel is compiled; our function is not known
    graph = torch.cuda.CUDAGraph()
    with counted(fn) as added, torch.cuda.graph(graph):
        y = fn(x)
    assert (added["python"], added["delegated"]) == (1, 0)
    graph.replay()
    assert torch.equal(y, workloads.silu(x))
    warm(fn, x)


def test_reduce_overhead_around_a_served_function():
    fn, x = trident_hook.jit(routes.twin(workloads.silu)), cuda(4096)
    warm(fn, x)

    @torch.compile(mode="reduce-overhead")
    def outer(x):
        return fn(x) + 1

    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        assert torch.allclose(outer(x), workloads.silu(x) + 1)


def test_two_threads_with_different_shapes(through):
    fn = through(workloads.rms_norm)
    for rows in (64, 32):
        warm(fn, *arguments("rms_norm", rows))
    failures = []

    def work(rows):
        x, weight, eps = arguments("rms_norm", rows)
        expected = workloads.rms_norm(x, weight, eps)
        for _ in range(300):
            got = fn(x, weight, eps)
            torch.cuda.synchronize()
            if not all(torch.equal(a, b) for a, b in zip(got, expected, strict=True)):
                failures.append(rows)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (16, 48)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_fresh_thread_has_no_context_and_is_served(through):
    fn, x = through(workloads.silu), cuda(4096)
    warm(fn, x)
    results = []
    thread = threading.Thread(target=lambda: results.append(fn(x)))
    thread.start()
    thread.join()
    assert torch.equal(results[0], workloads.silu(x))


def test_memory_and_handles_do_not_grow(through):
    fn, args = through(workloads.rms_norm), arguments("rms_norm")
    warm(fn, *args)
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(), _rt.live_handles()
    for _ in range(20_000):
        fn(*args)
    torch.cuda.synchronize()
    assert (torch.cuda.memory_allocated(), _rt.live_handles()) == before


def test_peak_memory_is_at_most_eagers(through):
    fn, args = through(workloads.rms_norm), (cuda(1 << 14, 128), cuda(128), 1e-5)
    warm(fn, *args)

    def peak(call):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        call(*args)
        return torch.cuda.max_memory_allocated()

    assert peak(fn) <= peak(workloads.rms_norm)


def test_one_load_per_binary_and_device():
    x = cuda(4096)
    first, second = (trident_hook.jit(routes.twin(workloads.silu)) for _ in range(2))
    warm(first, x)
    loads = cubins.stats()
    warm(second, x)
    assert cubins.stats() == loads or cubins.stats()["loads"] == loads["loads"]


def test_a_launch_error_is_raised_and_the_function_stays_usable(through):
    fn, x = through(workloads.silu), cuda(4096)
    warm(fn, x)
    with pytest.raises((AttributeError, TypeError)):
        fn("not a tensor")
    routed(fn, x, via="scm")


def test_an_illegal_grid_is_left_to_triton(through):
    fn = through(workloads.matmul)
    for rows in (64, 32, 48):
        warm(fn, *arguments("matmul", rows))
    routed(fn, cuda(0, 64), cuda(64, 96), via=None)


def test_autocast_and_grad_mode_miss(through):
    fn, x = through(workloads.silu), cuda(4096)
    warm(fn, x)
    with torch.no_grad():
        routed(fn, x, via="dynamo")
        routed(fn, x, via="scm")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        routed(fn, x, via="dynamo")
        routed(fn, x, via="scm")
    routed(fn, x, via="scm")


def test_the_profiler_sees_the_kernel(through):
    fn, x = through(workloads.silu), cuda(4096)
    warm(fn, x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        fn(x)
        torch.cuda.synchronize()
    names = [event.name for event in profile.events()]
    assert any("silu" in name for name in names), names


def test_a_second_device_is_another_specialization(through):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU only")
    fn, x = through(workloads.silu), cuda(4096)
    warm(fn, x)
    with torch.cuda.device(1):
        y = torch.randn(4096, device="cuda:1")
        routed(fn, y, via="dynamo")
        routed(fn, y, via="scm")
        for _ in range(50):
            routed(fn, torch.randn(4096, device="cuda:1"), via="scm")
            with torch.cuda.device(0):
                routed(fn, cuda(4096), via="scm")
