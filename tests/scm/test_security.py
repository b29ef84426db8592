"""What somebody else could have written is not read, and never loaded; what we write nobody else can. A test for each line
of docs/security.md. Somebody else is another user where the tests run as root, else everybody (a mode)."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import threading
import time
import warnings
from pathlib import Path

import pytest
import torch
from support import processes, programs
from support.routes import routed, warm

import trident_hook
from trident_hook._config import config, default_cache_dir
from trident_hook._scm import compiler, loader, native_module, places, prelude, store, trusted
from trident_hook.errors import BuildError

X = torch.arange(32, dtype=torch.float32)
SOMEBODY = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to somebody else")


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    for name, value in (("_memory", type(store._memory)()), ("_problems", {}), ("_warned", set())):
        monkeypatch.setattr(store, name, value)


@pytest.fixture
def folder(tmp_path):
    config.cache_dir = tmp_path / "outer" / "cache"
    return config.cache_dir


def is_not_trusted(path) -> str:
    with pytest.raises(trusted.NotTrusted) as caught, trusted.folder(path):
        pass
    return str(caught.value)


def open_to_all(path):
    path.chmod(0o777)


def anothers(path):
    os.chown(path, SOMEBODY, SOMEBODY)


def serves_without_the_folder(served, folder, word: str):
    """A function is served, one warning says why, nothing in the folder is read or written."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warm(served(programs.shift), X, 3)
        warm(served(programs.scaled), X)
    said = [str(w.message) for w in seen if "cache folder" in str(w.message)]
    assert len(said) == 1
    assert word in said[0]
    assert word in trident_hook.status().cache_problem
    assert word in str(trident_hook.status())
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


# -- folders -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spoil", [open_to_all, pytest.param(anothers, marks=as_root)])
@pytest.mark.parametrize("which", ["the folder", "one above it"])
def test_a_folder_that_somebody_else_can_write(served, folder, spoil, which):
    warm(served(programs.shift), X, 3)
    prelude.wait()
    spoil(folder if which == "the folder" else folder.parent)
    serves_without_the_folder(served, folder, "written by others" if spoil is open_to_all else f"user {SOMEBODY}")


@pytest.mark.parametrize("spoil", [open_to_all, pytest.param(anothers, marks=as_root)])
def test_a_folder_within_it(served, folder, spoil, monkeypatch):
    warm(served(programs.shift), X, 3)
    (module,) = folder.rglob("*.so")
    spoil(module.parent)
    built, plain = [], native_module.build
    monkeypatch.setattr(native_module, "build", lambda *args: built.append(args) or plain(*args))
    with pytest.warns(UserWarning, match="is not read"):
        warm(served(programs.shift), X, 3)
    assert len(built) == 1


def test_a_folder_that_all_may_add_to_but_not_replace_in(tmp_path):
    sticky = tmp_path / "sticky"
    (sticky / "inner").mkdir(parents=True, mode=0o700)
    sticky.chmod(0o1777)
    with trusted.folder(sticky / "inner"):
        pass
    assert "written by others" in is_not_trusted(sticky)
    sticky.chmod(0o777)
    assert "written by others" in is_not_trusted(sticky / "inner")


@as_root
def test_links_on_the_way_are_followed_if_they_are_ours(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to("real")
    with trusted.folder(link) as at:
        assert trusted.path_of(at) == tmp_path / "real"
    os.chown(link, SOMEBODY, SOMEBODY, follow_symlinks=False)
    assert f"user {SOMEBODY}" in is_not_trusted(link)


def test_links_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"), trusted.folder(tmp_path / "a"):
        pass


def test_where_a_link_leads_is_checked_too(tmp_path):
    (tmp_path / "open" / "inner").mkdir(parents=True)
    open_to_all(tmp_path / "open")
    (tmp_path / "link").symlink_to(tmp_path / "open" / "inner")
    assert "written by others" in is_not_trusted(tmp_path / "link")


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
def test_what_is_made_is_private_whatever_the_umask(served, folder, mask):
    before = os.umask(mask)
    try:
        warm(served(programs.shift), X, 3)
        prelude.wait()
    finally:
        os.umask(before)
    made = [folder.parent, folder, *(p for p in folder.rglob("*") if "simcuda" not in str(p))]
    assert len(made) > 5
    for path in made:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


# -- files -------------------------------------------------------------------------------------------------------------


def a_link(path):
    kept = path.rename(path.with_name("elsewhere"))
    path.symlink_to(kept)


def a_fifo(path):
    path.unlink()
    os.mkfifo(path, 0o600)


def a_socket(path):
    path.unlink()
    here = os.getcwd()
    os.chdir(path.parent)  # their names are short
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def a_huge_file(path):
    os.truncate(path, 1 << 40)


def a_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "spoil", [open_to_all, a_link, a_fifo, a_socket, a_huge_file, a_folder, pytest.param(anothers, marks=as_root)]
)
def test_a_file_that_is_not_ours_alone_is_built_again(served, folder, spoil, monkeypatch):
    warm(served(programs.shift), X, 3)
    (module,) = folder.rglob("*.so")
    spoil(module)
    built, plain = [], native_module.build
    monkeypatch.setattr(native_module, "build", lambda *args: built.append(args) or plain(*args))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm(served(programs.shift), X, 3)
    assert len(built) == 1
    if spoil not in (a_folder, a_socket):
        assert stat.S_ISREG(module.lstat().st_mode)
        assert stat.S_IMODE(module.stat().st_mode) == 0o600


