"""A fork while a build is under way: the child has no worker, and locks that nobody gives back."""

from __future__ import annotations

from support import processes

PROGRAM = """
import os, signal, threading
from trident_hook.scm import worker
from trident_hook.capture.runner import _runners
from trident_hook.functions.record import _records

trident_hook.config.build = "background"
x, go = torch.arange(32, dtype=torch.float32), threading.Event()
fn = trident_hook.jit(programs.shift)
worker.submit(lambda: go.wait(100))
fn(x, 3)
assert not trident_hook.settle(0)
(runner,) = _runners
(record,) = (r for r in _records.values() if r.code is programs.shift.__code__)
held = threading.Event()
def hold():
    with record.locks.state, record.locks.building, worker._changed, runner._lock:
        held.set()
        go.wait(100)
threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(90)
    assert trident_hook.settle(0), "what the parent waits for is not the child's"
    before = trident_hook.counts(fn)["hits"]
    for _ in range(20):
        fn(x, 3)
        assert trident_hook.settle(60)
    assert trident_hook.counts(fn)["hits"] - before >= 15, trident_hook.counts(fn)
    os._exit(0)
_, status = os.waitpid(child, 0)
go.set()
assert os.waitstatus_to_exitcode(status) == 0
assert trident_hook.settle(100)
fn(x, 3)
routed(fn, x, 3, via="scm", launches=1)
"""


def test_a_fork_during_a_build(tmp_path):
    processes.run_program(PROGRAM, TRIDENT_HOOK_CACHE_DIR=str(tmp_path))
