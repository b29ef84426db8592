"""Autotuners and heuristics keep their meaning: tuned once per key, by the tuner itself, and never inside a hit.

Benchmark runs are counted, in place of the measurement that a real driver would make."""

from __future__ import annotations

import inspect

import pytest
import torch
import triton
import triton.language as tl
from support.routes import routed, twin

import trident_hook
from trident_hook.testing import simdriver

from . import corpus
from . import kernels as k

X, Y = corpus.WIDE, torch.empty(400)


@pytest.fixture(autouse=True)
def measured(clean_slate, monkeypatch):
    """Configs in the order in which they were measured: the later a config, the better it does."""
    configs = []

    def measure(call, quantiles=None, **_):
        call()
        configs.append(inspect.getclosurevars(call).nonlocals["config"])
        return [1.0 / len(configs)] * len(quantiles) if quantiles is not None else 1.0 / len(configs)

    monkeypatch.setattr(simdriver, "_benchmark", measure)
    return configs


def served(kernel, *extra, **options):
    """A function under jit that launches the kernel, whose tuner knows nothing yet, for the first n numbers of X."""
    tuner = kernel
    while not isinstance(tuner, triton.runtime.Autotuner):
        tuner = tuner.fn
    tuner.cache.clear()
    vars(tuner).pop("do_bench", None)  # it keeps the benchmark of an earlier test

    def launch(x, y, n):
        kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, *extra, **options)

    return trident_hook.jit(twin(launch))


def calls(fn, n: int, times: int, y=None) -> int:
    """How many of so many calls were hits."""
    hits = trident_hook.counts(fn)["hits"]
    for _ in range(times):
        fn(X, Y if y is None else y, n)
    return trident_hook.counts(fn)["hits"] - hits


#: Kernels with `n` in their key, and how many configs the tuner of each measures.
KEYED = {"tuned_by_n": 4, "tuned_and_pruned": 2, "tuned_heuristic": 2, "heuristic_tuned": 2}


@pytest.mark.parametrize("name", KEYED)
def test_tuned_once_per_key(measured, name):
    kernel, each = getattr(k, name), KEYED[name]
    fn = served(kernel)
    for keys, n in enumerate((48, 40), 1):
        fn(X, Y, n)
        assert len(measured) == keys * each
        assert calls(fn, n, 4) >= 3
        assert len(measured) == keys * each, "tuned again for a known key"
    for n in (48, 40):
        assert calls(fn, n, 2) == 2
    twin(fn)(X, Y, 40)
    assert len(measured) == 2 * each, "the plain function did not find what our calls had tuned"


def test_a_key_that_was_tuned_before_is_not_tuned_again(measured):
    """One tuner, two functions, and plain calls: whoever comes first tunes."""
    fn, other = served(k.tuned), served(k.tuned)
    twin(fn)(X, Y, 48)
    assert len(measured) == 4
    for function in (fn, other):
        assert calls(function, 48, 3) == 2
    assert len(measured) == 4


def test_the_key_is_guarded():
    """Each value is a key. One for which the tuner chooses a config that is served already needs no further build."""
    fn = served(k.tuned_and_pruned)
    for n in (5, 7):  # the number becomes symbolic
        fn(X, Y, n)
    builds = trident_hook.explain(fn).builds
    for n in (11, 13, 77):
        routed(fn, X, Y, n, via="dynamo", reason="its tuner chose this config for")
        routed(fn, X, Y, n, via="scm", launches=1)
    for n in (5, 7, 11, 13, 77):
        routed(fn, X, Y, n, via="scm", launches=1)
    explained = trident_hook.explain(fn)
    assert (len(explained.specializations), explained.builds) == (2, builds)


def test_keys_with_another_config_are_another_specialization(monkeypatch):
    fn = served(k.tuned_and_pruned)
    for n in (5, 7, 11):
        fn(X, Y, n)
    before = len(trident_hook.explain(fn).specializations)
    asked = []

    def first_is_best(call, quantiles=None, **_):
        call()
        asked.append(call)
        return [float(len(asked))] * len(quantiles) if quantiles is not None else float(len(asked))

    monkeypatch.setattr(simdriver, "_benchmark", first_is_best)
    vars(k.tuned_and_pruned).pop("do_bench", None)
    for n in (13, 19):
        routed(fn, X, Y, n, via="dynamo", reason="its tuner chose this config for")
        routed(fn, X, Y, n, via="scm", launches=1)
    assert len(asked) == 2 * len(k.tuned_and_pruned.early_config_prune(k.tuned_and_pruned.configs, {}))
    assert len(trident_hook.explain(fn).specializations) == before + 1
    for n in (5, 7, 11, 13, 19):
        routed(fn, X, Y, n, via="scm", launches=1)


