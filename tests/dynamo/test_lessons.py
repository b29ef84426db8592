"""What Dynamo is taught proves itself: each trial passes, and fails where its lesson is taken out."""

from __future__ import annotations

import json
import sys
import types

import pytest

import trident_hook
from trident_hook import _compat
from trident_hook._scm import cache
from trident_hook.capture.recorder import Recorder
from trident_hook.dynamo import prove
from trident_hook.dynamo.patches import catalogue, identity
from trident_hook.functions import lessons, record

LESSONS = [patch for patch in catalogue.PATCHES if patch.is_lesson]
#: Lessons whose trials Dynamo passes by itself from a version on. They stay: a trial is one program of many.
SUPERFLUOUS = {"class_literals": (2, 12), "names": (2, 12)}


def test_every_lesson_has_trials():
    without = {lesson.fill.__name__ for lesson in LESSONS if lesson.trials is None or not list(lesson.trials())}
    assert without == set()


def test_every_lesson_is_proven_here():
    assert prove.unproven() == []


@pytest.fixture
def no_bound_handlers():
    """Dynamo binds handlers of builtins once: those of other tests are bound to what was in place then."""

    def forget():
        for change in identity.addresses.changes():
            if isinstance(change._ours, dict):
                change._ours.clear()

    forget()
    yield
    forget()


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.fill.__name__)
def test_a_lesson_that_is_taken_out_is_not_proven(lesson, monkeypatch, no_bound_handlers):
    monkeypatch.setattr(catalogue, "PATCHES", tuple(patch for patch in catalogue.PATCHES if patch is not lesson))
    is_missed = _compat.torch_version() < SUPERFLUOUS.get(lesson.fill.__name__, (99,))
    assert prove.unproven([lesson]) == ([lesson.about] if is_missed else [])


def test_a_lesson_that_only_finds_its_names_is_not_proven(monkeypatch):
    """As in a PyTorch that no longer comes past the place."""
    from trident_hook.dynamo.patches import left_out_guards

    idle = types.SimpleNamespace(**{**vars(left_out_guards.dict_keys), "is_wanted": True, "changes": lambda: [1]})
    monkeypatch.setattr(catalogue, "PATCHES", tuple(p for p in catalogue.PATCHES if p is not left_out_guards.dict_keys))
    assert prove.unproven([idle]) == ["keys of dicts"]


def test_the_outcome_is_remembered(monkeypatch, tmp_path):
    monkeypatch.setattr(trident_hook.config, "cache_dir", tmp_path)
    asked = []
    monkeypatch.setattr(prove, "unproven", lambda: asked.append(1) or ["keys of dicts"])
    for _ in range(2):
        lessons.unproven.cache_clear()
        assert lessons.unproven() == ("keys of dicts",)
    assert len(asked) == 1
    for damaged in (b"", b"{", json.dumps({"a": 1}).encode()):
        cache.write_note(lessons._key(), damaged)
        lessons.unproven.cache_clear()
        assert lessons.unproven() == ("keys of dicts",)
    assert len(asked) == 4
    assert "keys of dicts" in str(trident_hook.status())
    lessons.unproven.cache_clear()


def test_what_is_not_proven_is_refused_by_name(monkeypatch):
    refused = []
    known = types.SimpleNamespace(learning=types.SimpleNamespace(failed=refused.append))
    with pytest.warns(UserWarning, match="keys of dicts"):
        recorder = Recorder(lambda code: known, ("keys of dicts",))
    recorder(sys._getframe(), None, None)
    assert [(one.slug, "keys of dicts" in one.detail) for one in refused] == [("pytorch", True)]


def test_explain_names_it(monkeypatch):
    monkeypatch.setattr(record, "_recorder", None)
    monkeypatch.setattr(lessons, "unproven", lambda: ("keys of dicts",))
    monkeypatch.setattr(trident_hook.config, "build", "sync")

    def doubles(x):
        return x * 2

    import torch

    served = trident_hook.jit(doubles)
    with pytest.warns(UserWarning, match="serves nothing"):
        assert served(torch.ones(2)).tolist() == [2.0, 2.0]
    assert "keys of dicts" in str(trident_hook.explain(doubles))
