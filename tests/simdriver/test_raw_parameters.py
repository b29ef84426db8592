"""The stock launcher and a bare driver call must be indistinguishable to the driver, byte for byte."""

from __future__ import annotations

import bare
import pytest
import sim_kernels


@pytest.mark.parametrize("name", list(sim_kernels.CASES))
def test_stock_and_bare_launch_are_equal(sim, name):
    case = sim_kernels.CASES[name]()
    compiled = sim_kernels.launch(case)
    case.check()
    stock = sim.launches[-1]
    assert stock.via_ex
    stock_outputs = [out.clone() for out in case.outputs]
    for out in case.outputs:
        out.zero_()

    kernel = bare.Kernel(compiled)
    params = bare.pack(compiled, case.args)
    if stock.attrs:
        kernel.launch_ex(case.grid, params)
    else:
        kernel.launch(case.grid, params)
    assert sim.launches[-1].via_ex == bool(stock.attrs)
    assert stock.same(sim.launches[-1]) == []
    case.check()
    assert all(bool((a == b).all()) for a, b in zip(case.outputs, stock_outputs, strict=True))


def test_launch_facts(sim):
    cases = [sim_kernels.case_eight_warps(), sim_kernels.case_clusters(), sim_kernels.case_pdl()]
    for case in cases:  # all alive, or one could have the addresses of another
        sim_kernels.launch(case)
    warps, clusters, pdl = sim.launches
    assert (warps.name, warps.grid, warps.block, warps.device) == ("masked_add", (4, 1, 1), (256, 1, 1), 0)
    assert [len(raw) for raw in warps.params] == [8, 8, 8, 4, 8, 8]
    assert (clusters.grid, clusters.cluster, clusters.attrs) == ((8, 1, 1), (2, 1, 1), ((4, (2, 1, 1)), (5, (1,))))
    assert pdl.attrs == ((6, (1,)),)
    assert set(warps.same(clusters)) >= {"image", "grid", "block", "attrs", "cluster", "params"}
    assert "params" not in warps.same(clusters, ignore=["params"])
    assert warps.image != clusters.image
    assert warps.image_bytes.startswith(b"\x7fELF")


def test_log_clears(sim):
    sim_kernels.launch(sim_kernels.case_atomics())
    assert len(sim.launches) == 1
    assert "count_up" in repr(sim.launches)
    sim.launches.clear()
    assert list(sim.launches) == []
    assert sim.launches.dropped == 0


def test_packed_buffer_form(sim):
    """The `extra` form of cuLaunchKernel: one buffer, laid out as the CUBIN says."""
    import ctypes

    from cuda.bindings import driver

    case = sim_kernels.case_masked_add()
    compiled = sim_kernels.launch(case)
    stock = sim.launches[-1]
    kernel = bare.Kernel(compiled)
    blob = bytearray(stock.offsets[-1] + 8)
    for at, raw in zip(stock.offsets, stock.params, strict=True):
        blob[at : at + len(raw)] = raw
    buffer = ctypes.create_string_buffer(bytes(blob), len(blob))
    size = ctypes.c_size_t(len(blob))
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
    block = compiled.metadata.num_warps * 32
    bare.check(driver.cuLaunchKernel(kernel.function, 4, 1, 1, block, 1, 1, 0, 0, 0, ctypes.addressof(extra)))
    assert stock.same(sim.launches[-1]) == []
