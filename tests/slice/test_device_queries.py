"""Properties of the device that Triton's driver tells: constants of the process, until the driver is another one."""

from __future__ import annotations

import copy

import torch
import triton
from support.programs import shift_kernel
from support.routes import routed, twin

import trident_hook


def by_the_device(x):
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    y = torch.empty_like(x)
    shift_kernel[(triton.cdiv(x.numel(), 64),)](x, y, properties["multiprocessor_count"], x.numel(), BLOCK=64)
    return y


def test_a_property_of_the_device_is_a_constant():
    fn = trident_hook.jit(twin(by_the_device))
    x = torch.arange(4.0)
    count = triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"]
    for route in ("dynamo", "scm", "scm"):
        assert torch.equal(routed(fn, x, via=route), x + count)


def test_another_driver_is_asked_anew(monkeypatch):
    fn = trident_hook.jit(twin(by_the_device))
    x = torch.arange(4.0)
    fn(x)
    utils = triton.runtime.driver.active.utils
    other = copy.copy(utils)
    before = utils.get_device_properties(0)
    other.get_device_properties = lambda device: {**before, "multiprocessor_count": 7}
    monkeypatch.setattr(triton.runtime.driver.active, "utils", other)
    for _ in range(2):
        assert torch.equal(fn(x), x + 7)
