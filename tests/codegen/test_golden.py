"""Generated modules as text: the same in every process, readable, and changed only on purpose.

TRIDENT_HOOK_UPDATE_GOLDEN=1 pytest tests/codegen/test_golden.py writes the files anew; read the difference before you
commit it, and raise GENERATOR in trident_hook/codegen/module.py."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import golden_cases
import pytest
import torch
from support import processes, slate

GOLDEN = Path(__file__).resolve().parent / "golden"
UPDATE = os.environ.get("TRIDENT_HOOK_UPDATE_GOLDEN") == "1"
UPDATE_HINT = "if it should: TRIDENT_HOOK_UPDATE_GOLDEN=1 pytest tests/codegen/test_golden.py"


@pytest.fixture(autouse=True)
def on_the_simulated_driver(tmp_path_factory):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: the simulated driver cannot be loaded beside the real one")
    with slate.clean(tmp_path_factory.getbasetemp() / "golden-modules"):
        yield


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.pyx").read_text()


@pytest.mark.parametrize("name", golden_cases.CASES)
def test_the_text_is_as_it_was(name):
    text = golden_cases.normalised(golden_cases.raw_source(name))
    if UPDATE:
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / f"{name}.pyx").write_text(text)
    assert text == golden(name), f"the text that is generated for {name} changed; {UPDATE_HINT}"


@pytest.mark.parametrize("name", golden_cases.CASES)
def test_the_second_time_is_like_the_first(name):
    """Whatever Dynamo numbers, counts or remembers in between."""
    first = golden_cases.raw_source(name)
    for other in golden_cases.CASES:
        if other != name:
            golden_cases.raw_source(other)
            break
    assert golden_cases.raw_source(name) == first


@pytest.mark.slow
def test_another_process_writes_the_same():
    """Another hash seed, other addresses, another folder, and the functions in one process in this order."""
    out, _ = processes.run(str(Path(golden_cases.__file__)), PYTHONHASHSEED="4321")
    texts = json.loads(out)
    assert texts.keys() == golden_cases.CASES.keys()
    for name, text in texts.items():
        assert text == golden(name), name


def test_no_file_without_its_case():
    assert {path.name for path in GOLDEN.iterdir()} == {f"{name}.pyx" for name in golden_cases.CASES}


@pytest.mark.parametrize("name", golden_cases.CASES)
def test_nothing_of_this_machine_is_in_it(name):
    text = golden(name)
    assert not re.search(r" at 0x[0-9a-f]+", text), "an address"
    assert not re.search(r"(?<![\w.])/(usr|home|root|tmp|opt|work|var|lib)\b", text), "a path"
    assert not re.search(r"\b[0-9a-f]{24,}\b", re.sub(r"0x[0-9a-f]+ULL", "", text)), "a digest"
    for number in map(int, re.findall(r"(?<![\w.])\d{10,}(?![\w.])", text)):
        assert number in (2**31, 2**31 - 1, 2**32 - 1, 2**63 - 1), f"{number} looks like the id of an object"


@pytest.mark.parametrize("name", golden_cases.CASES)
def test_it_is_readable(name):
    text = golden(name)
    assert f"# Specialization Cache Module of {qualified(name)}" in text
    assert "Do not edit" in text
    lines = text.splitlines()
    comments = [line for line in lines if line.lstrip().startswith("#")]
    assert len(comments) >= 10
    assert "torch" in text


def qualified(name: str) -> str:
    function = golden_cases.CASES[name][0]
    return f"{function.__module__}.{function.__qualname__}"


@pytest.mark.parametrize("name", golden_cases.CASES)
def test_every_argument_guard_names_what_it_protects(name):
    """Above each way out of the guards stands a comment, or the line itself says what it reads."""
    text = golden(name)
    for argument in ("x", "weight") if name != "silu" else ("x",):
        if (
            argument
            in golden_cases.CASES[name][0].__code__.co_varnames[: golden_cases.CASES[name][0].__code__.co_argcount]
        ):
            assert re.search(rf"# .*L\['{argument}'\]", text), argument


def test_a_generated_module_includes_the_contract_only():
    for name in golden_cases.CASES:
        assert set(re.findall(r"^\s*from (\S+) cimport", golden(name), re.MULTILINE)) == {"libc.stdint", "tdh"}
        assert not re.search(r"^\s*(import|#include) ", golden(name), re.MULTILINE)
