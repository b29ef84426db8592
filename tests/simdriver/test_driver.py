"""The simulated driver itself: devices, contexts, rejections, pointers, counters, injected failures."""

from __future__ import annotations

import ctypes
import threading
import timeit

import bare
import pytest
import sim_kernels
from cuda.bindings import driver
from triton.runtime.errors import OutOfResources

ERROR = driver.CUresult


@pytest.fixture
def loaded(sim):
    """A kernel loaded by hand, and parameters that it may be launched with."""
    case = sim_kernels.case_masked_add()
    compiled = sim_kernels.launch(case)
    sim.launches.clear()
    kernel = bare.Kernel(compiled)
    yield kernel, bare.pack(compiled, case.args)
    driver.cuModuleUnload(kernel.module)


# ---- through cuda-python ----


def test_cuda_python_finds_the_simulation(sim):
    bare.check(driver.cuInit(0))
    assert bare.check(driver.cuDeviceGetCount()) == 1
    assert bare.check(driver.cuDriverGetVersion()) == 13000
    assert b"simulated" in bare.check(driver.cuDeviceGetName(64, 0))
    assert bare.check(driver.cuGetErrorName(ERROR.CUDA_ERROR_NOT_FOUND)) == b"CUDA_ERROR_NOT_FOUND"
    assert bare.check(driver.cuGetErrorString(ERROR.CUDA_ERROR_INVALID_VALUE)) == b"invalid argument"
    assert driver.cuDeviceGet(1)[0] == ERROR.CUDA_ERROR_INVALID_DEVICE
    with pytest.raises(RuntimeError, match=r"cuStreamBeginCapture.*not found"):
        driver.cuStreamBeginCapture(0, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)


def test_modules(sim, loaded):
    kernel, params = loaded
    before = sim.live_modules()
    image = next(iter(sim_kernels.masked_add.device_caches[0][0].values())).asm["cubin"]
    module = bare.check(driver.cuModuleLoadData(image))
    assert sim.live_modules() == before + 1
    function = bare.check(driver.cuModuleGetFunction(module, b"masked_add"))
    assert int(bare.check(driver.cuModuleGetFunction(module, b"masked_add"))) == int(function)
    assert driver.cuModuleGetFunction(module, b"other")[0] == ERROR.CUDA_ERROR_NOT_FOUND
    kernel.function = function
    assert kernel.try_launch((1,), params) == ERROR.CUDA_SUCCESS
    bare.check(driver.cuModuleUnload(module))
    assert sim.live_modules() == before
    assert kernel.try_launch((1,), params) == ERROR.CUDA_ERROR_INVALID_HANDLE
    assert driver.cuModuleLoadData(b"no CUBIN at all" + bytes(100))[0] == ERROR.CUDA_ERROR_INVALID_IMAGE


def test_parameter_layout_is_the_cubins(sim, loaded):
    kernel, _ = loaded
    layout = []
    while (answer := driver.cuFuncGetParamInfo(kernel.function, len(layout)))[0] == ERROR.CUDA_SUCCESS:
        layout.append(answer[1:])
    assert layout == [(0, 8), (8, 8), (16, 8), (24, 4), (32, 8), (40, 8)]


def test_wrong_architecture(sim):
    sim.install(arch=80)
    compiled = sim_kernels.launch(sim_kernels.case_masked_add())
    sim.install(arch=90)
    assert driver.cuModuleLoadData(compiled.asm["cubin"])[0] == ERROR.CUDA_ERROR_NO_BINARY_FOR_GPU
    sim.install(arch=86)
    bare.check(driver.cuModuleUnload(bare.check(driver.cuModuleLoadData(compiled.asm["cubin"]))))


# ---- rejections ----


@pytest.mark.parametrize(
    "grid",
    [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 65536, 1), (1, 1, 65536), (2**31, 1, 1)],
    ids=str,
)
def test_bad_grids(sim, loaded, grid):
    kernel, params = loaded
    assert kernel.try_launch(grid, params) == ERROR.CUDA_ERROR_INVALID_VALUE
    assert len(sim.launches) == 0


@pytest.mark.parametrize("block", [0, 64, 256, 2048])
def test_bad_blocks(sim, loaded, block):
    kernel, params = loaded
    assert kernel.try_launch((1,), params, block=block) == ERROR.CUDA_ERROR_INVALID_VALUE


