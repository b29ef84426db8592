"""Background builds run in a process of their own: the same results and errors, whatever becomes of either process."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import sys
import time
from pathlib import Path

import pytest
import torch
from support import modules, processes, programs
from support.routes import routed, warm

import trident_hook
from trident_hook._config import config
from trident_hook._scm import builder_process, cache, compiler, places, prelude, worker
from trident_hook.errors import BuildError

X = torch.arange(32, dtype=torch.float32)
SOURCE = "# cython: language_level=3\nanswer = {}\n"
LIKE_OURS = "from tdh cimport *\ncdef const tdh_rt_api* rt = NULL\n"


@pytest.fixture(autouse=True)
def its_own_process():
    """None runs before or after."""
    builder_process.end()
    yield
    builder_process.end()
    builder_process._given_up = False


@pytest.fixture
def at_hand(monkeypatch, tmp_path):
    """at_hand(text) -> the C compiler, and before it a piece of shell that may end or hold up the process that started it.
    $PARENT_IS_IT: that is the build process. $FOLDER: the test's."""

    def make(text: str) -> None:
        command = compiler.compiler_command()
        compiler.compiler_version()
        path = tmp_path / "cc"
        path.write_text(
            f"#!/bin/sh\nFOLDER={tmp_path}\ngrep -q builder_main /proc/$PPID/cmdline && PARENT_IS_IT=1\n"
            f'case "$*" in --version | *-###*) ;; *) {text};; esac\nexec {" ".join(command)} "$@"\n'
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("TRIDENT_HOOK_CC", str(path))

    return make


def on_the_worker(job):
    """What `job()` returns or raises on the thread that builds in the background."""
    outcome = []

    def run():
        try:
            outcome.append((job(), None))
        except BaseException as error:
            outcome.append((None, error))

    worker.submit(run)
    assert trident_hook.settle(120)
    ((result, error),) = outcome
    if error is not None:
        raise error
    return result


def built(answer: int, more: str = "") -> bytes:
    config.cache = False
    return cache.compiled(modules.of_text(SOURCE.format(answer) + more))


def pid() -> int:
    return builder_process._running.process.pid


def is_there(number: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def eventually(condition, seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


# -- which process ------------------------------------------------------------------------------------------------------

FRESH = """
import os, sys
from trident_hook._scm import builder_process as process
trident_hook.config.build = "background"
x, fn = torch.arange(32, dtype=torch.float32), trident_hook.jit(programs.shift)
fn(x, 3)
assert trident_hook.settle(100)
routed(fn, x, 3, via="scm", launches=1)
assert "Cython.Compiler" not in sys.modules
assert process._running.process.pid != os.getpid()
print(process._running.process.pid)
"""


def test_the_program_never_runs_cython(tmp_path):
    out, _ = processes.run_program(FRESH, TRIDENT_HOOK_CACHE_DIR=str(tmp_path))
    assert eventually(lambda: not is_there(int(out))), "it outlived its program"


def test_only_what_is_built_in_the_background(served):
    config.build, config.cache = "sync", False
    warm(served(programs.shift), X, 3)
    assert not builder_process.is_running()
    config.build = "background"
    fn = served(programs.shift)
    fn(X, 3)
    assert trident_hook.settle(120)
    routed(fn, X, 3, via="scm")
    assert builder_process.is_running()


def test_what_it_has_of_the_program(tmp_path):
    """A lower priority; the standard error and the line, but no file that the program has open (a GPU, say)."""
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        on_the_worker(lambda: built(1))
    assert os.getpriority(os.PRIO_PROCESS, pid()) > os.getpriority(os.PRIO_PROCESS, 0)
    files = [os.readlink(path) for path in Path(f"/proc/{pid()}/fd").iterdir()]
    assert len([name for name in files if name.startswith("socket:")]) == 1
    assert str(tmp_path / "open") not in files
    assert "libtorch" not in Path(f"/proc/{pid()}/maps").read_text()


def test_what_is_learned_while_it_builds_is_one_more_build(served, at_hand, tmp_path):
    at_hand("[ -e $FOLDER/once ] || { touch $FOLDER/once; while [ ! -e $FOLDER/go ]; do sleep 0.02; done; }")
    config.build, config.cache = "background", False
    fn, later = served(programs.shift), (X.half(), X.double(), X.int())
    fn(X, 3)
    assert eventually((tmp_path / "once").exists)
    for x in later:
        routed(fn, x, 3, via="dynamo")
    (tmp_path / "go").touch()
    assert trident_hook.settle(120)
    for x in (X, *later):
        routed(fn, x, 3, via="scm")
    assert trident_hook.explain(fn).builds == 2


def test_the_same_module_whichever_process_builds():
    here = built(1, LIKE_OURS)
    there = on_the_worker(lambda: built(1, LIKE_OURS))
    assert builder_process.is_running()
    assert here == there


def test_it_is_ended_when_it_is_not_needed(monkeypatch):
    monkeypatch.setattr(builder_process, "IDLE_S", 0.05)
    on_the_worker(lambda: built(1))
    assert eventually(lambda: not builder_process.is_running())


# -- errors -------------------------------------------------------------------------------------------------------------

FAULTS = {"Cython": "cdef int f(:", "C": 'cdef extern from *:\n    """\n#error not this one\n    """\n'}


@pytest.mark.parametrize("fault", FAULTS)
def test_errors_are_the_same(fault, tmp_path, monkeypatch):
    config.cache = False
    monkeypatch.setattr(prelude, "_given_up", False)
    work = tmp_path / "work"
    monkeypatch.setattr(places, "_make", lambda _: work.mkdir() or work)
    texts = []
    for run in (lambda job: job(), on_the_worker):
        with pytest.raises(BuildError) as caught:
            run(lambda: cache.compiled(modules.of_text(SOURCE.format(1) + FAULTS[fault])))
        texts.append(str(caught.value))
    assert builder_process.is_running()
    assert texts[0] == texts[1]
    assert ("not this one" if fault == "C" else "Cython refused") in texts[0]
    assert on_the_worker(lambda: built(1)), "it goes on after an error"


def test_a_compiler_that_does_not_end(monkeypatch, at_hand):
    at_hand("exec sleep 1000")
    monkeypatch.setattr(compiler, "TIMEOUT_S", 0.2)
    with pytest.raises(BuildError, match=r"cc did not end within 0.2 s"):
        built(1)


def test_a_process_that_does_not_answer(monkeypatch):
    on_the_worker(lambda: built(1))
    stopped = pid()
    os.kill(stopped, signal.SIGSTOP)
    monkeypatch.setattr(builder_process, "_DEADLINE_S", 0.2)
    with pytest.raises(BuildError, match=r"did not answer within 0.2 s"):
        on_the_worker(lambda: built(2))
    assert not is_there(stopped)
    monkeypatch.undo()
    on_the_worker(lambda: built(3))


# -- its end ------------------------------------------------------------------------------------------------------------


def gone_without_trace(number: int) -> bool:
    """Neither running nor waiting to be waited for."""
    try:
        os.waitpid(number, os.WNOHANG)
    except ChildProcessError:
        return not is_there(number)
    return False


@pytest.mark.parametrize("held", [False, True])
def test_killed_between_builds(held, monkeypatch):
    """Also when somebody else has its end of the line: what the program forked while it was started."""
    kept, plain = [], builder_process.socket.socketpair

    def socketpair():
        ours, theirs = plain()
        kept.append(theirs.dup())
        return ours, theirs

    if held:
        monkeypatch.setattr(builder_process, "_CHECK_S", 0.1)
        monkeypatch.setattr(builder_process.socket, "socketpair", socketpair)
    on_the_worker(lambda: built(1))
    first = pid()
    os.kill(first, signal.SIGKILL)
    assert on_the_worker(lambda: built(2))
    assert pid() != first
    assert gone_without_trace(first)
    for line in kept:
        line.close()


def test_killed_during_a_build(at_hand, tmp_path):
    """Its successor builds; the compiler that it leaves is ended."""
    at_hand(
        "[ -e $FOLDER/once ] || { echo $PPID $$ > $FOLDER/pids; touch $FOLDER/once; kill -9 $PPID; exec sleep 1000; }"
    )
    assert on_the_worker(lambda: built(1))
    killed, left = map(int, (tmp_path / "pids").read_text().split())
    assert pid() != killed
    assert gone_without_trace(killed)
    assert eventually(lambda: not is_there(left))


def test_killed_every_time(at_hand, served):
    """Then the program builds, and goes on doing so."""
    at_hand('[ "$PARENT_IS_IT" ] && { echo $PPID >> $FOLDER/pids; kill -9 $PPID; }')
    config.build, config.cache = "background", False
    fn = served(programs.shift)
    fn(X, 3)
    assert trident_hook.settle(120)
    routed(fn, X, 3, via="scm")
    assert not builder_process.is_running()
    on_the_worker(lambda: built(1))
    assert not builder_process.is_running()


def test_a_crash_is_not_repeated_in_the_program(at_hand, served):
    at_hand('[ "$PARENT_IS_IT" ] && kill -SEGV $PPID')
    config.build, config.cache = "background", False
    fn = served(programs.shift)
    fn(X, 3)
    assert trident_hook.settle(120)
    routed(fn, X, 3, via="python", reason="build: BuildError: the build process crashed")


def test_one_that_cannot_be_started(monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert on_the_worker(lambda: built(1))
    assert not builder_process.is_running()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_during_its_build(at_hand, tmp_path):
    """The parent's build goes on, and the child builds at once in a process of its own."""
    at_hand("[ -e $FOLDER/once ] || { touch $FOLDER/once; while [ ! -e $FOLDER/go ]; do sleep 0.02; done; }")
    parents = []
    worker.submit(lambda: parents.append(built(1)))
    assert eventually((tmp_path / "once").exists)
    try:
        first, child = pid(), os.fork()
        if child == 0:
            signal.alarm(60)
            ok = on_the_worker(lambda: built(2)) and pid() != first
            os._exit(0 if ok else 1)
        status = os.waitpid(child, 0)[1]
    finally:
        (tmp_path / "go").touch()
    assert os.waitstatus_to_exitcode(status) == 0
    assert trident_hook.settle(120)
    assert (len(parents), pid()) == (1, first)


ENDING = """
import os, sys, time, trident_hook
from support import modules
from trident_hook._scm import cache, worker
worker.submit(lambda: cache.compiled(modules.of_text({source!r})))
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("manner", ["killed", "ends"])
def test_a_program_that_ends_during_a_build_leaves_nothing(manner, at_hand, tmp_path):
    at_hand("echo $PPID $$ > $FOLDER/.pids; mv $FOLDER/.pids $FOLDER/pids; exec sleep 1000")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    program = processes.start(
        "-c", ENDING.format(source=SOURCE.format(1)), str(tmp_path / "pids"), manner, TRIDENT_HOOK_NO_CACHE="1",
        TMPDIR=str(temporary), TRIDENT_HOOK_CC=os.environ["TRIDENT_HOOK_CC"],
    )  # fmt: skip
    err = program.communicate(timeout=120)[1]
    assert program.returncode == (-9 if manner == "killed" else 0), err
    for number in map(int, (tmp_path / "pids").read_text().split()):
        assert eventually(lambda number=number: not is_there(number)), "it outlived its program"
    assert eventually(lambda: os.listdir(temporary) == [])
