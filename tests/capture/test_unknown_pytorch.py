"""A PyTorch whose Dynamo cannot be made to guard everything: nothing is served, and both users and `explain` are told."""

from __future__ import annotations

import sys
import types

import pytest

from trident_hook import _compat
from trident_hook.capture import recorder
from trident_hook.dynamo.patches import catalogue
from trident_hook.dynamo.patches.registry import patch
from trident_hook.functions.record import _callback


def test_nothing_is_captured(monkeypatch):
    refused = []
    record = types.SimpleNamespace(learning=types.SimpleNamespace(failed=refused.append))

    @patch("guards of tomorrow", gone_when="never")
    def of_tomorrow(changes):
        changes.replace(type(record), "a name that is not there", lambda original: original)

    monkeypatch.setattr(catalogue, "PATCHES", (*catalogue.PATCHES, of_tomorrow))
    with pytest.warns(UserWarning, match=r"serves nothing: Dynamo of PyTorch .* \(guards of tomorrow\)"):
        ours = recorder.Recorder(lambda code: record)
    answer = ours(sys._getframe(), None, None)
    assert (answer.guarded_code, answer.apply_to_code) == (None, False)
    assert [(refusal.slug, "guards of tomorrow" in refusal.detail) for refusal in refused] == [("pytorch", True)]


def test_this_pytorch_is_known():
    assert _callback().unknown == []


@pytest.mark.parametrize(
    ("version", "is_served"), [("2.10.0", False), ("2.11.0+cu130", True), ("2.12.1", False), ("2.14.1", False)]
)
def test_a_pytorch_that_is_not_proven_serves_nothing(monkeypatch, version, is_served):
    monkeypatch.setattr("torch.__version__", version)
    reason = _compat.unsupported_reason()
    assert (reason is None) == is_served
    assert is_served or version in reason
