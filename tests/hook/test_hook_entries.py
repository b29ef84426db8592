"""Entries belong to code objects: creation, the SCM check, swapping, death."""

import gc
import sys
import threading
import weakref

import pytest
from hook_support import Record


def fresh(name="f"):
    namespace = {}
    exec(f"def {name}(x):\n    return ('plain', x)\n", namespace)
    return namespace[name]


def test_create_again_keeps_the_record_and_adds_doors(core):
    f, first, second = fresh(), Record(), Record()
    assert core.entry_create(f.__code__, first, 1) is first
    assert core.entry_create(f.__code__, second, 2) is first
    assert core.entry_record(f.__code__) is first
    assert core.entry_drop(f.__code__) is True
    assert core.entry_drop(f.__code__) is False
    assert core.entry_record(f.__code__) is None


def test_entry_dies_with_its_code(core, fake):
    gc.collect()  # what earlier tests left in cycles
    before = core.live_counts()
    f, record = fresh(), Record()
    gone = weakref.ref(record)
    core.entry_create(f.__code__, record, 3)
    core.entry_scm_set(f.__code__, fake.scm("const", 1))
    assert core.live_counts()["entries"] == before["entries"] + 1
    assert core.live_counts()["scms"] == before["scms"] + 1
    in_use = fake.scms_in_use()
    del f, record
    gc.collect()
    assert gone() is None
    assert core.live_counts() == before
    assert fake.scms_in_use() == in_use - 1


def test_scm_is_checked(core, fake):
    f, before = fresh(), core.live_counts()["scms"]
    core.entry_create(f.__code__, None, 3)
    with pytest.raises(ValueError, match=f"ABI version seen 999, expected {core.abi_version}"):
        core.entry_scm_set(f.__code__, fake.scm("const", 1, 999))
    with pytest.raises(ValueError, match="no attribute __tdh_scm__"):
        core.entry_scm_set(f.__code__, sys)
    module = type(sys)("wrong")
    module.__tdh_scm__ = 3
    with pytest.raises(ValueError, match="expected a capsule named"):
        core.entry_scm_set(f.__code__, module)
    assert core.live_counts()["scms"] == before
    core.entry_scm_set(f.__code__, None)
    core.entry_drop(f.__code__)


def test_swap_while_a_call_runs_in_the_old_one(core, fake, serve, door):
    f = fresh()

    def swap(func, args):
        core.entry_scm_set(func.__code__, fake.scm("const", "new"))
        gc.collect()
        return "old"

    serve(f, "call", swap)
    call = door(f)
    assert call(1) == "old"
    assert call(1) == "new"
    assert fake.scms_in_use() == 1


def test_drop_while_a_call_runs(core, fake, serve, door):
    f = fresh()

    def drop(func, args):
        core.entry_drop(func.__code__)
        return "last"

    serve(f, "call", drop)
    call = door(f)
    assert call(1) == "last"
    assert call(1) == ("plain", 1)


def test_code_replaced_while_a_call_runs(core, serve, door):
    f = fresh()

    def replace(func, args):
        func.__code__ = (lambda x: "other").__code__
        gc.collect()
        return "old"

    serve(f, "call", replace)
    call = door(f)
    assert call(1) == "old"
    assert call(1) == "other"


def test_records_finalizer_may_come_back(core):
    f = fresh()

    class Late:
        def __del__(self):
            core.entry_create(f.__code__, None, 1)

    core.entry_create(f.__code__, Late(), 1)
    assert core.entry_drop(f.__code__) is True
    gc.collect()
    assert core.live_counts()["entries"] == 1
    core.entry_drop(f.__code__)


def test_generators_are_never_served(core, fake):
    def gen(x):
        yield x

    async def coro(x):
        return x

    for func in (gen, coro):
        core.entry_create(func.__code__, None, 3)
        core.entry_scm_set(func.__code__, fake.scm("const", "scm"))
    core.hook_install()
    assert list(gen(3)) == [3]
    assert list(core.JitFunction(gen)(3)) == [3]
    with pytest.raises(StopIteration) as stop:
        coro(4).send(None)
    assert stop.value.value == 4
    assert core.promote(gen) is False
    assert core.entry_stats(gen.__code__)["hits"] == 0
    for func in (gen, coro):
        core.entry_drop(func.__code__)


def test_started_and_thrown_frames_pass(core):
    def gen():
        try:
            yield 1
        except KeyError:
            yield 2

    core.hook_install()
    g = gen()
    assert next(g) == 1
    assert g.throw(KeyError()) == 2
    g.close()


def test_threads_calling_while_swapping(core, fake, serve, door):
    f = fresh()
    serve(f, "const", "a")
    call = door(f)
    stop, wrong = threading.Event(), []

    def work():
        while not stop.is_set():
            for _ in range(200):
                r = call(1)
                if r not in ("a", "b", ("plain", 1)):
                    wrong.append(r)

    threads = [threading.Thread(target=work) for _ in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for i in range(150):
            core.entry_scm_set(f.__code__, fake.scm("const", "ab"[i % 2]) if i % 5 else None)
            core.entry_state_set(f.__code__, core.SERVE if i % 7 else core.OFF)
            if door.name == "frame" and i % 11 == 0:
                core.hook_remove()
                core.hook_install()
    finally:
        stop.set()
        for t in threads:
            t.join()
        sys.setswitchinterval(interval)
    assert wrong == []
    assert fake.scms_in_use() <= 1
