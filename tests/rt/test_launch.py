"""Launches through the simulated driver: what arrives there is what stock Triton sends, failures say where they
happened, and a CUBIN is loaded once for each device."""

from __future__ import annotations

import ctypes as C
import struct
import threading

import pytest
import torch
import triton
import triton.language as tl

from trident_hook import _rt
from trident_hook.runtime import cubins, target
from trident_hook.runtime.launch_errors import LaunchError
from trident_hook.testing import simdriver

PDL, COOPERATIVE = 1, 2


class Kernel(C.Structure):
    """tdh_kernel of tdh_rt.h."""

    _fields_ = [
        ("cubin", C.c_char_p),
        ("cubin_size", C.c_uint64),
        ("name", C.c_char_p),
        ("shared", C.c_uint32),
        ("threads", C.c_uint32),
        ("num_ctas", C.c_uint32),
        ("flags", C.c_uint32),
        ("scratch_size", C.c_uint32 * 2),
        ("scratch_align", C.c_uint32 * 2),
        ("function", C.c_void_p * 64),
    ]


class Env(C.Structure):
    _fields_ = [("stream", C.c_void_p), ("device", C.c_int32), ("device_type", C.c_int32)]


SERVICES = [
    "tensor_read",
    "keys_apply",
    "state_read",
    "empty_strided",
    "data_ptr",
    "retain",
    "release",
    "wrap",
    "unwrap",
    "handle_read",
    "op_call",
    "launch_env",
    "kernel_function",
    "launch",
    "launch_python",
    "attr_find",
    "dict_of",
]


class Table(C.Structure):
    """tdh_rt_api of tdh_rt.h: 24 bytes of numbers and pointers, by name."""

    _fields_ = [("abi", C.c_uint32), ("size", C.c_uint32), *[(name, C.c_void_p) for name in SERVICES]]


C.pythonapi.PyCapsule_GetPointer.restype = C.c_void_p
C.pythonapi.PyCapsule_GetPointer.argtypes = [C.py_object, C.c_char_p]
table = Table.from_address(C.pythonapi.PyCapsule_GetPointer(_rt.api, b"trident_hook._rt.api"))

launch_env = C.PYFUNCTYPE(C.c_int, C.POINTER(Env))(table.launch_env)
native_launch = C.PYFUNCTYPE(
    C.c_int, C.POINTER(Kernel), C.POINTER(Env), C.c_int64, C.c_int64, C.c_int64, C.POINTER(C.c_void_p)
)(table.launch)
launch_python = C.PYFUNCTYPE(C.c_int, C.py_object, C.POINTER(C.c_void_p), C.c_int32, C.POINTER(C.c_int64), C.c_int32)(
    table.launch_python
)
unwrap = C.PYFUNCTYPE(C.c_void_p, C.py_object)(table.unwrap)


@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


@triton.jit
def matmul(a, b, c, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    for _ in tl.range(0, 4, num_stages=4):
        tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)).to(tl.float16))


@pytest.fixture(autouse=True)
def simulation():
    simdriver.install(n_devices=2)
    yield
    simdriver.launches.clear()
    simdriver.reset_counts()
    simdriver.uninstall()


def kernel_of(compiled, flags=0, num_ctas=1, **changes):
    cubin = compiled.asm["cubin"]
    values = {
        "cubin": cubin,
        "cubin_size": len(cubin),
        "name": compiled.metadata.name.encode(),
        "shared": compiled.metadata.shared,
        "threads": compiled.metadata.num_warps * 32,
        "num_ctas": num_ctas,
        "flags": flags,
    }
    kernel = Kernel(**{**values, **changes})
    kernel.keep = cubin
    return kernel


def launch(kernel, grid, *packed):
    env = Env()
    assert launch_env(C.byref(env)) == 0
    buffers = [C.create_string_buffer(value, len(value)) for value in (*packed, bytes(8), bytes(8))]
    params = (C.c_void_p * len(buffers))(*[C.addressof(buffer) for buffer in buffers])
    return native_launch(C.byref(kernel), C.byref(env), *grid, params)


def pointer(tensor):
    return struct.pack("Q", tensor.data_ptr())


x = torch.arange(100.0)
out = torch.empty(100)


def compiled_scale():
    return scale.warmup(x, out, 100, 2.5, 128, grid=(1,))


