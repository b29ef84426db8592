"""A fixed sample of PyTorch's operators; `python -m tests.opinfo.run` takes all of them."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest
import torch

import trident_hook
from opinfo import run
from opinfo.check import Verdict, check
from opinfo.database import operators
from trident_hook._config import config

SERVED = [
    "add", "sub", "mul", "addmm", "softmax", "var_mean", "topk", "split", "index_select", "gather", "nn_functional_gelu",
    "nn_functional_layer_norm", "masked_fill", "cumsum", "sort", "native_layer_norm", "where", "amax", "flip",
    "linalg_svd", "masked_cumprod", "nn_functional_linear", "histc", "view_as_complex", "nn_functional_embedding",
]  # fmt: skip

#: It may fail by its data, and is an effect; the function hands the tensors on in a container that Dynamo makes anew.
REFUSED = {"linalg_svd": {"out": "order-of-errors"}}


@pytest.fixture(scope="module", autouse=True)
def settings(tmp_path_factory):
    before, threads = dict(vars(config)), torch.get_num_threads()
    config.build, config.cache_dir = "sync", tmp_path_factory.mktemp("modules")
    torch.set_num_threads(1)
    yield
    assert trident_hook.settle(120)
    torch.set_num_threads(threads)
    for name, value in before.items():
        setattr(config, name, value)


@pytest.mark.parametrize("name", SERVED)
def test_operator_is_eagers(name):
    torch._dynamo.reset()
    verdict = check(operators()[name], samples=1)
    assert any(outcome == "served" for outcome, _ in verdict.cases.values()), verdict
    refused = {case: why for case, (outcome, why) in verdict.cases.items() if outcome in ("refused", "wrong")}
    assert {case: why.split(":")[0] for case, why in refused.items()} == REFUSED.get(name, {}), verdict


def with_constant(x):
    a = torch.tensor([1.0, 2.0, 3.0])
    a.add_(1)
    return x * a, a


def without_grad(x, index):
    with torch.no_grad():
        y = torch.index_select(x + 1, 0, index)
    return x.sum() * y, y.requires_grad


def leaves_grad_mode_off(x):
    y = x * 2
    torch.set_grad_enabled(False)
    return y + x * 3


def list_as_a_whole(x):
    parts = x.split(2)
    return torch.cat(parts), parts[0] + 1, parts[0]


def warmed(fn, *args):
    fn = trident_hook.jit(fn)
    fn(*args)
    before = trident_hook.counts(fn)["hits"]
    answer = fn(*args)
    assert trident_hook.counts(fn)["hits"] == before + 1, trident_hook.explain(fn)
    return fn, answer


def test_a_constant_is_made_anew_in_every_call():
    x = torch.ones(3)
    fn, (_, first) = warmed(with_constant, x)
    first.add_(100)
    product, second = fn(x)
    assert second is not first
    assert second.tolist() == product.tolist() == [2.0, 3.0, 4.0]


def test_no_grad_inside_the_function():
    x = torch.ones(3, requires_grad=True)
    fn, (product, flag) = warmed(without_grad, x, torch.tensor([0, 2]))
    assert product.requires_grad
    assert flag is False
    with pytest.raises(IndexError):
        fn(x, torch.tensor([0, 7]))
    assert torch.is_grad_enabled()


def test_a_grad_mode_that_stays_changed():
    x = torch.ones(3, requires_grad=True)
    fn = trident_hook.jit(leaves_grad_mode_off)
    try:
        for _ in range(3):
            torch.set_grad_enabled(True)
            assert fn(x).requires_grad is False
            assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_a_returned_list_used_as_a_whole():
    x = torch.arange(5.0)
    _, (whole, plus, part) = warmed(list_as_a_whole, x)
    assert torch.equal(whole, x)
    assert torch.equal(plus, x[:2] + 1)
    assert part.data_ptr() == x.data_ptr()


# -- the report ----------------------------------------------------------------------------------------------------------


def verdict(name, **cases):
    whole = Verdict(
        name, {case: tuple(found.split(": ", 1)) if ": " in found else (found, "") for case, found in cases.items()}
    )
    return {"name": name, "outcome": whole.outcome, "reason": whole.reason, "cases": whole.cases, "seconds": 1.0}


def test_what_the_report_counts():
    verdicts = [
        verdict("a", x="served", y="served"),
        verdict("b", x="served", y="not captured: a break"),
        verdict("c", x="served", y="refused: guard: why", z="not captured: a break"),
        verdict("d", x="refused: guard: another", y="wrong: result differs"),
        verdict("e", x="not captured: a break", y="skipped: eager raises"),
        verdict("f", x="skipped: eager raises"),
        verdict("g"),
    ]
    assert [v["outcome"] for v in verdicts] == [
        "served", "served", "refused", "wrong", "not captured", "skipped", "skipped"
    ]  # fmt: skip
    found = run.summary(verdicts)
    assert found["operators"]["captured_by_dynamo"] == 4
    assert found["operators"]["served_of_captured"] == 0.5
    assert found["operators"]["served_but_for_cases_that_dynamo_does_not_capture"] == 1
    assert found["cases"]["captured_by_dynamo"] == 7
    assert found["refused_by_reason"] == {"guard": ["c", "d"]}
    text = run.table(run.make_report(verdicts, {"device": "cpu"}, 1.0))
    assert "| wrong | 1 | 1 |" in text
    assert "- result differs: d (y)" in text


def test_a_run_that_is_cut_off_goes_on(monkeypatch):
    asked = []

    class Member:
        def __init__(self, device):
            self.process = types.SimpleNamespace(poll=lambda: None)

        def ask(self, name):
            asked.append(name)
            return verdict(name, x="served")

        def close(self):
            pass

    monkeypatch.setattr(run, "Worker", Member)
    kept = []
    assert run.run(["a", "b"], 2, seconds=-1.0, keep=kept.append) == []
    found = run.run(["a", "b", "c"], 2, known={"b": verdict("b", x="served")}, keep=kept.append)
    assert [v["name"] for v in found] == ["a", "b", "c"]
    assert sorted(asked) == ["a", "c"] == sorted(v["name"] for v in kept)


def test_an_operator_that_kills_its_process():
    """`ask` tells the death of the process; nothing waits for an answer that never comes."""
    member = object.__new__(run.Worker)
    member.process = subprocess.Popen(
        [sys.executable, "-c", "import os; input(); os._exit(7)"],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    answer = member.ask("boom")
    assert (answer["outcome"], answer["reason"]) == ("wrong", "the process ended with 7")
