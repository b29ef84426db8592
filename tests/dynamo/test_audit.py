"""The list of places where Dynamo makes a constant of what it reads: of the installed PyTorch, none is without a verdict."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from trident_hook.dynamo import audit

PAGE = Path(__file__).parents[2] / "docs" / "dynamo_folds.txt"
OPEN = 78  # places of which nobody has shown that they cannot differ
VERDICTS = {"fixed", "dynamo", "ours", "refused", "open"}


def test_every_place_has_a_verdict():
    assert audit.without_verdict(PAGE) == []


def test_no_verdict_without_a_place():
    found = audit.verdicts(PAGE)
    assert set(found) <= set(audit.places(audit.dynamo_folder()))
    assert set(found.values()) <= VERDICTS


def test_what_is_open_becomes_less():
    assert Counter(audit.verdicts(PAGE).values())["open"] <= OPEN


def test_a_new_place_is_found(tmp_path):
    folder = tmp_path / "variables"
    folder.mkdir()
    (folder / "made_up.py").write_text(
        "class V:\n"
        "    def folded(self):\n        return ConstantVariable.create(self.value.name)\n"
        "    def guarded(self):\n        install_guard(self)\n        return ConstantVariable.create(self.value.name)\n"
        "    def literal(self):\n        return ConstantVariable.create(True)\n"
        "    def dropped(self):\n        return CONSTANT_VARIABLE_NONE\n"
        "    def with_source(self, tx):\n        return VariableTracker.build(tx, self.value, self.source)\n"
    )
    assert audit.places(tmp_path) == [
        "variables/made_up.py V.folded: ConstantVariable.create(self.value.name)",
        "variables/made_up.py V.dropped: return CONSTANT_VARIABLE_NONE",
    ]