def launch_scale(kernel, grid=(1, 1, 1), to=out):
    return launch(kernel, grid, pointer(x), pointer(to), struct.pack("i", 100), struct.pack("f", 2.5))


def test_same_launch_as_stock():
    stock = scale[(3,)](x, out, 100, 2.5, 128)
    theirs, want = simdriver.launches[-1], out.clone()
    out.zero_()
    assert launch_scale(kernel_of(stock), (3, 1, 1)) == 0
    ours = simdriver.launches[-1]
    for field in ("name", "grid", "block", "shared", "stream", "attrs", "params", "device"):
        assert getattr(ours, field) == getattr(theirs, field), field
    assert ours.function != theirs.function
    assert torch.equal(out, want)
    assert torch.equal(out, x * 2.5)


def test_environment_is_the_current_stream_of_the_current_device():
    assert _rt.launch_env() == (0, 0, 0)
    with simdriver.device(1), simdriver.stream(77):
        assert _rt.launch_env() == (1, 77, 0)
        launch_scale(kernel_of(compiled_scale()))
        assert (simdriver.launches[-1].stream, simdriver.launches[-1].device) == (77, 1)


def test_target():
    assert target.is_simulated()
    assert target.device_count() == 2
    assert target.accepts(x)
    assert not target.accepts(torch.empty(1, device="meta"))
    simdriver.uninstall()
    assert not target.is_simulated()
    assert not target.accepts(x)


def test_one_load_for_each_content_and_device():
    loads, functions = cubins.stats()["loads"], set()
    for _ in range(3):
        kernel = kernel_of(scale.warmup(x, out, 100, 3.0, 256, grid=(1,)))
        assert launch_scale(kernel) == launch_scale(kernel) == 0
        functions.add(kernel.function[0])
    assert cubins.stats()["loads"] == loads + 1
    assert len(functions) == 1
    with simdriver.device(1):
        assert launch_scale(kernel) == 0
    assert cubins.stats()["loads"] == loads + 2
    assert kernel.function[1] not in (None, kernel.function[0])


def test_loading_leaves_the_context_alone():
    """A kernel of device 1 loaded while device 0 is current."""
    compiled = scale.warmup(x, out, 100, 2.5, 32, grid=(1,))
    simdriver.state.device = 0
    cubins.load(compiled.asm["cubin"], compiled.metadata.name, 0, 128, 1)
    assert simdriver.state.device == 0
    launch_scale(kernel_of(compiled_scale()))
    assert simdriver.launches[-1].device == 0


def test_grid_of_zero_launches_nothing():
    kernel = kernel_of(compiled_scale())
    for grid in ((0, 1, 1), (1, 0, 1), (5, 5, 0)):
        assert launch_scale(kernel, grid) == 0
    assert not list(simdriver.launches)
    assert kernel.function[0] is None


@pytest.mark.parametrize(
    "grid",
    [(-1, 1, 1), (-1, -2, 1), (1 << 31, 1, 1), (65536, 65536, 1), (1 << 20, 4096, 1), (1 << 20, 1 << 20, 1 << 30)],
)
def test_grid_that_stock_treats_oddly_is_left_to_it(grid):
    assert launch_scale(kernel_of(compiled_scale()), grid) == 1
    assert not list(simdriver.launches)


def test_attributes_in_stocks_order():
    with simdriver.no_interpret():
        kernel = kernel_of(compiled_scale(), flags=PDL | COOPERATIVE, num_ctas=2)
        assert launch_scale(kernel, (3, 2, 1)) == 0
        record = simdriver.launches[-1]
        assert record.grid == (6, 2, 1)
        assert record.via_ex
        attributes = [(a[0], tuple(a[1])[:3]) for a in record.attrs]
        assert [a[0] for a in attributes] == [6, 2, 4, 5]
        assert attributes[0][1][0] == attributes[1][1][0] == attributes[3][1][0] == 1
        assert attributes[2][1] == (2, 1, 1)
        assert launch_scale(kernel_of(compiled_scale())) == 0
        assert not simdriver.launches[-1].via_ex


def test_cluster_of_16_is_allowed():
    with simdriver.no_interpret():
        assert launch_scale(kernel_of(compiled_scale(), num_ctas=16)) == 0
        assert simdriver.launches[-1].nonportable_cluster == 1


