"""Many new kinds of calls before there is a module: Dynamo has an entry for each, and its limits are not ours."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from support.routes import routed, same, twin

import trident_hook
from trident_hook._scm import worker
from trident_hook.capture import recorder

KINDS = [torch.ones(shape, dtype=dtype) for dtype in (torch.float32, torch.float64, torch.int64, torch.int32)
         for shape in ((3,), (4, 5), (2, 3, 4))]  # fmt: skip


def summed(a, b, n=2):
    return (a + b * n).relu() * 1.7 + a.dim()


@pytest.mark.parametrize("build", ["background", "sync"])
def test_more_than_dynamo_would_keep(through, build):
    trident_hook.config.build = build
    fn, go = through(summed), threading.Event()
    if build == "background":
        worker.submit(lambda: go.wait(100))
    for _ in range(2):
        for a in KINDS:
            assert same(fn(a, a), twin(fn)(a, a))
    go.set()
    assert trident_hook.settle(150)
    for a in KINDS:
        routed(fn, a, a, via="scm")
    explanation = trident_hook.explain(fn)
    assert (len(explanation.specializations), explanation.refusals) == (len(KINDS), {})


@pytest.mark.parametrize("limits", [(1, 256), (8, 2)])
def test_limits_that_the_program_has_set_for_its_own_compiles(served, limits):
    with torch._dynamo.config.patch(recompile_limit=limits[0], accumulated_recompile_limit=limits[1]):
        trident_hook.config.build = "background"
        fn, go = served(summed), threading.Event()
        worker.submit(lambda: go.wait(100))
        for a in KINDS:
            fn(a, a)
        assert torch._dynamo.config.recompile_limit == limits[0]
        go.set()
        assert trident_hook.settle(150)
        for a in KINDS:
            routed(fn, a, a, via="scm")


def test_a_skip_for_a_limit_says_nothing_of_the_function(served, monkeypatch):
    """Were there one all the same (another PyTorch, another name of the setting)."""
    from torch._dynamo import convert_frame

    fn = served(summed)
    real = convert_frame.exceeds_recompile_limit
    monkeypatch.setattr(convert_frame, "exceeds_recompile_limit", lambda *_: (True, "recompile_limit"))
    for a in KINDS[:5]:
        routed(fn, a, a, via="dynamo")
    assert not trident_hook.explain(fn).refusals
    monkeypatch.setattr(convert_frame, "exceeds_recompile_limit", real)
    routed(fn, KINDS[0], KINDS[0], via="dynamo")
    routed(fn, KINDS[0], KINDS[0], via="scm")


def test_captures_of_several_threads_keep_each_others_settings(served, monkeypatch):
    """Settings of Dynamo are the process's: one who captures while others do must not capture with what they restore."""
    seen, before = [], torch._dynamo.config.recompile_limit
    real = recorder.normalize

    def normalize(*args):
        for _ in range(10):
            seen.append((torch._dynamo.config.recompile_limit, torch._dynamo.config.specialize_float))
            time.sleep(0.002)
        return real(*args)

    monkeypatch.setattr(recorder, "normalize", normalize)
    fns = [served(summed) for _ in range(4)]
    threads = [threading.Thread(target=lambda fn=fn: [fn(a, a) for a in KINDS[:3]]) for fn in fns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert set(seen) == {(1 << 30, False)}
    assert torch._dynamo.config.recompile_limit == before
