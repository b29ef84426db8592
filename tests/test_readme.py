"""The README's examples run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from support import slate
from support.routes import twin

import trident_hook
from trident_hook._variables import NAMES
from trident_hook.testing import workloads

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def names(tmp_path):
    """What the examples take for granted: a model, its input, a function that launches a kernel."""
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: the simulated driver cannot be loaded beside the real one")
    with slate.clean(tmp_path):
        yield {"x": torch.randn(64), "model": twin(workloads.silu), "rms_norm": twin(workloads.rms_norm)}


def test_there_are_examples():
    assert len(BLOCKS) >= 2


def test_the_examples_in_their_order(names, capsys):
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)
    assert torch.equal(names["y"], workloads.silu(names["x"]))
    assert trident_hook.explain(names["model"]).known, "found by itself"
    printed = capsys.readouterr().out
    assert "trident_hook is" in printed
    assert "0 hits" in printed
    assert not trident_hook.status().enabled


def test_what_the_examples_made_serves(names):
    exec(compile("\n".join(BLOCKS), "README.md", "exec"), names)
    fast, args = names["fast"], (torch.randn(4, 64), torch.randn(64))
    expected = workloads.rms_norm(*args)
    for _ in range(3):
        assert all(map(torch.equal, fast(*args), expected))
    assert trident_hook.counts(names["rms_norm"])["hits"] == 2


def test_every_file_that_the_readme_links_to_exists():
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text())
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_every_setting_that_the_documents_name_exists():
    """A variable in the documents that nothing reads would send people astray."""
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        named = set(re.findall(r"TRIDENT_HOOK_[A-Z_]+", document.read_text()))
        assert named <= set(NAMES), f"{document.name}: {sorted(named - set(NAMES))}"


def test_every_setting_that_is_read_has_a_known_name():
    """One that is missing in the list would be called a typing error."""
    files = [
        *(ROOT / "trident_hook").rglob("*.py"),
        *ROOT.glob("*.py"),
        *(ROOT / "scripts").glob("*.sh"),
        ROOT / "Makefile",
    ]
    named = {name for path in files for name in re.findall(r"TRIDENT_HOOK_[A-Z_]*[A-Z]", path.read_text())}
    assert len(named) > 10
    assert named - set(NAMES) - {"TRIDENT_HOOK_TRIAL_OF_LESSONS"} == set()  # a trial sets that one, and takes it away


def test_every_setting_is_in_the_documents():
    text = "\n".join(
        path.read_text() for path in [ROOT / "setup.py", *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    )
    config = (ROOT / "trident_hook" / "_config.py").read_text()
    missing = [name for name in NAMES if name not in text and name not in config]
    assert set(missing) <= {"TRIDENT_HOOK_UPDATE_GOLDEN"}  # tests/codegen/test_golden.py says what it does


def test_every_refusal_is_explained():
    """docs/misses.md names each reason that the code can give."""
    written = re.findall(r"`([a-z:.-]+)`", (ROOT / "docs" / "misses.md").read_text())
    for source in (ROOT / "trident_hook").rglob("*.py"):
        for slug in re.findall(r"Unsupported\(\s*\"([a-z-]+)\"", source.read_text()):
            assert slug in written, f"{source.name}: {slug}"