def test_a_function_at_its_limit_learns_keys():
    trident_hook.config.limit = 2
    fn = served(k.tuned_and_pruned)
    for n in (5, 7):
        fn(X, Y, n)
    assert len(trident_hook.explain(fn).specializations) == 2
    for n in (11, 13):
        routed(fn, X, Y, n, via="dynamo")
        routed(fn, X, Y, n, via="scm", launches=1)
    routed(fn, X, Y, 16, via="python")  # divisible by 16: another binary


def test_the_choice_depends_on_the_dtype(measured):
    fn = served(k.tuned_by_n)
    fn(X, Y, 48)
    routed(fn, X.half(), Y, 48, via="dynamo")
    assert len(measured) == 8
    routed(fn, X.half(), Y, 48, via="scm")
    routed(fn, X, Y, 48, via="scm")
    assert len(measured) == 8


@pytest.mark.parametrize(("name", "fresh"), [("tuned_with_reset", True), ("tuned_with_restore", False)])
def test_memory_that_tuning_puts_back(measured, name, fresh):
    """`reset_to_zero` zeroes once, before the first launch of a key; `restore_value` leaves no trace of tuning. Hits do
    neither."""
    simdriver.install(n_devices=2, interpret=True)
    fn = served(getattr(k, name))
    x = X[:32]
    y = torch.full((32,), 100.0)
    base = 0 if fresh else 100
    for count in range(1, 5):
        fn(x, y, 32)
        assert torch.equal(y, base + count * x), count
    assert len(measured) == 2
    assert trident_hook.counts(fn)["hits"] == 3


@pytest.mark.parametrize("kernel", [k.tuned, k.tuned_heuristic])
def test_options_that_every_config_sets(measured, kernel):
    """Triton raises a TypeError, and so do our calls, every time."""
    fn = served(kernel, num_warps=8)
    for _ in range(4):
        with pytest.raises(TypeError, match="multiple values for keyword argument 'num_warps'"):
            fn(X, Y, 48)
    assert trident_hook.counts(fn)["hits"] == 0


def test_an_option_that_no_config_sets(measured):
    fn = served(k.tuned_by_n, maxnreg=64)
    assert calls(fn, 48, 4) == 3
    assert len(measured) == 4
    routed(fn, X, Y, 48, via="scm", launches=1)


@triton.autotune(configs=k._configs(64, 128), key=["n"])
@triton.jit
def knows_its_warps(x, y, n, num_warps: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + num_warps, mask=i < n)


def test_an_option_that_is_a_parameter_too(measured):
    fn = served(knows_its_warps)
    for n in (48, 40):
        assert calls(fn, n, 4) >= 3
    assert len(measured) == 4


hooked = []


@triton.autotune(
    configs=k._configs(32, 64), key=["n"],
    pre_hook=lambda arguments, reset_only=False: hooked.append(("pre", reset_only)),
    post_hook=lambda arguments, exception: hooked.append(("post", exception)),
)  # fmt: skip
@triton.jit
def with_tuner_hooks(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def test_hooks_of_the_tuner_run_while_it_tunes(measured):
    hooked.clear()
    fn = served(with_tuner_hooks)
    assert calls(fn, 48, 4) == 3
    assert hooked == [("pre", False), ("post", None)] * 2 + [("pre", True)]


def test_a_pre_hook_of_a_config_runs_at_every_launch(measured, monkeypatch):
    """Such launches are refused, by name."""
    ran = []
    monkeypatch.setattr(k.tuned_with_hook.configs[0], "pre_hook", lambda arguments: ran.append(arguments["BLOCK"]))
    fn = served(k.tuned_with_hook)
    assert calls(fn, 48, 5) == 0
    assert ran == [64] * 5
    assert "pre_hook" in str(trident_hook.explain(fn).refusals)


def caching_tuner():
    """What a later process has: another tuner of the same kernel."""
    decorate = triton.autotune(configs=k._configs(32, 64), key=["n"], cache_results=True)
    return decorate(k.copy)


def test_choices_kept_on_disk(measured, monkeypatch, tmp_path):
    monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path))
    assert calls(served(caching_tuner()), 48, 4) == 3
    assert len(measured) == 2
    fn = served(caching_tuner())
    assert calls(fn, 48, 4) == 3
    assert len(measured) == 2, "the choice was not taken from disk"
    routed(fn, X, Y, 48, via="scm", launches=1)


def test_a_heuristic_is_guarded(measured):
    """Its value is part of the binary: sizes for which it differs are other specializations, the rest share one."""

    def launch(x, y, n):
        k.heuristic[(4,)](x, y, n, BLOCK=32)

    fn = trident_hook.jit(launch)
    for n in (33, 35, 37):
        fn(X, Y, n)
    routed(fn, X, Y, 39, via="scm", launches=1)
    routed(fn, X, Y, 64, via="dynamo")
    routed(fn, X, Y, 64, via="scm", launches=1)
    routed(fn, X, Y, 39, via="scm", launches=1)
    assert not measured
