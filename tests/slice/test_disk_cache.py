"""Compiled modules on disk: found again, never mixed up, never trusted when damaged."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile

import pytest
import torch
from support import processes, programs
from support.routes import routed, warm

import trident_hook
from trident_hook._scm import cache, compiler, loader, native_module, prelude

X = torch.arange(32, dtype=torch.float32)


@pytest.fixture
def folder(tmp_path):
    """An empty cache."""
    trident_hook.config.cache_dir = tmp_path / "cache"
    return trident_hook.config.cache_dir


@pytest.fixture
def compilations(monkeypatch):
    """The modules that were compiled, as a growing list."""
    made = []

    def compile_c(source, target):
        made.append(target)
        return plain(source, target)

    plain = native_module.compile_c
    monkeypatch.setattr(native_module, "compile_c", compile_c)
    return made


def files(folder):
    """The modules' files, and whatever else lies there; the simulated driver keeps its library in the same place, and the first
    capture of a process its note of the lessons."""
    prelude.wait()
    names = (
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.*")
        if path.suffix not in (".txt", ".note") and path.is_file()
    )
    others = re.compile(r"simcuda-.*|prelude/[0-9a-f]{32}/tdh_prelude\.h(\.gch)?")
    return sorted(name for name in names if not others.fullmatch(name))


def only_module(folder):
    (path,) = folder.rglob("*.so")
    return path


def test_a_module_is_compiled_once(served, folder, compilations):
    for _ in range(3):
        warm(served(programs.shift), X, 3)
    assert len(compilations) == 1
    module, (unit,) = only_module(folder), folder.rglob("*.o")
    expected = [module.with_suffix(".pyx"), module, unit]
    assert files(folder) == sorted(path.relative_to(folder).as_posix() for path in expected)
    for path in (module, unit):
        assert path.parent.name == path.name[:2]


def test_the_source_lies_beside_the_module(served, folder):
    fn = served(programs.shift)
    warm(fn, X, 3)
    source = only_module(folder).with_suffix(".pyx").read_text()
    assert source == trident_hook.explain(fn).source
    assert cache.key_of(source) == only_module(folder).stem


def test_another_folder_is_another_cache(served, folder, compilations, tmp_path):
    warm(served(programs.shift), X, 3)
    trident_hook.config.cache_dir = tmp_path / "another"
    warm(served(programs.shift), X, 3)
    assert len(compilations) == 2


def test_without_a_cache_nothing_is_read_or_written(served, folder, compilations):
    trident_hook.config.cache = False
    for _ in range(2):
        warm(served(programs.shift), X, 3)
    assert len(compilations) == 2
    assert not folder.exists()


@pytest.mark.parametrize("cached", [True, False])
def test_nothing_is_left_among_the_temporary_files(served, folder, cached, monkeypatch, tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    trident_hook.config.cache = cached
    warm(served(programs.shift), X, 3)
    assert os.listdir(temporary) == []


def test_a_cache_that_cannot_be_written_does_no_harm(served, tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    trident_hook.config.cache_dir = in_the_way / "below"
    warm(served(programs.shift), X, 3)


# -- damage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["empty", "text", "head only", "another library"])
def test_a_damaged_file_is_built_again(served, folder, compilations, damage):
    warm(served(programs.shift), X, 3)
    module = only_module(folder)
    good = module.read_bytes()
    another = shutil.copyfile(loader_of_something(), module.with_name("other")) if damage == "another library" else None
    bad = {
        "empty": lambda: b"",
        "text": lambda: b"not a library\n" * 100,
        "head only": lambda: good[:50],
        "another library": lambda: another.read_bytes(),
    }[damage]()
    if another:
        another.unlink()
    module.write_bytes(bad)
    warm(served(programs.shift), X, 3)
    assert len(compilations) == 2
    assert only_module(folder).stat().st_size > 10_000
    warm(served(programs.shift), X, 3)
    assert len(compilations) == 2


def loader_of_something() -> str:
    """A shared library that is no module of ours."""
    import _ctypes

    return _ctypes.__file__


TRUNCATED = """
x = torch.arange(32, dtype=torch.float32)
warm(trident_hook.jit(programs.shift), x, 3)
"""


@pytest.mark.slow
def test_a_truncated_file_is_built_again(served, folder):
    """What a full disk or a power cut leaves. In a process of its own, as it can end one."""
    warm(served(programs.shift), X, 3)
    module = only_module(folder)
    good = module.read_bytes()
    module.write_bytes(good[: len(good) // 2])
    processes.run_program(TRUNCATED, TRIDENT_HOOK_CACHE_DIR=str(folder))
    assert module.read_bytes()[:4] == good[:4]
    assert module.stat().st_size > len(good) // 2


def test_a_module_of_another_abi_is_never_entered(served, folder, monkeypatch, tmp_path):
    headers = tmp_path / "headers"
    shutil.copytree(compiler.include_dir(), headers)
    text = (headers / "tdh_scm.h").read_text()
    now = f"#define TDH_ABI_VERSION {trident_hook.status().abi}"
    assert now in text
    (headers / "tdh_scm.h").write_text(text.replace(now, now + "0"))
    monkeypatch.setattr(compiler, "include_dir", lambda: headers)
    fn = served(programs.shift)
    routed(fn, X, 3, via="dynamo")
    routed(fn, X, 3, via="python", reason="ABI")


# -- the key -----------------------------------------------------------------------------------------------------------


def test_the_same_inputs_have_the_same_key():
    assert cache.key_of("text") == cache.key_of("text")


def test_another_text_has_another_key():
    assert cache.key_of("text") != cache.key_of("text ")


def test_another_abi_has_another_key(monkeypatch, tmp_path):
    before, headers = cache.key_of("text"), tmp_path / "headers"
    shutil.copytree(compiler.include_dir(), headers)
    monkeypatch.setattr(compiler, "include_dir", lambda: headers)
    assert cache.key_of("text") == before, "where the headers are does not matter"
    text = (headers / "tdh_scm.h").read_text()
    now = f"#define TDH_ABI_VERSION {trident_hook.status().abi}"
    assert now in text
    (headers / "tdh_scm.h").write_text(text.replace(now, now + "0"))
    assert cache.key_of("text") != before


@pytest.mark.parametrize(
    "change",
    [
        ("torch.__version__", "2.99.0"),
        ("triton.__version__", "9.9.9"),
        ("Cython.__version__", "9.9.9"),
        ("sys.version", "3.12.99 (another build)"),
        ("torch.version.git_version", "0" * 40),
        ("platform.machine", lambda: "another"),
        ("os.confstr", lambda name: "glibc 9.9"),
        (compiler, "CFLAGS", ("-O0",)),
        (compiler, "compiler_version", lambda: "cc 99.1"),
        (cache, "GENERATOR", 0),
    ],
)
def test_other_surroundings_have_another_key(monkeypatch, change):
    before = cache.key_of("text")
    monkeypatch.setattr(*change)
    assert cache.key_of("text") != before


def test_another_kernel_binary_has_another_key(served, folder):
    """The source names its binaries by digest."""
    fn = served(programs.shift)
    warm(fn, X, 3)
    (kernel,) = {op.kernel for op in trident_hook.explain(fn).specializations[0].program.ops if hasattr(op, "kernel")}
    assert kernel.digest in trident_hook.explain(fn).source
    assert len(kernel.digest) >= 24


def test_every_function_has_a_private_copy(served, folder):
    before = loader.live
    one, two = served(programs.shift), served(programs.shift)
    warm(one, X, 3)
    warm(two, X, 3)
    assert loader.live == before + 2
    assert len(list(folder.rglob("*.so"))) == 1


# -- several processes -------------------------------------------------------------------------------------------------

SERVE = """
x = torch.arange(32, dtype=torch.float32)
warm(trident_hook.jit(workloads.rms_norm), torch.ones(4, 64), torch.ones(64), 1e-5)
warm(trident_hook.jit(programs.shift), x, 3)
warm(trident_hook.jit(programs.aten_only), torch.ones(4, 8), torch.ones(8, 4))
assert trident_hook.explain(programs.shift).builds == 1
print("served")
"""


@pytest.mark.slow
def test_a_second_process_needs_no_compilation(folder, tmp_path):
    out, err = processes.run_program(SERVE, TRIDENT_HOOK_CACHE_DIR=str(folder), TRIDENT_HOOK_LOGS="build")
    assert out == "served\n"
    assert "cache hit" not in err
    assert len(list(folder.rglob("*.so"))) == 3
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    cc = compiler_that_only_knows_its_name(tmp_path)
    out, err = processes.run_program(
        SERVE, TRIDENT_HOOK_CACHE_DIR=str(folder), TRIDENT_HOOK_LOGS="build", TRIDENT_HOOK_CC=str(cc)
    )
    assert out == "served\n"
    assert err.count("cache hit") == 3
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def compiler_that_only_knows_its_name(folder):
    """Says of itself what the real compiler says, which is part of the key, and compiles nothing."""
    path = folder / "cc"
    real = " ".join(compiler.compiler_command())
    path.write_text(f'#!/bin/sh\ncase "$*" in --version | *-###*) exec {real} "$@";; esac\nexit 1\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.slow
def test_processes_build_the_same_modules_at_once(folder):
    together = [processes.start_program(SERVE, TRIDENT_HOOK_CACHE_DIR=str(folder)) for _ in range(2)]
    for process in together:
        assert processes.finished(process)[0] == "served\n"
    modules = list(folder.rglob("*.so"))
    assert len(modules) == 3
    expected = [f"{m.parent.name}/{m.stem}{end}" for m in modules for end in (".pyx", ".so")]
    assert {*expected} == {name for name in files(folder) if not name.endswith((".o", ".note"))}, (
        "temporary files were left"
    )
    assert len(list(folder.rglob("*.o"))) == 3
