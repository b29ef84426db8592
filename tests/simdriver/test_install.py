"""Installing, taking back, building: what the simulation changes in the process, and that it changes it back."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
import sim_kernels
import torch
import triton
from torch.utils import _triton

from trident_hook.testing import simbuild


def run_python(text: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_uninstall_takes_everything_back(sim):
    import torch._dynamo.utils as dynamo_utils

    assert sim.is_active()
    assert _triton.has_triton()
    assert dynamo_utils.has_triton()
    patched = _triton.has_triton
    active = triton.runtime.driver.active
    sim.uninstall()
    try:
        sim.uninstall()
        assert not sim.is_active()
        assert not _triton.has_triton()
        assert not patched()  # for who imported it meanwhile
        assert dynamo_utils.has_triton is _triton.has_triton is not patched
        assert triton.runtime.driver._active is not active
        assert triton.knobs.nvidia.libcuda_path is None
        assert "TRITON_LIBCUDA_PATH" not in os.environ
        assert triton.compiler.CompiledKernel.__init__.__module__ == "triton.compiler.compiler"
        assert not hasattr(triton.compiler.CompiledKernel.__init__, "__wrapped__")
    finally:
        sim.install()
    case = sim_kernels.case_nested()
    sim_kernels.launch(case)
    case.check()


def test_install_is_idempotent(sim):
    driver, patched = triton.runtime.driver.active, _triton.has_triton
    sim.install()
    assert triton.runtime.driver.active is driver
    assert _triton.has_triton is patched
    sim.install(interpret=False, record=False)
    assert not sim.state.interpret
    assert not sim.state.record
    sim_kernels.launch(sim_kernels.case_nested())
    assert len(sim.launches) == 0
    with pytest.raises(ValueError, match="n_devices"):
        sim.install(n_devices=99)


def test_dynamo_traces_launches(sim):
    """Dynamo takes kernels on CPU tensors into its graph, tensor descriptors included."""
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module

    def two_launches(x):
        out, again = torch.empty_like(x), torch.empty_like(x)
        n = x.numel()
        grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
        sim_kernels.masked_add[grid](x, x, out, n, BLOCK=256)
        descriptor = sim_kernels.TensorDescriptor.from_tensor(out, [16, 32])
        sim_kernels.copy_tile[(2, 2)](descriptor, again, 32, 64, BM=16, BN=32)
        return again

    x = torch.randn(32, 64)
    torch._dynamo.reset()
    compiled = torch.compile(two_launches, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(x), x * 2 + 1)
    assert len(graphs) == 1
    assert [launch.name for launch in sim.launches] == ["masked_add", "copy_tile"]
    torch._dynamo.reset()


@pytest.mark.usefixtures("sim")
def test_torch_still_sees_no_gpu():
    out = run_python(
        """
        import warnings
        warnings.simplefilter("error")
        from trident_hook.testing import simdriver
        simdriver.install()
        import torch
        print(torch.cuda.is_available(), torch.cuda.device_count())
        try:
            torch.zeros(1, device="cuda")
        except Exception as error:
            print(type(error).__name__)
        print(torch.randn(4).sum().isfinite().item())
        """
    )
    assert out.split() == ["False", "0", "RuntimeError", "True"]


@pytest.mark.usefixtures("sim")
def test_uninstalled_at_exit_or_not_the_process_ends_well():
    out = run_python(
        """
        from trident_hook.testing import simdriver, workloads
        import torch
        simdriver.install()
        print(bool((workloads.add(torch.ones(3), torch.ones(3)) == 2).all()))
        """
    )
    assert out.split() == ["True"]


def test_importing_changes_nothing():
    out = run_python(
        """
        import sys
        import trident_hook.testing.workloads, trident_hook.testing.simdriver as s
        import ctypes, triton
        print(s.is_active(), triton.runtime.driver._active, s._simlib.lib)
        """
    )
    assert out.split() == ["False", "None", "None"]


def test_build_is_cached_and_atomic(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIDENT_HOOK_CACHE_DIR", str(tmp_path))
    first = simbuild.build()
    assert (first / simbuild.SONAME).is_file()
    stamp = (first / simbuild.SONAME).stat().st_mtime_ns
    assert simbuild.build() == first
    assert (first / simbuild.SONAME).stat().st_mtime_ns == stamp
    assert os.listdir(tmp_path) == [first.name]


def test_failed_build_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIDENT_HOOK_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CC", "false")
    with pytest.raises(simbuild.SimBuildError, match="failed"):
        simbuild.build()
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("sim")
def test_a_real_driver_is_not_displaced():
    """Some other libcuda.so.1 in the process before us: refused, and nothing is changed."""
    out = run_python(
        """
        import ctypes
        from trident_hook.testing import simbuild, simdriver
        import torch
        torch.cuda.is_available()
        ctypes.CDLL(str(simbuild.build() / "libcuda.so.1"))  # stands for the real one
        try:
            simdriver.install()
        except simdriver.RealDriverError as error:
            print(simdriver.is_active(), simdriver._simlib.lib, error)
        """
    )
    assert out.startswith("False None The real CUDA driver")
