"""The examples of the README and of the quickstart run as they stand there, and print what stands below them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
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


def test_the_quickstart_prints_what_it_says(tmp_path):
    """As one program; kernels must stand in a file. Without a GPU, on the simulated driver, as its last lines say."""
    text = (ROOT / "docs" / "quickstart.md").read_text()
    program = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    said = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert (len(program), len(said)) == (5, 4)
    if not torch.cuda.is_available():
        program.insert(0, "from trident_hook.testing import simdriver; simdriver.install()\n")
    file = tmp_path / "quickstart.py"
    file.write_text("\n".join(program))
    surroundings = os.environ | {"TRIDENT_HOOK_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=300, env=surroundings)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(said)


def test_every_file_that_the_documents_link_to_exists():
    missing = []
    for document in (ROOT / "docs").glob("*.md"):
        for target in re.findall(r"\]\(([\w./-]*\w)(?:#[\w-]+)?\)", document.read_text()):
            if not (document.parent / target).exists():
                missing.append(f"{document.name}: {target}")
    assert missing == []


#: Paths in the documents that are made, or that stand for others.
_NOT_IN_THE_TREE = ("trident_hook/_include", "trident_hook/_simcuda", "benchmarks/results/latest")


def test_every_path_that_the_documents_name_exists():
    """In backquotes, from the root of the tree or from the package."""
    missing = []
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        if document.name == "CHANGELOG.md":  # tells of what was
            continue
        for path in re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.[a-z]+)?)`", document.read_text()):
            roots = (ROOT, ROOT / "trident_hook", ROOT / "tests", document.parent)
            known = any((root / path).exists() for root in roots) or path.startswith(_NOT_IN_THE_TREE)
            if not known:
                missing.append(f"{document.name}: {path}")
    assert missing == []


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
