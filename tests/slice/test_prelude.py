"""The precompiled header: used when it is there, harmless when it is damaged, absent where there is no cache."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from trident_hook._config import config
from trident_hook._scm import compiler, native_module, prelude

SOURCE = """# cython: language_level=3
from tdh cimport *
cdef const tdh_rt_api* rt = NULL
answer = 42
"""


@pytest.fixture
def commands(monkeypatch, tmp_path):
    """The compiler's command lines, with a cache of their own."""
    seen = []
    plain = compiler._run

    def run(command, *args, **kwargs):
        if "-o" in command:
            seen.append(command)
        return plain(command, *args, **kwargs)

    monkeypatch.setattr(compiler, "_run", run)
    monkeypatch.setattr(config, "cache_dir", tmp_path / "cache")
    monkeypatch.setattr(prelude, "_ready", {})
    monkeypatch.setattr(prelude, "_maker", None)
    monkeypatch.setattr(prelude, "_given_up", False)
    if "clang" in compiler.compiler_version():
        pytest.skip("the precompiled header is GCC's")
    return seen


def compiled(folder: Path) -> bytes:
    folder.mkdir(exist_ok=True)
    (folder / "tdh_scm_module.pyx").write_text(SOURCE)
    target = folder / "tdh_scm_module.so"
    native_module.compile_c(compiler.cythonize(folder / "tdh_scm_module.pyx"), target)
    return target.read_bytes()


def test_the_second_module_uses_it(commands, tmp_path):
    first = compiled(tmp_path / "a")
    prelude.wait()
    second = compiled(tmp_path / "a")
    assert "-include" not in commands[0]
    assert "-include" in commands[1]
    assert first == second


def test_a_damaged_one_is_given_up(commands, tmp_path):
    prelude.options()
    prelude.wait()
    header = Path(prelude.options()[1])
    precompiled = header.with_name(header.name + ".gch")
    precompiled.write_bytes(precompiled.read_bytes()[:5000])
    header.write_text("#error not this one\n")
    assert compiled(tmp_path / "a")
    assert ["-include" in command for command in commands] == [True, False]
    assert not header.exists()
    assert prelude.options() == []


def test_another_header_makes_it_another_one(commands, tmp_path, monkeypatch):
    prelude.options()
    prelude.wait()
    before = prelude.options()
    headers = tmp_path / "headers"
    shutil.copytree(compiler.include_dir(), headers)
    (headers / "tdh_num.h").write_text((headers / "tdh_num.h").read_text() + "\n")
    monkeypatch.setattr(compiler, "include_dir", lambda: headers)
    assert before
    assert prelude.options() == []
    prelude.wait()
    assert prelude.options() not in ([], before)


def test_without_a_cache_there_is_none(commands, tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache", False)
    assert prelude.options() == []
    prelude.wait()
    assert prelude.options() == []
    assert not (tmp_path / "cache").exists()


def test_the_declarations_that_modules_share_change_nothing(tmp_path):
    """Cython says that several sources in one context are not quite supported: what comes out must be the same."""
    golden = sorted((Path(__file__).parents[1] / "codegen" / "golden").glob("*.pyx"))
    assert golden
    for path in golden:
        texts = []
        for folder in ("fresh", "shared"):
            if folder == "fresh":
                compiler._declarations.clear()
            copy = tmp_path / folder / path.stem / "tdh_scm_module.pyx"
            copy.parent.mkdir(parents=True)
            copy.write_text(path.read_text())
            texts.append(compiler.cythonize(copy).read_text())
        assert texts[0] == texts[1]
