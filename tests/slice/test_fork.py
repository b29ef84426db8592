"""A fork at any moment: the child has none of the parent's threads, and gets back what they hold or have changed."""

from __future__ import annotations

import pytest
from support import processes

COMMON = """
import os, signal, sys, threading, time
from trident_hook import _core, api
from trident_hook.dynamo import capturing
from trident_hook.functions import record as records
from trident_hook._scm import worker

x, go, held = torch.arange(32, dtype=torch.float32), threading.Event(), threading.Event()

def in_a_child(check):
    child = os.fork()
    if child == 0:
        signal.alarm(90)
        try:
            check()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0

def in_a_thread(job):
    thread = threading.Thread(target=job, daemon=True)
    thread.start()
    assert held.wait(60)
    return thread

def stop():
    held.set()
    assert go.wait(100)

def serves(plain, *args):
    fn = trident_hook.jit(plain)
    for _ in range(4):
        fn(*args)
        assert trident_hook.settle(60)
    routed(fn, *args, via="scm")
"""

BUILD = """
from trident_hook.capture.runner import _runners

trident_hook.config.build = "background"
fn = trident_hook.jit(programs.shift)
worker.submit(lambda: go.wait(100))
fn(x, 3)
assert not trident_hook.settle(0)
(runner,) = _runners
record = api.find_record(fn)
def hold():
    with record.locks.state, record.locks.building, worker._worker.changed, runner._lock:
        stop()
in_a_thread(hold)

def check():
    assert trident_hook.settle(0), "what the parent waits for is not the child's"
    before = trident_hook.counts(fn)["hits"]
    for _ in range(20):
        fn(x, 3)
        assert trident_hook.settle(60)
    assert trident_hook.counts(fn)["hits"] - before >= 15, trident_hook.counts(fn)

in_a_child(check)
go.set()
assert trident_hook.settle(100)
fn(x, 3)
routed(fn, x, 3, via="scm", launches=1)
"""

EVERY_LOCK = """
serves(programs.shift, x, 3)
LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition)

def locks():
    for name, module in sorted(sys.modules.items()):
        if name == "trident_hook" or name.startswith("trident_hook."):
            for key, value in list(vars(module).items()):
                if isinstance(value, LOCKS):
                    yield f"{name}.{key}", value
    for record in records._records.values():
        yield "record.state", record.locks.state
        yield "record.building", record.locks.building
    yield "worker", worker._worker.changed
    yield "Dynamo's", sys.modules["torch._dynamo.convert_frame"].compile_lock

names = {name for name, _ in locks()}
assert {"trident_hook.api._lock", "trident_hook.runtime.cubins._lock", "trident_hook._scm.prelude._lock"} <= names, names
own = [lock for name, lock in locks() if not name.endswith("capturing._changing")]  # a fork waits for that one

def hold():
    for lock in own:
        lock.acquire()
    stop()
in_a_thread(hold)

def check():
    for name, lock in locks():
        assert lock.acquire(timeout=0.1), f"{name} is held by nobody who is here"
        lock.release()
    serves(programs.shift, x, 3)
    with trident_hook.enable():
        pass

in_a_child(check)
go.set()
"""

CAPTURE = """
import logging
import torch._dynamo.config as settings
from torch._dynamo.symbolic_convert import InliningInstructionTranslator
from torch._dynamo.variables.builder import VariableBuilder
from trident_hook.capture import recorder

serves(programs.shift, x, 3)

def facts():
    return (settings.recompile_limit, settings.specialize_float, len(VariableBuilder._type_dispatch()),
            InliningInstructionTranslator.get_globals_source_and_value,
            len(logging.getLogger("torch._subclasses.fake_tensor").filters))

before, real = facts(), recorder.normalize

def normalize(*args):
    recorder.normalize = real
    stop()
    return real(*args)

recorder.normalize = normalize

other = trident_hook.jit(programs.failing)
thread = in_a_thread(lambda: other(x, torch.tensor([0, 15])))
during = facts()
assert during != before
record = api.find_record(other)
assert record.dynamo_entries.calls == 1

def check():
    assert facts() == before, (facts(), before)
    assert record.dynamo_entries.calls == 0
    serves(programs.failing, x, torch.tensor([0, 15]))
    torch.compile(lambda a: a + 1, backend="eager")(x)

in_a_child(check)
assert facts() == during
go.set()
thread.join(60)
assert facts() == before and record.dynamo_entries.calls == 0
serves(programs.failing, x, torch.tensor([0, 15]))
"""

TOGGLED = """
sys.setswitchinterval(1e-5)
stopping = False
def toggle(n):
    while not stopping:
        trident_hook.enable()
        trident_hook.jit(lambda a: a + n)
        trident_hook.disable()
threads = [threading.Thread(target=toggle, args=(n,), daemon=True) for n in range(2)]
for thread in threads:
    thread.start()

def check():
    trident_hook.enable()
    trident_hook.disable()
    trident_hook.jit(lambda a: a)

for _ in range(12):
    in_a_child(check)
stopping = True
for thread in threads:
    thread.join(60)
"""

INSIDE_A_MISS = """
def forking(a):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        return a + 1
    os.waitpid(child, 0)
    return a + 2

fn = trident_hook.jit(forking)
outer = os.getpid()
for _ in range(3):
    answer = fn(x)
    if os.getpid() != outer:
        assert torch.equal(answer, x + 1)
        assert api.find_record(fn).dynamo_entries.calls == 0
        serves(programs.shift, x, 3)
        os._exit(0)
    assert torch.equal(answer, x + 2)
assert api.find_record(fn).dynamo_entries.calls == 0
"""

MOMENTS = {
    "build": BUILD,
    "every lock": EVERY_LOCK,
    "capture": CAPTURE,
    "toggled": TOGGLED,
    "inside a miss": INSIDE_A_MISS,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_fork(moment, tmp_path):
    processes.run_program(COMMON + MOMENTS[moment], TRIDENT_HOOK_CACHE_DIR=str(tmp_path))
