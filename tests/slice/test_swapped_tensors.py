"""Nothing of a capture holds on to the program's tensors: a parameter that a served function reads can be swapped."""

from __future__ import annotations

import gc
import weakref

import torch
from support import programs
from support.routes import routed

from trident_hook.dynamo import compile_frame


def test_dynamo_has_the_switch():
    assert hasattr(torch._dynamo.config, "invalidate_compile_context_weakrefs")
    assert compile_frame._SETTINGS["invalidate_compile_context_weakrefs"] is True


class Layer(torch.nn.Module):
    def __init__(self, value):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4,), value))


def test_a_parameter_is_swapped_between_hits(served):
    layer, other = Layer(1.0), Layer(5.0)

    def fn(x, module):
        return programs.shift(module.weight, 3) + x

    fn = served(fn)
    with torch.no_grad():
        for route in ("dynamo", "scm"):
            routed(fn, torch.zeros(4), layer, via=route)
        gc.collect()
        assert weakref.getweakrefcount(layer.weight) == 0
        torch.utils.swap_tensors(layer.weight, other.weight)
        assert routed(fn, torch.zeros(4), layer, via="scm").tolist() == [8.0] * 4
        layer.load_state_dict({"weight": torch.full((4,), 9.0)})
        assert routed(fn, torch.zeros(4), layer, via="scm").tolist() == [12.0] * 4
