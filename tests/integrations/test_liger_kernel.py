"""Liger-Kernel itself, where it is installed: its forward and backward functions, plain ones that launch kernels."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from support.routes import counts, routed, warm

from trident_hook import integrations

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("liger_kernel") is None, reason="liger-kernel is not installed"
)


@pytest.fixture
def ops():
    import liger_kernel.ops

    return liger_kernel.ops


def cases(ops) -> dict:
    x, gate, weight = torch.randn(8, 64), torch.randn(8, 64), torch.randn(64)
    return {
        "rms_norm": (ops.rms_norm.rms_norm_forward, (x, weight, 1e-6, 0.0, "llama", False)),
        "layer_norm": (ops.layer_norm.layer_norm_forward, (x, weight, weight, 1e-6)),
        "swiglu": (ops.swiglu.swiglu_forward, (x, gate)),
        "geglu": (ops.geglu.geglu_forward, (x, gate)),
    }


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "swiglu", "geglu"])
def test_served_whole(ops, served, name):
    function, args = cases(ops)[name]
    fn = served(function)
    warm(fn, *args)
    routed(fn, *args, launches=1)


def test_the_adapter_is_what_does_it(ops, served):
    integrations.adapters()
    adapter = integrations.registry._registered["liger_kernel"]
    integrations.unregister("liger_kernel")
    try:
        function, args = cases(ops)["swiglu"]
        fn = served(function)
        for _ in range(3):
            fn(*args)
        assert counts(fn).get("hits", 0) == 0
    finally:
        integrations.register(adapter)