def test_a_warning_that_is_an_error_does_not_reach_the_program(served, folder, capfd):
    warm(served(programs.shift), X, 3)
    open_to_all(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warm(served(programs.scaled), X)
    assert "written by others" in capfd.readouterr().err


@pytest.mark.timeout(60)
def test_a_fifo_as_the_precompiled_header_holds_nobody_up(folder, monkeypatch):
    for name, value in (("_ready", {}), ("_maker", None), ("_given_up", False)):
        monkeypatch.setattr(prelude, name, value)
    prelude.options()
    prelude.wait()
    (made,) = folder.glob("prelude/*/*.gch")
    assert prelude.options()
    a_fifo(made)
    assert prelude.options() == []
    prelude.wait()


# -- no home, and where things are made ----------------------------------------------------------------------------------


def test_without_a_home_there_is_no_folder_to_guess(monkeypatch):
    for name in ("TRIDENT_HOOK_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert default_cache_dir() is None
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/to/nothing")
    assert default_cache_dir() is None


def test_without_a_folder_modules_are_kept_in_memory(served, monkeypatch):
    config.cache_dir = None
    built, plain = [], native_module.build
    monkeypatch.setattr(native_module, "build", lambda *args: built.append(args) or plain(*args))
    for _ in range(2):
        warm(served(programs.shift), X, 3)
    assert len(built) == 1
    assert "no home" in trident_hook.status().cache_problem


def test_temporary_folders_are_private_and_elsewhere_if_others_can_reach_in(monkeypatch, tmp_path):
    open_to_all(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = places.scratch_folders()
    first = next(made)
    assert first.parent != tmp_path
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    made.close()
    assert not first.exists()


NOEXEC = """
x = torch.arange(32, dtype=torch.float32)
warm(trident_hook.jit(programs.shift), x, 3)
print("served")
"""


@pytest.mark.parametrize("memory", ["allowed", "forbidden"])
def test_a_place_that_forbids_code(served, monkeypatch, memory):
    """Modules are loaded from memory; where that is forbidden, from the first place that allows it."""

    def refused(*_):
        raise PermissionError(1, "no code in memory")

    if memory == "forbidden":
        monkeypatch.setattr(loader.os, "memfd_create", lambda *a: refused() if "scm" in a[0] else plain(*a))
    plain = os.memfd_create
    monkeypatch.setattr(places, "_forbids_code", lambda place: str(place) == tempfile.gettempdir())
    warm(served(programs.shift), X, 3)


def test_a_disk_that_is_full(served, monkeypatch):
    """The next place is used."""
    config.cache = False
    full, plain = [], native_module.build

    def build(pyx, *rest):
        if not full:
            full.append(pyx)
            raise OSError(28, os.strerror(28))
        return plain(pyx, *rest)

    monkeypatch.setattr(native_module, "build", build)
    warm(served(programs.shift), X, 3)
    assert full
    assert not full[0].parent.exists()


# -- compilers ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def says(monkeypatch, tmp_path):
    """says(text of a shell script): the C compiler."""

    def make(text: str) -> None:
        path = tmp_path / f"cc{len(list(tmp_path.iterdir()))}"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setenv("TRIDENT_HOOK_CC", str(path))
        monkeypatch.setattr(compiler, "_hung", {})

    return make


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("exit 0", "nothing that this machine can run"),
        ("echo nonsense; exit 0", "nothing that this machine can run"),
        ('for last; do :; done; echo nonsense > "$last"; exit 0', "nothing that this machine can run"),
        ("exit 3", "failed"),
        ("kill -SEGV $$", "failed"),
        ("sleep 1000 & wait", "did not end within"),
        ("yes nonsense", "failed"),
    ],
)
def test_a_compiler_that_answers_nonsense(served, folder, says, text, word, monkeypatch):
    monkeypatch.setattr(compiler, "TIMEOUT_S", 1.0 if "sleep" in text else 30.0)
    monkeypatch.setattr(compiler, "ANSWER_S", 1.0 if "sleep" in text else 30.0)
    monkeypatch.setattr(compiler, "MOST_BYTES", 1 << 20)
    says(text)
    fn = served(programs.shift)
    routed(fn, X, 3, via="dynamo")
    routed(fn, X, 3, via="python", reason=word)
    assert "build: BuildError" in str(trident_hook.explain(fn))


@pytest.mark.timeout(60)
def test_what_a_compiler_started_before_the_limit_is_limited(says, monkeypatch):
    """A driver starts the compiler proper at once, which may be before we are scheduled again."""
    limit = compiler._limit_files
    monkeypatch.setattr(compiler, "_limit_files", lambda number: (time.sleep(0.5), limit(number)))
    monkeypatch.setattr(compiler, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(compiler, "ANSWER_S", 50.0)
    says("sh -c 'yes nonsense; exit 3'; exit 3")
    with pytest.raises(BuildError, match="failed"):
        compiler.compiler_version()


@pytest.mark.timeout(30)
def test_a_compiler_that_does_not_end_is_not_asked_by_everybody(folder, says, monkeypatch):
    monkeypatch.setattr(compiler, "ANSWER_S", 0.5)
    says("sleep 1000")
    started = time.monotonic()
    for _ in range(10):
        with pytest.raises(BuildError, match="did not end within"):
            compiler.compiler_version()
    assert time.monotonic() - started < 3


def test_nothing_of_a_compiler_that_does_not_end_is_left(says, tmp_path, monkeypatch):
    monkeypatch.setattr(compiler, "ANSWER_S", 0.5)
    says(f"sleep 1000 & echo $! > {tmp_path}/pid; wait")
    with pytest.raises(BuildError):
        compiler.compiler_version()
    child = int((tmp_path / "pid").read_text())
    done = threading.Event()
    for _ in range(100):
        if not os.path.exists(f"/proc/{child}") or " Z " in Path(f"/proc/{child}/stat").read_text():
            break
        done.wait(0.05)
    else:
        pytest.fail("it is still there")


@pytest.mark.parametrize("setting", ["cc 'unbalanced", "/not/there"])
def test_a_compiler_that_is_no_command(monkeypatch, setting):
    monkeypatch.setenv("TRIDENT_HOOK_CC", setting)
    with pytest.raises(BuildError):
        compiler.compiler_version()


# -- the key -----------------------------------------------------------------------------------------------------------


def test_what_native_means_here_is_in_the_key(says):
    real = " ".join(compiler.compiler_command())
    says(f'exec {real} "$@"')
    command = os.environ["TRIDENT_HOOK_CC"]
    identities = set()
    for flags in ("", " -O3", " -march=native", " -DSOMETHING"):
        os.environ["TRIDENT_HOOK_CC"] = command + flags
        identities.add(compiler.identity())
    assert len(identities) == 4
    os.environ["TRIDENT_HOOK_CC"] = command + " -march=native"
    assert compiler.identity().count("march=") > 1, "the compiler was not asked what it means"


def test_the_same_flags_on_another_machine_are_another_key(says):
    real = " ".join(compiler.compiler_command())
    keys = set()
    for machine in ("haswell", "skylake"):
        says(f'exec {real} $(echo "$@" | sed s/-march=native/-march={machine}/)')
        os.environ["TRIDENT_HOOK_CC"] += " -march=native"
        keys.add(compiler.identity())
    assert len(keys) == 2


def test_where_the_compiler_lies_is_not(says):
    real = " ".join(compiler.compiler_command())
    keys = set()
    for _ in range(2):
        says(f'exec {real} "$@"')
        keys.add(compiler.identity())
    assert len(keys) == 1


PLANTED = """
import os, torch
x = torch.arange(32, dtype=torch.float32)
warm(trident_hook.jit(programs.shift), x, 3)
print(trident_hook.status().cache_problem)
"""


@pytest.mark.slow
def test_a_planted_module_does_not_run(folder, tmp_path):
    """The whole way, in a process of its own: in a folder that all can write lies a module that would say that it was loaded."""
    processes.run_program(PLANTED, TRIDENT_HOOK_CACHE_DIR=str(folder))
    (module,) = folder.rglob("*.so")
    source = tmp_path / "planted.c"
    source.write_text("#include <unistd.h>\n__attribute__((constructor)) static void f(void) { _exit(66); }\n")
    os.system(f"cc -shared -fPIC -o {tmp_path}/planted.so {source}")
    content = (tmp_path / "planted.so").read_bytes()
    import hashlib

    module.write_bytes(content + hashlib.sha256(content).digest())
    open_to_all(folder)
    out, _ = processes.run_program(PLANTED, TRIDENT_HOOK_CACHE_DIR=str(folder))
    assert "written by others" in out
