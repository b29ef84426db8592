"""What can only be tried on a process of its own: shutdown, fork, subinterpreters."""

import os
import subprocess
import sys

import pytest
from build_core import core_path, fake_scm_path
from hook_support import HAS_CALL_DOOR

PROLOGUE = """
import importlib.util, sys
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
core, fake = load("_core", sys.argv[1]), load("fake_scm", sys.argv[2])
def f(x):
    return len((x,))
class Record:
    def before_miss(self, door, spec, guard): return None
    def after_miss(self, raised=False): pass
"""


def run(program):
    out = subprocess.run(
        [sys.executable, "-c", PROLOGUE + program, str(core_path()), str(fake_scm_path())],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert out.returncode == 0, out.stderr
    assert out.stderr == ""
    return out.stdout


@pytest.mark.parametrize("mode", ["const", "miss", "call"])
def test_shutdown_with_everything_alive(mode):
    out = run(f"""
core.discoverer_set(lambda func: None)
core.entry_create(f.__code__, Record(), 3)
core.entry_scm_set(f.__code__, fake.scm({mode!r}, lambda func, args: 1))
core.hook_install()
j = core.JitFunction(f)
class Late:
    def __del__(self, f=f, j=j, print=print, state=core.hook_state): print("late", f(1) == j(1), state(), flush=True)
sys.late = Late()  # dies after the modules
import atexit
atexit.register(lambda: print("atexit", f(1) == j(1), core.hook_state()))
assert f(1) == j(1)
""")
    assert out.splitlines()[0] == "atexit True on"
    assert out.splitlines()[1:] in (["late True off"], [])  # taken out by our own atexit handler


def test_shutdown_while_aside():
    run("""
core.discoverer_set(lambda func: None)
core.quiet_after_set(20)
core.hook_install()
for _ in range(100): f(1)
assert core.hook_state() == ("aside" if sys.version_info >= (3, 12) else "on")
""")


def test_shutdown_with_a_daemon_thread_in_the_hook():
    run("""
import threading, time
core.entry_create(f.__code__, Record(), 1)
core.entry_scm_set(f.__code__, fake.scm("const", 1))
core.hook_install()
def spin():
    while True: f(1)
threading.Thread(target=spin, daemon=True).start()
time.sleep(0.05)
""")


def test_exit_from_inside_a_served_call():
    out = run("""
core.entry_create(f.__code__, Record(), 3)
core.entry_scm_set(f.__code__, fake.scm("call", lambda func, args: sys.exit(0)))
core.hook_install()
print("before")
f(1)
""")
    assert out == "before\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork():
    out = run("""
import os
core.entry_create(f.__code__, Record(), 3)
core.entry_scm_set(f.__code__, fake.scm("const", "scm"))
core.hook_install()
assert f(1) == "scm"
pid = os.fork()
if pid == 0:
    print("child", f(1), core.hook_state(), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print("parent", f(1), core.hook_remove())
""")
    assert out == "child scm on\nparent scm True\n"


def test_subinterpreters_are_refused():
    interpreters = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    options = "'legacy'" if sys.version_info >= (3, 13) else "isolated=False"
    out = run(f"""
import {interpreters} as sub
i = sub.create({options})
code = '''
import importlib.util
spec = importlib.util.spec_from_file_location("_core", %r)
try:
    module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)
except ImportError as e: print("refused:", e, flush=True)
''' % sys.argv[1]
r = sub.run_string(i, code)
assert r is None, r
print("main still works", core.hook_install(), flush=True)
""")
    assert "refused" in out
    assert "interpreter" in out
    assert out.endswith("main still works True\n")


def test_imported_twice():
    run("""
again = load("_core", sys.argv[1])
core.hook_install()
assert again.hook_install() is False and again.hook_state() == "on"
assert again.JitFunction is core.JitFunction
""")


@pytest.mark.skipif(not HAS_CALL_DOOR, reason="no call door on plain functions before CPython 3.12")
def test_promoted_functions_die_in_any_order():
    run("""
import types
core.entry_create(f.__code__, Record(), 3)
core.entry_scm_set(f.__code__, fake.scm("const", "scm"))
keep = [types.FunctionType(f.__code__, {}) for _ in range(1000)]
assert all(core.promote(g) for g in keep)
import random
random.Random(1).shuffle(keep)
del keep[:500]
assert core.live_counts()["promoted"] == 500
code = f.__code__
del f
core.entry_drop(code)
assert core.live_counts()["promoted"] == 0
""")