def test_more_than_48_kb_of_shared_memory():
    a = torch.randn(64, 64).half()
    c = torch.empty_like(a)
    with simdriver.no_interpret():
        compiled = matmul[(1,)](a, a, c, 64)
        theirs = simdriver.launches[-1]
        assert compiled.metadata.shared > 48 << 10
        assert launch(kernel_of(compiled), (1, 1, 1), pointer(a), pointer(a), pointer(c)) == 0
    ours = simdriver.launches[-1]
    assert ours.shared == theirs.shared
    assert ours.max_dynamic_shared == theirs.max_dynamic_shared > 48 << 10


def test_out_of_resources_as_stock():
    from triton.runtime.errors import OutOfResources

    compiled = compiled_scale()
    cubin, name = compiled.asm["cubin"], compiled.metadata.name
    with pytest.raises(OutOfResources, match="shared memory, Required: 999999, Hardware limit: 232448"):
        cubins.load(cubin, name, 999999, 128, 0)
    with pytest.raises(OutOfResources, match="threads, Required: 4096"):
        cubins.load(cubin, name, 0, 4096, 0)
    with pytest.raises(OutOfResources):
        launch_scale(kernel_of(compiled, shared=999999))


def test_failed_launch_says_where():
    kernel = kernel_of(compiled_scale())
    with simdriver.inject("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"):
        with pytest.raises(LaunchError) as caught:
            launch_scale(kernel, (3, 1, 1))
    text = str(caught.value)
    assert text.startswith("Triton Error [CUDA]: ")
    assert isinstance(caught.value, RuntimeError)
    assert (
        "(cuLaunchKernel returned CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES; kernel scale, grid (3, 1, 1), device 0)" in text
    )
    assert caught.value.code == 701
    assert launch_scale(kernel) == 0


@pytest.mark.parametrize("call", ["cuModuleLoadData", "cuModuleGetFunction", "cuDevicePrimaryCtxRetain"])
def test_failed_load_says_where_and_can_be_tried_again(call):
    cubins._contexts.clear()
    cubins.unload_all()
    cubins._contexts.clear()
    kernel = kernel_of(compiled_scale())
    with simdriver.inject(call, "CUDA_ERROR_OUT_OF_MEMORY"):
        with pytest.raises(
            LaunchError, match=f"{call} returned CUDA_ERROR_OUT_OF_MEMORY; loading kernel scale, device 0"
        ):
            launch_scale(kernel)
    assert launch_scale(kernel) == 0


def test_fresh_thread_gets_the_primary_context():
    kernel = kernel_of(compiled_scale())
    launch_scale(kernel)
    outcome = []
    target_tensor = torch.zeros(100)

    def work():
        simdriver._simlib.loaded().sim_clear_context()
        outcome.append(launch_scale(kernel, to=target_tensor))
        outcome.append(bool(simdriver._simlib.loaded().sim_has_context()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert outcome == [0, True]
    assert torch.equal(target_tensor, x * 2.5)


def test_counters():
    _rt.counters_reset()
    kernel = kernel_of(compiled_scale())
    launch_scale(kernel)
    launch_scale(kernel)
    launch_scale(kernel, (0, 1, 1))
    counters = _rt.counters()
    assert counters["launch"] == 2
    assert counters["module_load"] == 1


def test_python_launcher():
    seen = []
    handles = (C.c_void_p * 2)(unwrap(x), unwrap(out))
    numbers = (C.c_int64 * 3)(1, -2, 1 << 40)
    assert launch_python(lambda tensors, ints: seen.append((tensors, ints)), handles, 2, numbers, 3) == 0
    ((tensors, ints),) = seen
    assert tensors[0] is x
    assert tensors[1] is out
    assert ints == (1, -2, 1 << 40)

    def fail(tensors, ints):
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError):
        launch_python(fail, handles, 2, numbers, 3)


def test_device_out_of_range():
    env = Env(None, 64, 0)
    with pytest.raises(RuntimeError, match="serves devices 0 to 63, not 64"):
        native_launch(C.byref(kernel_of(compiled_scale())), C.byref(env), 1, 1, 1, None)


def test_table_describes_itself():
    assert table.abi == _rt.ABI
    assert table.size >= C.sizeof(Table)  # later services follow these


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_without_a_driver_the_error_is_torchs():
    simdriver.uninstall()
    with pytest.raises(RuntimeError):
        _rt.launch_env()