def test_shared_memory_limits(sim, loaded):
    kernel, params = loaded
    limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert kernel.try_launch((1,), params, shared=49152) == ERROR.CUDA_SUCCESS
    assert kernel.try_launch((1,), params, shared=49153) == ERROR.CUDA_ERROR_INVALID_VALUE
    assert driver.cuFuncSetAttribute(kernel.function, limit, 232449)[0] == ERROR.CUDA_ERROR_INVALID_VALUE
    bare.check(driver.cuFuncSetAttribute(kernel.function, limit, 100000))
    assert bare.check(driver.cuFuncGetAttribute(limit, kernel.function)) == 100000
    assert kernel.try_launch((1,), params, shared=100000) == ERROR.CUDA_SUCCESS
    assert kernel.try_launch((1,), params, shared=100001) == ERROR.CUDA_ERROR_INVALID_VALUE


def test_more_than_48_kib(sim):
    case = sim_kernels.case_big_shared()
    compiled = sim_kernels.launch(case)
    case.check()
    launch = sim.launches[-1]
    assert compiled.metadata.shared == launch.shared > 49152
    assert launch.max_dynamic_shared == 232448
    kernel = bare.Kernel(compiled)
    limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    bare.check(driver.cuFuncSetAttribute(kernel.function, limit, 49152))
    status = kernel.try_launch(case.grid, bare.pack(compiled, case.args))
    assert status == ERROR.CUDA_ERROR_INVALID_VALUE


def test_more_than_the_device_has(sim):
    sim.install(arch=86)
    case = sim_kernels.case_big_shared()
    case.options["num_stages"] = 5
    with pytest.raises(OutOfResources, match="shared memory"):
        sim_kernels.launch(case)


def test_null_parameters(sim, loaded):
    kernel, _ = loaded
    assert driver.cuLaunchKernel(kernel.function, 1, 1, 1, 128, 1, 1, 0, 0, 0, 0)[0] == ERROR.CUDA_ERROR_INVALID_VALUE


# ---- contexts, devices, streams ----


def test_fresh_thread_has_no_context(sim, loaded):
    kernel, params = loaded
    seen = []

    def work():
        seen.append((sim.state.device, int(bare.check(driver.cuCtxGetCurrent()))))
        seen.append(kernel.try_launch((1,), params))
        seen.append(sim_kernels.launch(sim_kernels.case_nested()) is not None)  # the stock launcher helps itself
        seen.append(sim.state.stream())

    with sim.stream(0x77):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert sim.state.stream() == 0x77
    assert seen == [(0, 0), ERROR.CUDA_ERROR_INVALID_CONTEXT, True, 0]


def test_several_devices(sim):
    sim.install(n_devices=3)
    case = sim_kernels.case_masked_add()
    for ordinal in (0, 2):
        with sim.device(ordinal), sim.stream(0x10 + ordinal):
            assert (sim.state.device, sim.state.stream()) == (ordinal, 0x10 + ordinal)
            compiled = sim_kernels.launch(case)
            case.check()
    first, second = sim.launches
    assert first.same(second) == ["stream", "device"]
    assert (second.device, second.stream) == (2, 0x12)
    assert sim.state.device == 0
    with pytest.raises(ValueError, match="has 3"):
        sim.state.device = 3

    kernel = bare.Kernel(compiled)  # on device 0
    params = bare.pack(compiled, case.args)
    with sim.device(1):
        assert kernel.try_launch((1,), params) == ERROR.CUDA_ERROR_INVALID_HANDLE
        assert int(bare.check(driver.cuCtxGetDevice())) == 1
    assert kernel.try_launch((1,), params) == ERROR.CUDA_SUCCESS


def test_plain_c_functions_tell_device_and_stream(sim):
    """What native launch code calls: symbols of the library that dlopen("libcuda.so.1") finds."""
    sim.install(n_devices=2)
    lib = ctypes.CDLL("libcuda.so.1")
    lib.sim_current_stream.restype = ctypes.c_uint64
    with sim.device(1), sim.stream(2**40 + 1):
        assert lib.sim_current_device() == 1
        assert lib.sim_current_stream(1) == 2**40 + 1
        assert lib.sim_current_stream(0) == 0
    assert lib.sim_current_device() == 0


# ---- pointers ----


def test_strict_pointers(sim):
    case = sim_kernels.case_masked_add()
    with sim.strict_pointers():
        with pytest.raises(ValueError, match="cannot be accessed from Triton"):
            sim_kernels.launch(case)
        for tensor in case.args[:3]:
            sim.register(tensor)
        sim_kernels.launch(case)
        case.check()
        for tensor in case.args[:3]:
            sim.unregister(tensor)
        with pytest.raises(ValueError, match="cannot be accessed from Triton"):
            sim_kernels.launch(case)
    sim_kernels.launch(case)


