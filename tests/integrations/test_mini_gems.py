"""A library with launchers of its own is served whole: one graph, native launches, answers as the library's own."""

from __future__ import annotations

import contextlib
import dataclasses
import logging

import mini_gems
import pytest
import torch
from mini_gems import ops, runtime
from support.routes import counts, routed, same, twin, warm

import trident_hook
from trident_hook import integrations

pytestmark = pytest.mark.usefixtures("described")


def test_an_entry_around_a_kernel(through):
    fn = through(ops.rms_norm)
    x, weight = torch.randn(4, 48), torch.randn(48)
    warm(fn, x, (48,), weight)
    routed(fn, torch.randn(4, 48), (48,), weight, launches=1)


def test_heuristics_below_an_entry(through):
    fn = through(ops.double_rows)
    warm(fn, torch.randn(3, 32))
    routed(fn, torch.randn(3, 32), launches=1)
    warm(fn, torch.randn(3, 40))
    routed(fn, torch.randn(3, 40), launches=1)
    routed(fn, torch.randn(3, 32), launches=1)


def test_the_tuner_chooses(through):
    """The answer tells the config. Its keys are rounded, so that one choice serves many sizes."""
    ops.tag_tiles_kernel.fn.cache.clear()
    ops.tag_tiles_kernel.cache.clear()
    fn = through(ops.tag_tiles)
    for N, tile in ((16, 16), (32, 16), (64, 64), (40, 64)):
        x = torch.zeros(2, N)
        for _ in range(4):
            assert fn(x)[0, 0] == tile
        routed(fn, x, launches=1)


def test_an_autotuner_inside_an_entry(through):
    fn = through(ops.triple)
    warm(fn, torch.randn(70))
    routed(fn, torch.randn(70), launches=1)


def test_heuristics_alone_need_no_description(through):
    integrations.unregister("mini_gems")
    fn = through(ops.bare_heuristics)
    warm(fn, torch.randn(70))
    routed(fn, torch.randn(70), launches=1)


def test_dense_strides_in_python():
    """The polyfill agrees with the operator."""
    from trident_hook.integrations.polyfills import is_non_overlapping_and_dense

    base = torch.empty(4, 6, 5)
    tensors = [base, base.permute(2, 0, 1), base[:, ::2], base[:, :1], base[:0], base.expand(2, 4, 6, 5), base[0, 0, 0]]
    tensors += [base.as_strided(*layout) for layout in (((2, 3), (3, 1)), ((2, 2), (1, 1)), ((1, 4), (9, 1)))]
    for tensor in tensors:
        expected = torch.ops.aten.is_non_overlapping_and_dense(tensor)
        assert is_non_overlapping_and_dense(tensor) == expected, (tensor.shape, tensor.stride())


def test_pointwise_wrappers_are_made_at_first_use(through):
    ops._silu.overloads.clear()
    fn = through(ops.silu)
    warm(fn, torch.randn(5, 7))
    routed(fn, torch.randn(5, 7), launches=1)
    turned = torch.randn(7, 5).t()
    warm(fn, turned)
    warm(fn, torch.randn(5, 7).half())


def test_device_properties_are_asked_once(through):
    fn = through(ops.sm_count_of)
    warm(fn, torch.randn(32))
    routed(fn, torch.randn(32), launches=1)
    assert runtime.asked == ["sm_count"]


def test_a_buffer_with_an_offset_is_left_alone(through):
    fn = through(ops.shifted_double)
    warm(fn, torch.ones(32), 0)
    for _ in range(3):
        routed(twin(fn), torch.ones(32), 16, via="python")


def test_the_result_of_a_launcher_is_not_made_up(through):
    fn = through(ops.uses_the_result)
    for _ in range(2):
        assert fn(torch.ones(32))[1] is True
    assert counts(fn)["hits"] == 0
    assert "refused" in str(trident_hook.explain(fn))


