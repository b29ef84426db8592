"""The judges on a small number of states. The bar (100,000 states and more) is `python -m tests.judges.run`."""

from __future__ import annotations

import gc

import pytest
import torch

import trident_hook
from trident_hook._config import config
from trident_hook.testing import simdriver

from . import run

#: Corpus functions that Dynamo or we refuse, and why that is right. A refused function says nothing about guards.
REFUSED = {
    "asks_inference_mode": "Dynamo breaks the graph at torch.is_inference_mode_enabled",
    "asks_the_rest": "Dynamo breaks the graph at torch.get_num_threads",
    "asks_precision": "Dynamo breaks the graph at torch.get_float32_matmul_precision",
    "offset_read": "Dynamo breaks the graph at storage_offset()",
    "is_view_or_not": "Dynamo breaks the graph at _is_view()",
    "conjugate": "Dynamo breaks the graph at is_conj()",
    "changes_grad_mode": "a graph that changes the grad mode is refused",
    "two_numbers": "it compares the identity of two numbers",
    "buffer_or_not": "the mark of a torch.nn.Buffer is not guarded",
    "set_changed": "where the members of a changed set are depends on what it was before",
    "set_asked_and_changed": "where the members of a changed set are depends on what it was before",
    "counts_in_cell": "it writes a variable of the function around it",
    "weak_reference": "Dynamo compares what a weak reference returns with its argument",
    "numpy_given": "numpy arrays are made tensors before the graph",
    "zipped": "Dynamo does not follow a zip object that is an argument",
    "python_random": "Dynamo breaks the graph at random.random",
    "numpy_random": "Dynamo breaks the graph at numpy.random",
    "global_or_default": "Dynamo does not trace a NameError",
    "globals_asked": "Dynamo breaks the graph at globals().get",
    "context_variable": "Dynamo breaks the graph at ContextVar.get",
}


@pytest.fixture(autouse=True)
def clean_slate(tmp_path_factory):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: the simulated driver cannot be loaded beside the real one")
    settings = dict(vars(config))
    config.build, config.cache_dir = "sync", tmp_path_factory.mktemp("modules")
    simdriver.install()
    yield
    trident_hook.disable()
    for name, value in settings.items():
        setattr(config, name, value)
    torch._dynamo.reset()
    gc.collect()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_hit_is_wrong():
    total = run.judge(states=6000, seed=1, courts=1, several=1)
    assert not total.violations, run.report(total)
    assert {name.split("#")[0] for name in total.refused} <= set(REFUSED), run.report(total)
    assert total.hits > 1500, run.report(total)


@pytest.mark.timeout(300)
def test_some_with_several_specializations():
    total = run.judge(
        states=900, seed=2, courts=0, several=3, only="double,add_two,plus_symbol,dict_read,global_instance"
    )
    assert not total.violations, run.report(total)
    assert total.hits > 100, run.report(total)


def test_the_judges_see_a_wrong_hit(monkeypatch):
    """A guard that is left out on purpose is found by both judges."""
    from trident_hook.capture.guards import translate

    original = translate.GuardTranslator.translate
    monkeypatch.setattr(
        translate.GuardTranslator, "translate", lambda self: [g for g in original(self) if g.kind != "equals"]
    )
    total = run.judge(states=200, seed=3, courts=1, several=1, only="times_float")
    assert {judge for judge, *_ in total.violations} == {"dynamo", "eager"}, run.report(total)