def test_pointer_queries(sim):
    attribute = driver.CUpointer_attribute
    with sim.strict_pointers():
        memory = bare.check(driver.cuMemAlloc(100))
        address = int(memory)
        query = driver.cuPointerGetAttribute
        assert int(bare.check(query(attribute.CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address + 99))) == address + 99
        kind = bare.check(query(attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address))
        assert kind == driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        assert bare.check(query(attribute.CU_POINTER_ATTRIBUTE_RANGE_SIZE, address)) == 100
        bare.check(driver.cuMemFree(memory))
        assert query(attribute.CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address)[0] == ERROR.CUDA_ERROR_INVALID_VALUE
        assert driver.cuMemFree(memory)[0] == ERROR.CUDA_ERROR_INVALID_VALUE


# ---- counters and failures ----


def test_counters(sim, loaded):
    kernel, params = loaded
    sim.reset_counts()
    kernel.launch((1,), params)
    kernel.try_launch((0,), params)
    sim_kernels.launch(sim_kernels.case_masked_add())
    counted = sim.counts()
    assert (counted["cuLaunchKernel"], counted["cuLaunchKernelEx"]) == (2, 1)
    assert counted["cuPointerGetAttribute"] == 3
    assert counted["cuModuleLoadData"] == 0


def test_injected_launch_failure(sim, loaded):
    kernel, params = loaded
    with sim.inject("launch", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES") as failure:
        assert kernel.try_launch((1,), params) == ERROR.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
        assert kernel.try_launch((1,), params) == ERROR.CUDA_SUCCESS
        assert failure.fired == 1
    assert failure.fired == 1
    assert len(sim.launches) == 1
    with sim.inject("launch", 719), pytest.raises(RuntimeError, match="unspecified launch failure"):
        sim_kernels.launch(sim_kernels.case_masked_add())


def test_injection_skips_and_repeats(sim, loaded):
    kernel, params = loaded
    with sim.inject("cuLaunchKernel", 1, skip=1, times=2) as failure:
        assert [int(kernel.try_launch((1,), params)) for _ in range(4)] == [0, 1, 1, 0]
    with sim.inject("launch", 2) as unused:
        pass
    assert (failure.fired, unused.fired) == (2, 0)
    assert kernel.try_launch((1,), params) == ERROR.CUDA_SUCCESS


def test_injected_load_failure(sim, loaded):
    kernel, _ = loaded
    image = next(iter(sim_kernels.masked_add.device_caches[0][0].values())).asm["cubin"]
    with sim.inject("load", "CUDA_ERROR_OUT_OF_MEMORY"):
        assert driver.cuModuleLoadData(image)[0] == ERROR.CUDA_ERROR_OUT_OF_MEMORY
    with sim.inject("cuModuleGetFunction", "CUDA_ERROR_NOT_FOUND"):
        assert driver.cuModuleGetFunction(kernel.module, b"masked_add")[0] == ERROR.CUDA_ERROR_NOT_FOUND


def test_injection_wants_known_names(sim):
    with pytest.raises(ValueError, match="cuLaunchKernel"), sim.inject("cuLaunch", 1):
        pass
    with pytest.raises(ValueError, match="CUDA_ERROR_BAD_LUCK"), sim.inject("launch", "CUDA_ERROR_BAD_LUCK"):
        pass


def test_threads_launch_at_once(sim, loaded):
    kernel, params = loaded
    context = bare.check(driver.cuCtxGetCurrent())
    sim.reset_counts()

    def work():
        bare.check(driver.cuCtxSetCurrent(context))
        for _ in range(200):
            kernel.launch((1,), params)

    with sim.no_interpret():
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(sim.launches) == sim.counts()["cuLaunchKernel"] == 800


def test_an_unrecorded_launch_is_cheap(sim, loaded):
    """The floor under host-path benchmarks: what the driver adds to one call through ctypes."""
    kernel, params = loaded
    lib = ctypes.PyDLL("libcuda.so.1")
    buffers = [ctypes.create_string_buffer(raw, len(raw)) for raw in params]
    array = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
    function = ctypes.c_void_p(int(kernel.function))
    args = (function, 4, 1, 1, 128, 1, 1, 0, None, array, None)
    with sim.no_interpret(), sim.record(False):
        launch = min(timeit.repeat(lambda: lib.cuLaunchKernel(*args), number=2000, repeat=5)) / 2000
        nothing = min(timeit.repeat(lambda: lib.sim_live_modules(*args), number=2000, repeat=5)) / 2000
    assert lib.cuLaunchKernel(*args) == 0
    assert len(sim.launches) == 1
    assert launch - nothing < 1e-6