@pytest.fixture
def quiet():
    yield
    for name in ("mini_gems.ops", "mini_gems"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", ["mini_gems.ops", "mini_gems"])
def test_a_log_level_that_changes_is_noticed(through, quiet, caplog, name):
    fn = through(ops.double_rows)
    x = torch.randn(3, 32)
    warm(fn, x)
    logging.getLogger(name).setLevel(logging.DEBUG)
    fn(x)
    assert "MINI DOUBLE" in caplog.text
    logging.getLogger(name).setLevel(logging.NOTSET)
    routed(fn, x, launches=1)


def test_logging_disabled_for_all(through, quiet, caplog):
    """`logging.disable` turns it off; what is on below is called again once it is lifted."""
    logging.getLogger("mini_gems.ops").setLevel(logging.DEBUG)
    logging.disable(logging.CRITICAL)
    fn = through(ops.double_rows)
    x = torch.randn(3, 32)
    warm(fn, x)
    logging.disable(logging.NOTSET)
    fn(x)
    assert "MINI DOUBLE" in caplog.text


def test_without_its_description_the_graph_breaks(through):
    integrations.unregister("mini_gems")
    fn = through(ops.double_rows)
    for _ in range(3):
        fn(torch.randn(3, 32))
    assert counts(fn)["hits"] == 0


def test_the_kernel_inside_is_guarded(through, monkeypatch):
    fn = through(ops.double_rows)
    x = torch.randn(3, 32)
    warm(fn, x)
    monkeypatch.setattr(ops.double_rows_kernel.fn, "values", dict(ops.double_rows_kernel.fn.values))
    routed(fn, x, via=None)
    monkeypatch.setattr(ops.double_rows_kernel, "fn", ops.silu_kernel.fn)
    assert route(fn, x) == 0


def route(fn, x) -> int:
    before = counts(fn)["hits"]
    with contextlib.suppress(Exception):
        fn(x)
    return counts(fn)["hits"] - before


def test_other_compiles_see_nothing():
    """The tables are Dynamo's own again behind a capture."""
    from torch._dynamo.variables.builder import VariableBuilder

    fn = trident_hook.jit(ops.double_rows)
    before = dict(VariableBuilder._type_dispatch()), dict(VariableBuilder._id_dispatch())
    warm(fn, torch.randn(3, 32))
    assert (dict(VariableBuilder._type_dispatch()), dict(VariableBuilder._id_dispatch())) == before


# -- called by the dispatcher ------------------------------------------------------------------------------------------


def test_an_operator_that_the_dispatcher_calls():
    x = torch.randn(6, 8)
    expected = ops.silu(x)
    with mini_gems.use_mini_gems("silu"), trident_hook.enable(include=[ops.silu]):
        for _ in range(4):
            got = torch.nn.functional.silu(x)
        assert same(got, expected)
        before = counts(ops.silu)
        torch.nn.functional.silu(x)
        after = counts(ops.silu)
    assert after["hits"] - before["hits"] == 1
    assert after["rt_launch"] - before["rt_launch"] == 1


def test_enable_finds_what_the_dispatcher_calls():
    x = torch.randn(6, 9)
    silu = ops.silu
    with mini_gems.use_mini_gems("silu"), trident_hook.enable():
        for _ in range(5):
            torch.nn.functional.silu(x)
        before = counts(silu)["hits"]
        torch.nn.functional.silu(x)
        assert counts(silu)["hits"] == before + 1


def test_autograd_around_an_operator_that_is_served():
    x = torch.randn(6, 8, requires_grad=True)
    plain = torch.nn.functional.silu(x.detach().requires_grad_())
    with mini_gems.use_mini_gems("silu"), trident_hook.enable(include=[ops.silu]):
        for _ in range(4):
            y = torch.nn.functional.silu(x)
        before = counts(ops.silu)["hits"]
        y = torch.nn.functional.silu(x)
        assert counts(ops.silu)["hits"] == before + 1
        assert y.grad_fn is not None
        (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.allclose(y, plain, atol=1e-6)
    assert gradient.shape == x.shape


@pytest.mark.parametrize(("machinery", "known"), [(("mini_gems.launchers",), False), (("mini_gems.launch",), True)])
def test_insides_of_launchers_are_not_discovered(described, machinery, known):
    """Like a tuner's closure that launches its kernel to time it: a function of the launcher's module."""
    kernel = ops.triple_kernel

    def bench(x):
        y = torch.empty_like(x)
        kernel[(2,)](x, y, x.numel())
        return y

    bench.__module__ = "mini_gems.launchers"
    integrations.register(dataclasses.replace(described, machinery=machinery))
    with trident_hook.enable():
        for _ in range(3):
            bench(torch.randn(70))
        assert trident_hook.explain(bench).known is known
