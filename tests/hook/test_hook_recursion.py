"""Recursion works to the depth that it would without us, whatever door is open, and never overflows the C stack."""

import subprocess
import sys
import threading

import pytest
from hook_support import HAS_CALL_DOOR


@pytest.fixture
def limit():
    old = sys.getrecursionlimit()
    yield sys.setrecursionlimit
    sys.setrecursionlimit(old)


def depth_of(n):
    return 0 if n == 0 else 1 + depth_of(n - 1)


def used():
    n, f = 0, sys._getframe()
    while f is not None:
        n, f = n + 1, f.f_back
    return n


def test_default_limit(core, limit):
    limit(1000)
    core.hook_install()
    n = 960 - used()
    assert depth_of(n) == n


@pytest.mark.parametrize(("limit_", "n"), [(20000, 15000), (100000, 90000)])
def test_deep(core, limit, limit_, n):
    limit(limit_)
    core.hook_install()
    assert depth_of(n) == n
    assert core.hook_state() == "on"


def test_same_depth_as_without_us(core, limit):
    limit(3000)

    def probe():
        reached = 0

        def down():
            nonlocal reached
            reached += 1
            down()

        with pytest.raises(RecursionError):
            down()
        return reached

    alone = probe()
    core.hook_install()
    assert probe() == alone
    assert probe() == alone


def test_c_recursion_is_charged_exactly(core, limit):
    """Recursion through C (here: map) still ends in RecursionError, and the budget is whole again afterwards."""
    limit(1_000_000)

    def down(v):
        return next(map(down, (v,)))

    if HAS_CALL_DOOR:  # 3.11 counts Python and C together: the limit above would be the only one
        core.hook_install()
        for _ in range(3):
            with pytest.raises(RecursionError):
                down(1)
        core.hook_remove()
        with pytest.raises(RecursionError):
            down(1)


def test_through_a_promoted_function(core, serve, limit):
    """A function that carries the call door but is not served now (off, bypass, miss) recurses as deep as ever."""
    limit(20000)

    def rec(n):
        return 0 if n == 0 else 1 + rec(n - 1)

    serve(rec, "bypass")
    core.promote(rec)
    for hook in (False, True):
        if hook:
            core.hook_install()
        for prepare in (
            lambda: core.entry_scm_set(rec.__code__, None),
            lambda: core.entry_state_set(rec.__code__, core.OFF),
        ):
            core.entry_state_set(rec.__code__, core.SERVE)
            prepare()
            assert rec(15000) == 15000
            assert core.is_promoted(rec) is HAS_CALL_DOOR


def test_bypass_at_every_level(core, serve, fake, limit):
    limit(20000)

    def rec(n):
        return 0 if n == 0 else 1 + rec(n - 1)

    serve(rec, "bypass")
    core.hook_install()
    assert rec(15000) == 15000
    assert core.entry_stats(rec.__code__)["bypasses"] > 100
    core.entry_scm_set(rec.__code__, fake.scm("const", 7))
    assert rec(1) == 7


def test_a_foreign_evaluator_installed_deep_down_stays(core, fake, limit):
    limit(5000)

    def down(n):
        if n == 0:
            fake.foreign_install()
            return fake.evaluator()
        return down(n - 1)

    core.hook_install()
    try:
        assert down(1000) == "foreign"
        assert fake.evaluator() == "foreign"  # not put back over it
    finally:
        fake.foreign_remove(False)
    assert core.hook_state() == "on"


def test_hook_removed_deep_down_stays_removed(core, fake, limit):
    limit(5000)

    def down(n):
        return core.hook_remove() if n == 0 else down(n - 1)

    core.hook_install()
    assert down(1000) is True
    assert core.hook_state() == "off"
    assert fake.evaluator() == "default"

    def again(n):
        if n == 0:
            return core.hook_remove(), core.hook_install()
        return again(n - 1)

    core.hook_install()
    assert again(1000) == (True, True)
    assert core.hook_state() == "on"


def test_in_threads(core, limit):
    limit(20000)
    core.hook_install()
    results = []
    threads = [threading.Thread(target=lambda: results.append(depth_of(5000))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [5000] * 4
    assert core.hook_state() == "on"


def test_generators_nest(core, limit):
    limit(3000)

    def gen(n):
        yield n
        if n:
            yield from gen(n - 1)

    core.hook_install()
    assert sum(1 for _ in gen(250)) == 251


def test_deep_in_a_fresh_process(core):
    """As the first thing that a program does, with an endless recursion on top."""
    from build_core import core_path

    program = (
        "import sys, importlib.util as u\n"
        "s = u.spec_from_file_location('_core', sys.argv[1])\n"
        "core = u.module_from_spec(s); s.loader.exec_module(core)\n"
        "core.hook_install()\n"
        "def f(n): return 0 if n == 0 else 1 + f(n - 1)\n"
        "assert f(900) == 900\n"
        "def endless(): endless()\n"
        "for limit in (1000, 20000, 100000):\n"
        "    sys.setrecursionlimit(limit)\n"
        "    try: endless()\n"
        "    except RecursionError: print('ok')\n"
    )
    out = subprocess.run([sys.executable, "-c", program, str(core_path())], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["ok"] * 3
