"""How specializations come, share a module, and end: alternation, the limit, refusals with a reason."""

from __future__ import annotations

import warnings

import pytest
import torch
from support import programs
from support.routes import counted, routed, same, twin, warm

import trident_hook
from trident_hook.functions import last_miss
from trident_hook.misses.explain_miss import MissInspector


def test_aligned_and_misaligned_alternate(through):
    fn = through(programs.shift)
    storage = torch.randn(65)
    aligned, misaligned = storage[:64], storage[1:]
    warm(fn, aligned, 3)
    warm(fn, misaligned, 3)
    with counted(fn) as added:
        for _ in range(50):
            assert torch.equal(fn(aligned, 3), aligned + 3)
            assert torch.equal(fn(misaligned, 3), misaligned + 3)
    assert (added["hits"], added["misses"]) == (100, 0)
    explanation = trident_hook.explain(fn)
    assert (len(explanation.specializations), explanation.builds) == (2, 2)


def dtypes():
    return [
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int32,
        torch.int64,
        torch.int16,
        torch.int8,
    ]


def test_all_specializations_keep_serving(through):
    fn = through(programs.shift)
    inputs = [torch.arange(16).to(d) for d in dtypes()]
    for x in inputs:
        warm(fn, x, 3)
    with counted(fn) as added:
        for _ in range(3):
            for x in [*inputs, *reversed(inputs)]:
                assert torch.equal(fn(x, 3), x + 3)
    assert added["hits"] == 6 * len(inputs)
    assert len(trident_hook.explain(fn).specializations) == len(inputs)


def test_the_limit_is_honoured_quietly(through):
    trident_hook.config.limit = 2
    fn = through(programs.shift)
    first, second, third, fourth = (torch.arange(16).to(d) for d in dtypes()[:4])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warm(fn, first, 3)
        warm(fn, second, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for x in (third, fourth, third, fourth, third):
            routed(fn, x, 3, via="over")
    ours = [w for w in caught if "trident_hook" in str(w.message)]
    assert len(ours) == 1, "one warning, at the first call that found the function full"
    assert "shift" in str(ours[0].message)
    assert "2" in str(ours[0].message)
    explanation = trident_hook.explain(fn)
    assert explanation.full
    assert "limit" in str(explanation)
    assert "dtype" not in explanation.last_miss
    assert len(explanation.specializations) == 2
    routed(fn, first, 3, via="scm")
    routed(fn, second, 3, via="scm")


def test_calls_beyond_the_limit_are_looked_at_now_and_then(served, monkeypatch):
    """Looking at each would make every such call of a function with many specializations cost several times a plain one."""
    trident_hook.config.limit = 1
    fn, looked, now = served(programs.shift), [], [100.0]
    warm(fn, torch.arange(16.0), 3)
    monkeypatch.setattr(MissInspector, "look", lambda *a, look=MissInspector.look: looked.append(1) or look(*a))
    monkeypatch.setattr(last_miss.time, "monotonic", lambda: now[0])
    with pytest.warns(UserWarning, match="keeps what it has"):
        fn(torch.arange(16).half(), 3)
    for _ in range(199):
        fn(torch.arange(16).half(), 3)
    assert len(looked) == 16 + 1
    fn(torch.arange(16).double(), 3)
    assert "seen Tensor(torch.float16" in trident_hook.explain(fn).last_miss
    now[0] += 0.11
    fn(torch.arange(16).double(), 3)
    assert "seen Tensor(torch.float64" in trident_hook.explain(fn).last_miss


def test_the_limit_of_rebuilds(served):
    trident_hook.config.rebuilds = 2
    fn = served(programs.shift)
    for dtype in dtypes()[:2]:
        warm(fn, torch.arange(16).to(dtype), 3)
    routed(fn, torch.arange(16).half(), 3, via="over", reason="at its limit")


def test_a_graph_break_is_refused_with_its_reason(through):
    fn, x = through(programs.breaking), torch.randn(16)
    routed(fn, x, via="dynamo")
    explanation = trident_hook.explain(fn)
    assert explanation.refused
    assert "graph-break" in explanation.refused
    for _ in range(3):
        routed(fn, x, via="alone", reason="graph-break")
    assert not explanation.specializations


def test_a_data_dependent_branch_is_refused(through):
    fn, x = through(branching), torch.randn(16).abs()
    routed(fn, x, via="dynamo")
    routed(fn, -x, via="alone", reason="graph-break")
    routed(fn, x, via="alone")


def branching(x):
    return programs.shift(x, 3) if x.sum() > 0 else x


def test_a_size_that_depends_on_data(served):
    fn = served(data_dependent)
    x = torch.tensor([1.0, 0.0, 2.0])
    for value in (x, x, torch.ones(3), torch.zeros(3), torch.ones(3)):
        routed(fn, value, via=None)
    assert trident_hook.counts(fn)["hits"] == 3, "a size of 0 or 1 is the plain function's"


def data_dependent(x):
    return torch.nonzero(x) + 1


def test_printing_is_not_swallowed(served, capsys):
    fn, x = served(printing), torch.randn(16)
    for n in range(1, 5):
        fn(x)
        assert capsys.readouterr().out == "seen\n", n


def printing(x):
    print("seen")
    return programs.shift(x, 3)


def test_random_numbers_advance_the_generator(served):
    fn, x = served(noisy), torch.randn(16)
    for _ in range(3):
        torch.manual_seed(7)
        got = [fn(x) for _ in range(2)]
        torch.manual_seed(7)
        assert same(got, [twin(fn)(x) for _ in range(2)])
        assert not torch.equal(got[0], got[1])


def noisy(x):
    y = torch.empty_like(x)
    programs.shift_kernel[(1,)](x, y, 3, x.numel(), BLOCK=64)
    return y + torch.rand(16)


def test_an_autotuned_kernel(through):
    from trident_hook.testing import workloads

    fn = through(workloads.matmul)
    a, b = torch.randn(20, 24), torch.randn(24, 18)
    twin(fn)(a, b)  # the choice depends on timing: made once, shared by both
    warm(fn, a, b)
    routed(fn, a, b, via="scm", launches=1)


def test_a_failed_capture_does_not_harm_what_is_there(served):
    fn, x = served(sometimes_breaking), torch.randn(16)
    warm(fn, x, False)
    for _ in range(5):
        routed(fn, x, True, via=None)
    routed(fn, x, False, via="scm")


def sometimes_breaking(x, flag):
    if flag:
        torch._dynamo.graph_break()
    return programs.shift(x, 3) + int(flag)


def test_the_same_text_for_two_functions(served):
    """Two functions whose modules are the same file on disk do not share anything at run time."""
    one, two = served(programs.shift), served(programs.shift)
    x = torch.randn(16)
    warm(one, x, 3)
    warm(two, x, 3)
    assert trident_hook.explain(one).source == trident_hook.explain(two).source
    routed(one, x, 3, via="scm")
    del two
    routed(one, x, 3, via="scm")


@pytest.mark.parametrize("text", ["specialization 0", "guard 0", "launch shift_kernel", "return"])
def test_explain_tells_the_whole_path(served, text):
    fn = served(programs.shift)
    warm(fn, torch.randn(16), 3)
    assert text in str(trident_hook.explain(fn))
