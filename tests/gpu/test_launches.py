"""Launches on real hardware: devices, streams, graphs, tools that watch launches, errors of the driver."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap

import pytest
import torch
import triton
import triton.language as tl
from support import processes
from support.adding import add_number, adding
from support.routes import counted, routed, twin, warm
from triton import knobs

import trident_hook
from trident_hook.runtime import cubins
from trident_hook.testing import workloads

pytestmark = pytest.mark.gpu


# -- devices and streams


def peers() -> None:
    """Two GPUs that can read each other's memory; PyTorch allows it at the first copy."""
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU only")
    if not (torch.cuda.can_device_access_peer(0, 1) and torch.cuda.can_device_access_peer(1, 0)):
        pytest.skip("the GPUs cannot read each other's memory")
    for one, other in ((0, 1), (1, 0)):
        torch.ones(1, device=f"cuda:{one}").to(f"cuda:{other}")


def synchronize() -> None:
    for index in range(torch.cuda.device_count()):
        torch.cuda.synchronize(index)


def test_devices_and_streams_alternate():
    """One load on each device, whatever the order; each launch on the stream that is current there."""
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU only")
    fn, before = adding(1001), cubins.stats()["loads"]
    inputs = [torch.randn(1 << 20, device=f"cuda:{index}") for index in (0, 1)]
    for index in (0, 1):
        with torch.cuda.device(index):
            warm(fn, inputs[index])
    streams = [[torch.cuda.current_stream(index), torch.cuda.Stream(index)] for index in (0, 1)]
    synchronize()
    with counted(fn) as added:
        for step in range(40):
            index, stream = step % 2, streams[step % 2][step // 2 % 2]
            with torch.cuda.device(index), torch.cuda.stream(stream):
                y = fn(inputs[index])
                assert (torch.cuda.current_device(), y.device.index) == (index, index)
            assert torch.cuda.current_device() == 0
            synchronize()
            assert torch.equal(y, inputs[index] + 1001)
    assert (added["hits"], added["misses"], added["rt_launch"]) == (40, 0, 40)
    assert cubins.stats()["loads"] == before + 2


@pytest.mark.parametrize("current", [0, 1])
def test_the_stream_of_the_current_device_is_used(current):
    """It is held up, and the launch waits behind it."""
    if current >= torch.cuda.device_count():
        pytest.skip("one GPU only")
    fn = adding(1002)
    with torch.cuda.device(current):
        x = torch.randn(4096, device="cuda")
        warm(fn, x)
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            y = fn(x)
            assert not stream.query()
        stream.synchronize()
        assert torch.equal(y, x + 1002)


def test_tensors_on_a_device_that_is_not_current():
    """Triton launches on the current device, with pointers to the other one's memory; so do hits."""
    peers()
    fn = adding(1003)
    x = torch.randn(4096, device="cuda:0")
    warm(fn, x)
    with torch.cuda.device(1):
        expected = twin(fn)(x)
        synchronize()  # PyTorch's streams of device 0 do not wait for the launch
        assert expected.device.index == 0
        for hits in (0, 1, 1):
            with counted(fn) as added:
                got = fn(x)
            synchronize()
            assert torch.equal(got, expected)
            assert added["hits"] == hits
            assert torch.cuda.current_device() == 1
    routed(fn, x, via="scm")
    assert torch.cuda.current_device() == 0


_FOREIGN = """
    import torch, trident_hook
    from trident_hook.testing import workloads

    fn = SERVED
    x = torch.zeros(1024, device="cuda:0")
    for _ in range(3):
        fn(x)
    torch.cuda.synchronize(0)
    try:
        with torch.cuda.device(1):
            fn(x)
            torch.cuda.synchronize()
        print("fine", torch.cuda.current_device())
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
"""


def test_memory_that_the_current_device_may_not_read():
    """No copy has allowed it. Each way in a process of its own, since the error stays."""
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU only")
    program = textwrap.dedent(_FOREIGN)
    answers = [
        processes.run("-c", program.replace("SERVED", how), TRIDENT_HOOK_BUILD="sync")[0].strip().splitlines()[-1]
        for how in ("workloads.silu", "trident_hook.jit(workloads.silu)")
    ]
    assert answers[0] == answers[1]


_CONTEXTS = """
    import torch
    from cuda.bindings import driver
    import trident_hook
    from trident_hook.testing import workloads

    fn, x = trident_hook.jit(workloads.silu), torch.zeros(4096, device="cuda:0")
    before = driver.cuCtxGetCurrent()
    for _ in range(5):
        fn(x)
    torch.cuda.synchronize()
    assert trident_hook.counts(fn)["hits"] == 4
    assert int(driver.cuCtxGetCurrent()[1]) == int(before[1])
    print([driver.cuDevicePrimaryCtxGetState(i)[2] for i in range(torch.cuda.device_count())])
"""


def test_no_device_is_made_current_behind_the_users_back():
    """No context comes to be on a device that nobody used."""
    out, _ = processes.run("-c", textwrap.dedent(_CONTEXTS), TRIDENT_HOOK_BUILD="sync")
    active = json.loads(out.strip().splitlines()[-1])
    assert active == [1] + [0] * (torch.cuda.device_count() - 1)


def test_an_external_stream_and_the_legacy_default():
    fn = adding(1004)
    x = torch.randn(4096, device="cuda")
    warm(fn, x)
    own = torch.cuda.Stream()
    for stream in (torch.cuda.ExternalStream(own.cuda_stream), torch.cuda.default_stream()):
        with torch.cuda.stream(stream), counted(fn) as added:
            y = fn(x)
        torch.cuda.synchronize()
        assert added["hits"] == 1
        assert torch.equal(y, x + 1004)


# -- graphs


def test_a_binary_that_is_first_loaded_under_capture():
    """The module is in place, its CUBIN is not on the device yet: loading is not part of the graph."""
    fn, x = adding(1005), torch.randn(4096, device="cuda")
    routed(fn, x, via="dynamo")
    loads, graph = cubins.stats()["loads"], torch.cuda.CUDAGraph()
    with counted(fn) as added, torch.cuda.graph(graph):
        y = fn(x)
    assert added["hits"] == 1
    assert cubins.stats()["loads"] == loads + 1
    for _ in range(100):
        x.copy_(torch.randn_like(x))
        graph.replay()
        assert torch.equal(y, x + 1005)


def test_an_autotuned_function_in_a_graph():
    fn, a, b = (
        trident_hook.jit(twin(workloads.matmul)),
        torch.randn(64, 48, device="cuda"),
        torch.randn(48, 32, device="cuda"),
    )
    warm(fn, a, b)
    graph = torch.cuda.CUDAGraph()
    with counted(fn) as added, torch.cuda.graph(graph):
        c = fn(a, b)
    assert added["hits"] == 1
    for _ in range(100):
        a.copy_(torch.randn_like(a))
        graph.replay()
        assert torch.equal(c, workloads.matmul(a, b))


# -- tools


def test_launch_hooks_see_launches():
    fn, x, seen = adding(1006), torch.randn(4096, device="cuda"), []
    warm(fn, x)
    enter = lambda metadata: seen.append(("enter", metadata.get()["name"]))
    leave = lambda metadata: seen.append(("exit", metadata.get()["name"]))
    knobs.runtime.launch_enter_hook.add(enter)
    knobs.runtime.launch_exit_hook.add(leave)
    try:
        with counted(fn) as added:
            y = fn(x)
    finally:
        knobs.runtime.launch_enter_hook.remove(enter)
        knobs.runtime.launch_exit_hook.remove(leave)
    assert torch.equal(y, x + 1006)
    assert (added["hits"], added["bypasses"]) == (0, 1)
    assert seen == [("enter", "add_number"), ("exit", "add_number")]
    routed(fn, x, via="scm", launches=1)
    assert len(seen) == 2


@pytest.mark.parametrize("hook", [None, "triton"])
def test_proton_sees_every_launch(tmp_path, hook):
    """With its launch hook, calls take their previous path; without it, the driver tells it of native launches."""
    proton = pytest.importorskip("triton.profiler")
    fn, x = adding(1007), torch.randn(4096, device="cuda")
    warm(fn, x)
    torch.cuda.synchronize()
    try:
        session = proton.start(str(tmp_path / "profile"), hook=hook)
    except Exception as error:
        pytest.skip(f"Proton does not start here: {type(error).__name__}: {error}")
    try:
        with counted(fn) as added:
            for _ in range(10):
                fn(x)
            torch.cuda.synchronize()
    finally:
        proton.finalize(session)
    assert (added["hits"], added["bypasses"]) == ((0, 10) if hook else (10, 0))
    assert _launches_of(json.loads((tmp_path / "profile.hatchet").read_text()), "add_number") == 10
    routed(fn, x, via="scm", launches=1)


def _launches_of(tree, name: str) -> int:
    """Of the innermost frames of that name in Proton's tree."""
    if isinstance(tree, list):
        return sum(_launches_of(node, name) for node in tree)
    if not isinstance(tree, dict) or "frame" not in tree:
        return 0
    below = _launches_of(tree.get("children", []), name)
    return below or (int(tree["metrics"].get("count", 0)) if tree["frame"]["name"].startswith(name) else 0)


def test_the_profiler_counts_native_launches():
    fn, x = adding(1008), torch.randn(4096, device="cuda")
    warm(fn, x)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile, counted(fn) as added:
        for _ in range(10):
            fn(x)
        torch.cuda.synchronize()
    assert added["hits"] == 10
    assert sum(event.name == "add_number" for event in profile.events()) == 10


_BLOCKING = """
    import torch, trident_hook
    from trident_hook.testing import workloads
    fn, x = trident_hook.jit(workloads.silu), torch.randn(4096, device="cuda")
    for _ in range(5):
        y = fn(x)
    assert torch.equal(y, workloads.silu(x))
    assert trident_hook.counts(fn)["hits"] == 4
    print("fine")
"""


def test_launches_that_block():
    out, _ = processes.run("-c", textwrap.dedent(_BLOCKING), TRIDENT_HOOK_BUILD="sync", CUDA_LAUNCH_BLOCKING="1")
    assert out.strip().endswith("fine")


def test_compute_sanitizer():
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        pytest.skip("compute-sanitizer is not installed")
    import subprocess

    line = [
        tool,
        "--report-api-errors",
        "no",
        "--error-exitcode",
        "9",
        sys.executable,
        "-c",
        textwrap.dedent(_BLOCKING),
    ]
    done = subprocess.run(
        line, env=processes.environment(TRIDENT_HOOK_BUILD="sync"), capture_output=True, text=True, timeout=170
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "ERROR SUMMARY: 0 errors" in done.stdout + done.stderr


# -- errors


@triton.jit
def fill(y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, i, mask=i < n)


def filled(y, a, b):
    fill[(a, b)](y, y.numel(), BLOCK=64)
    return y


def test_a_grid_that_the_driver_refuses():
    """65536 blocks in y. Triton's error, and more; the function stays usable."""
    fn, y = trident_hook.jit(twin(filled)), torch.zeros(64, device="cuda", dtype=torch.int32)
    for a, b in ((2, 3), (4, 5), (6, 7)):
        fn(y, a, b)
    routed(fn, y, 8, 9, via="scm", launches=1)
    with pytest.raises(RuntimeError, match="invalid argument") as theirs:
        twin(fn)(y, 8, 70000)
    with counted(fn) as added, pytest.raises(RuntimeError, match="invalid argument") as ours:
        fn(y, 8, 70000)
    assert str(ours.value).startswith(str(theirs.value).splitlines()[0].rstrip())
    assert added["errors"] == 1
    assert "cuLaunchKernel returned CUDA_ERROR_INVALID_VALUE; kernel fill, grid (8, 70000, 1), device 0" in str(
        ours.value
    )
    routed(fn, y, 8, 9, via="scm", launches=1)


def test_pointers_of_pinned_and_host_memory():
    """Triton takes the first and refuses the second; so do our calls."""

    def copied(x, y):
        add_number[(32,)](x, y, x.numel(), NUMBER=1009, BLOCK=128)
        return y

    fn, x = trident_hook.jit(twin(copied)), torch.randn(4096, device="cuda")
    y = torch.empty_like(x)
    warm(fn, x, y)
    for host in (x.cpu(), y.cpu()):
        with counted(fn) as added:
            routed(fn, x, host, via=None, raises=ValueError)
        assert added["hits"] == 0
    pinned = x.cpu().pin_memory()
    for _ in range(3):
        y.zero_()
        fn(pinned, y)
        torch.cuda.synchronize()
        assert torch.equal(y, x + 1009)
    routed(fn, x, y, via="scm", launches=1)
