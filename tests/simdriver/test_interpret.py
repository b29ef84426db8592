"""Launches run by Triton's interpreter: the right numbers, no traces, errors that surface."""

from __future__ import annotations

import inspect
import threading
import time

import bare
import pytest
import sim_kernels
import torch
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction

from trident_hook.testing import interpret, workloads


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int32, torch.int8], ids=str)
def test_dtypes(sim, dtype):
    case = sim_kernels.case_masked_add(dtype=dtype)
    sim_kernels.launch(case)
    case.check()


def test_device_descriptors(sim):
    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8))
    x, out = torch.randn(40, 64), torch.zeros(40, 64)
    sim_kernels.make_tile[(3, 2)](x, out, 40, 64, BM=16, BN=32)
    torch.testing.assert_close(out, x * 2)


def test_descriptor_padding(sim):
    """Out of bounds, a descriptor reads zeros or NaNs: the tensor map decides."""
    for padding, expected in (("zero", 1.0), ("nan", float("nan"))):
        x = torch.randn(40, 64).half()
        out = torch.zeros(48, 64).half()
        descriptor = sim_kernels.TensorDescriptor.from_tensor(x, [16, 32], padding=padding)
        sim_kernels.copy_tile[(3, 2)](descriptor, out, 48, 64, BM=16, BN=32)
        torch.testing.assert_close(out[40:], torch.full((8, 64), expected).half(), equal_nan=True)


def test_descriptor_without_tma(sim):
    sim.install(arch=80)
    case = sim_kernels.case_host_descriptor()
    sim_kernels.launch(case)
    case.check()
    assert [len(raw) for raw in sim.launches[-1].params][:6] == [8, 8, 8, 8, 8, 1]


def test_kernel_defined_in_a_function(sim):
    block = tl.constexpr(32)

    @triton.jit
    def local(x, out):
        offsets = tl.arange(0, block)
        tl.store(out + offsets, tl.load(x + offsets) * 2)

    x, out = torch.randn(32), torch.zeros(32)
    local[(1,)](x, out)
    torch.testing.assert_close(out, x * 2)


def test_language_and_globals_are_untouched(sim):
    def snapshot():
        owners = [tl, tl.core, tl.math, tl.tensor, tl.dtype, tl.core.tensor_descriptor_base, JITFunction]
        return [dict(vars(owner)) for owner in owners]

    def compile_for_real(n):
        return sim_kernels.masked_add.warmup(*[torch.float32] * 3, 1000, BLOCK=n, grid=(1,))

    sim_kernels.launch(sim_kernels.case_nested())
    before, names = snapshot(), dict(vars(sim_kernels))
    for make in (sim_kernels.case_nested, sim_kernels.case_row_statistics, sim_kernels.case_host_descriptor):
        sim_kernels.launch(make())
    assert snapshot() == before
    assert dict(vars(sim_kernels)) == names
    assert not triton.knobs.runtime.interpret
    assert "masked_add" in compile_for_real(512).asm["ptx"]


def test_specialized_one_is_a_number(sim):
    x, out = torch.randn(1), torch.zeros(1)
    sim_kernels.masked_add[(1,)](x, x, out, 1, BLOCK=16)
    torch.testing.assert_close(out, x * 2)
    assert len(sim.launches[-1].params) == 5


def test_new_helper_source_is_used(sim, tmp_path):
    """Two functions of the same name, and the same file edited: the source at compile time runs."""
    import importlib.util

    path = tmp_path / "edited_kernel.py"
    text = (
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(x, B: tl.constexpr):\n"
        "    tl.store(x + tl.arange(0, B), {})\n"
    )
    for value in (1.0, 2.0):
        path.write_text(text.format(value))
        spec = importlib.util.spec_from_file_location(f"edited_kernel_{int(value)}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        inspect.getsource(module)
        x = torch.zeros(16)
        module.k[(1,)](x, B=16)
        torch.testing.assert_close(x, torch.full((16,), value))


@triton.jit
def _assembles(x):
    value = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [tl.load(x)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(x, value)


def test_errors_surface(sim):
    x = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="unspecified launch failure"):
        _assembles[(1,)](x)
    with pytest.raises(interpret.KernelError, match=r"_assembles.*program \(0, 0, 0\).*inline_asm not supported"):
        sim.synchronize()
    sim.synchronize()
    sim_kernels.launch(sim_kernels.case_nested())


def test_unknown_cubin(sim):
    case = sim_kernels.case_nested()
    compiled = sim_kernels.launch(case)
    altered = bytearray(compiled.asm["cubin"])
    altered[15] = 1  # padding of the ELF header
    kernel = bare.Kernel(compiled, bytes(altered))
    status = kernel.try_launch(case.grid, bare.pack(compiled, case.args))
    assert status == bare.driver.CUresult.CUDA_ERROR_LAUNCH_FAILED
    with pytest.raises(interpret.UnknownKernelError, match="nested"):
        sim.synchronize()


@pytest.mark.parametrize("how", ["disk cache", "never seen"])
def test_kernels_not_compiled_here(sim, monkeypatch, how):
    """A kernel that comes out of Triton's disk cache is known, and so is one that was compiled before installation."""
    sim_kernels.launch(sim_kernels.case_nested())
    monkeypatch.setattr(interpret, "_kernels", {})
    if how == "disk cache":
        sim_kernels.nested.device_caches.clear()
    case = sim_kernels.case_nested()
    sim_kernels.launch(case)
    case.check()


def test_no_interpret(sim):
    case = sim_kernels.case_nested()
    with sim.no_interpret():
        sim_kernels.launch(case)
    assert len(sim.launches) == 1
    assert not case.outputs[0].any()
    sim_kernels.launch(case)
    case.check()


def test_pending_exception_survives(sim):
    """Triton 3.6 launches first and then raises the overflow of an fp16 argument: the interpreter runs in between."""

    @triton.jit
    def half_scalar(x, value: tl.float16):
        tl.store(x, value.to(tl.float32))

    x = torch.zeros(1)
    half_scalar[(1,)](x, 1.5)
    assert x.item() == 1.5
    with pytest.raises(OverflowError):
        half_scalar[(1,)](x, 1e6)


def test_compiling_beside_a_running_kernel(sim):
    """Code generation in another thread waits for the interpreter, and is not broken by its patches."""
    problems = []

    def compile_many():
        try:
            for block in (1, 2, 4, 8):
                sim_kernels.running_sum.warmup(torch.float64, torch.float64, BLOCK=block, grid=(1,))
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=compile_many)
    thread.start()
    x, w = torch.randn(200, 64), torch.randn(64)
    while thread.is_alive():
        workloads.rms_norm(x, w)
    thread.join()
    assert problems == []


def test_speed(sim):
    x, w = torch.randn(1024, 128), torch.randn(128)
    workloads.rms_norm(x, w)
    start = time.process_time()
    workloads.rms_norm(x, w)
    assert time.process_time() - start < 3  # 0.8 s when written; the bound allows for a slow machine
