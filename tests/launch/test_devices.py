"""Devices and streams on the simulated driver, which has two: launches go where the calling thread is."""

from __future__ import annotations

import pytest
import torch
from support.adding import adding
from support.routes import counted, routed, warm

from trident_hook.runtime import cubins
from trident_hook.testing import simdriver

X = torch.arange(96, dtype=torch.float32)


@pytest.fixture(autouse=True)
def interpreted(clean_slate):
    simdriver.install(n_devices=2, interpret=True)
    simdriver.reset_counts()


def test_devices_and_streams_alternate():
    """One load on each device, whatever the order; each launch on the stream that is current there, and nothing else is
    current behind it."""
    fn, before = adding(501), cubins.stats()["loads"]
    for device in (0, 1):
        with simdriver.device(device):
            warm(fn, X)
    simdriver.launches.clear()
    with counted(fn) as added:
        for step in range(40):
            device, stream = step % 2, (0, 700 + step)[step // 2 % 2]
            with simdriver.device(device), simdriver.stream(stream):
                fn(X)
                assert (simdriver.state.device, simdriver.state.stream()) == (device, stream)
            launch = simdriver.launches[-1]
            assert (launch.device, launch.stream) == (device, stream)
    assert (added["hits"], added["misses"], added["rt_launch"]) == (40, 0, 40)
    assert cubins.stats()["loads"] == before + 2
    assert simdriver.counts()["cuModuleUnload"] == 0


def test_the_stream_is_looked_up_at_every_call():
    fn = adding(502)
    warm(fn, X)
    for stream in (5, 6, 0, 5):
        with simdriver.stream(stream):
            routed(fn, X, launches=1)
        assert simdriver.launches[-1].stream == stream


def test_the_stream_of_another_device_is_not_taken():
    fn = adding(503)
    warm(fn, X)
    with simdriver.stream(99, ordinal=1):
        routed(fn, X, launches=1)
    assert (simdriver.launches[-1].device, simdriver.launches[-1].stream) == (0, 0)


def test_a_device_that_is_new_to_the_function():
    """A miss before any effect: the binary was compiled for the other one."""
    fn = adding(504)
    warm(fn, X)
    with simdriver.device(1):
        routed(fn, X, via="dynamo", reason="device")
        routed(fn, X, via="scm", launches=1)
        assert simdriver.launches[-1].device == 1
    routed(fn, X, via="scm", launches=1)
    assert simdriver.launches[-1].device == 0


def test_a_load_that_fails_on_one_device_harms_no_other():
    fn = adding(505)
    warm(fn, X)
    with simdriver.device(1):
        routed(fn, X, via="dynamo")
        with simdriver.inject("load", "CUDA_ERROR_OUT_OF_MEMORY"):
            with pytest.raises(RuntimeError, match="CUDA_ERROR_OUT_OF_MEMORY; loading kernel add_number, device 1"):
                fn(X)
    routed(fn, X, via="scm", launches=1)
    with simdriver.device(1):
        routed(fn, X, via="scm", launches=1)
