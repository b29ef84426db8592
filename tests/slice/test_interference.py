"""Python that has nothing to do with us, while we are there: in a process of its own, as a program would use us."""

from __future__ import annotations

import os

import pytest
from support import processes

from trident_hook import _compat

pytestmark = pytest.mark.slow
promoted = pytest.mark.skipif(
    not _compat.FUNCTIONS_CAN_BE_PROMOTED, reason="CPython 3.11 has no call door: the hook stays in"
)

#: Three functions served by the global search; `hits(n)` calls each n times and says how many of these were hits.
THREE = """
import sys

CASES = {
    workloads.rms_norm: (torch.randn(4, 64), torch.randn(64), 1e-5),
    workloads.silu: (torch.randn(64),),
    workloads.masked_fill: (torch.randn(4, 64), torch.randn(64) > 0, -1.0),
}
EXPECTED = {fn: fn(*args) for fn, args in CASES.items()}

def hits(n):
    before = {fn: trident_hook.counts(fn)["hits"] for fn in CASES}
    for fn, args in CASES.items():
        for _ in range(n):
            got = fn(*args)
        pairs = zip(got, EXPECTED[fn]) if isinstance(got, tuple) else [(got, EXPECTED[fn])]
        assert all(torch.equal(a, b) for a, b in pairs), fn
    return [trident_hook.counts(fn)["hits"] - before[fn] for fn in CASES]

def down(n):
    return 0 if n == 0 else 1 + down(n - 1)

class Tree:
    def __init__(self, depth):
        self.child = Tree(depth - 1) if depth else None

    @property
    def depth(self):
        return 1 + self.child.depth if self.child else 0

def reached():
    n = 0
    def deeper():
        nonlocal n
        n += 1
        deeper()
    try:
        deeper()
    except RecursionError:
        return n

def recursion_works():
    assert sys.getrecursionlimit() == 1000
    assert down(900) == 900
    assert Tree(450).depth == 450
    assert max(map(down, range(0, 900, 100))) == 800
    return True

def hook():
    return trident_hook.status().hook

ALONE = reached()
assert recursion_works()
"""

STEPPED_ASIDE = """
trident_hook.enable()
assert hook() == "on"
assert recursion_works(), "nothing is served yet"
assert reached() == ALONE
hits(2)
assert hits(10) == [10, 10, 10]
down(900)
for _ in range(20):
    if hook() == "aside":
        break
    down(900)
assert hook() == "aside", hook()
assert recursion_works()
assert reached() == ALONE
assert hits(1000) == [1000, 1000, 1000]
assert hook() == "aside", "served without the hook"

# what is defined later is found: a module that comes with a kernel of its own, a closure, a method, a copy
import later
assert trident_hook.counts(later.plus)["hits"] == 0
x = torch.arange(32, dtype=torch.float32)
for name, fn in (("function", later.plus), ("closure", later.make()), ("method", later.Layer().forward)):
    for n in range(5):  # its first call may be the one that brings the hook back
        assert torch.equal(fn(x, 3), x + 3), name
    counts = trident_hook.counts(fn)
    assert counts["hits"] in (3, 4), (name, counts)
    assert (counts["misses"], counts["delegated"]) == (1, 1), (name, counts)
assert hits(10) == [10, 10, 10]
assert recursion_works()
for _ in range(20):
    if hook() == "aside":
        break
    down(900)
assert hook() == "aside", "it steps aside again"

another = later.make()
assert torch.equal(another(x, 3), x + 3)  # may still run plain: the hook is aside
before = trident_hook.counts(another)["hits"]
assert torch.equal(another(x, 3), x + 3)
assert trident_hook.counts(another)["hits"] == before + 1, "a new closure over known code"

trident_hook.disable()
assert hook() == "off"
assert hits(3) == [0, 0, 0]
assert recursion_works()
assert reached() == ALONE
trident_hook.enable()
hits(1)
assert hits(3) == [3, 3, 3]
print("done")
"""

LATER = """
import torch, triton
import triton.language as tl

@triton.jit
def plus_kernel(x, y, a, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets, mask=offsets < n) + a, mask=offsets < n)

def plus(x, a):
    y = torch.empty_like(x)
    plus_kernel[(1,)](x, y, a, x.numel(), BLOCK=64)
    return y

def make():
    def inner(x, a):
        y = torch.empty_like(x)
        plus_kernel[(1,)](x, y, a, x.numel(), BLOCK=64)
        return y
    return inner

class Layer:
    def forward(self, x, a):
        y = torch.empty_like(x)
        plus_kernel[(1,)](x, y, a, x.numel(), BLOCK=64)
        return y
"""


@pytest.fixture
def program(tmp_path, cache_dir):
    (tmp_path / "later.py").write_text(LATER)

    def run(text, **settings):
        prologue = f"import sys; sys.path.append({str(tmp_path)!r})\n"
        out, _ = processes.run_program(prologue + THREE + text, TRIDENT_HOOK_CACHE_DIR=str(cache_dir), **settings)
        return out

    return run


@promoted
def test_three_functions_served_and_the_hook_aside(program):
    assert program(STEPPED_ASIDE) == "done\n"


HOOK_ON = """
trident_hook.enable()
hits(2)
assert hits(10) == [10, 10, 10]
assert hook() == "on"
assert trident_hook.explain(workloads.silu).doors["call"] == 0
assert recursion_works()
assert reached() == ALONE
for _ in range(20):
    down(900)
assert hook() == "on", "it stays while only frames can serve"
import threading
done = []
thread = threading.Thread(target=lambda: done.append((recursion_works(), reached())))
thread.start(); thread.join()
assert done[0][0]
assert hits(10) == [10, 10, 10]
assert recursion_works()
print("done")
"""


def test_three_functions_served_through_the_hook(program):
    """No promotion: the hook sees every frame, and recursion is as deep as without it."""
    assert program(HOOK_ON, TRIDENT_HOOK_NO_PROMOTE="1") == "done\n"


DEEP_DOWN = """
trident_hook.enable()
hits(2)

def deep(n):
    return hits(1) if n == 0 else deep(n - 1)

assert deep(700) == [1, 1, 1], "served deep down the stack"

assert hits(5) == [5, 5, 5]
assert recursion_works()
assert [trident_hook.counts(fn)["errors"] for fn in CASES] == [0, 0, 0]
print("done")
"""


@promoted
def test_promoted_functions_are_served_deep_down_the_stack(program):
    assert program(DEEP_DOWN) == "done\n"


def test_disabled_it_is_not_there(program):
    out = program(
        """
        trident_hook.enable()
        assert hits(3) == [0, 0, 0]
        assert (hook(), reached()) == ("off", ALONE)
        fast = trident_hook.jit(workloads.silu)
        assert fast is workloads.silu
        print(trident_hook.status())
        """.replace("\n        ", "\n"),
        TRIDENT_HOOK_DISABLE="1",
    )
    assert "TRIDENT_HOOK_DISABLE is set" in out


def test_every_log_channel_of_a_whole_life(program):
    out, err = processes.run_program(
        THREE + "trident_hook.enable()\nhits(2)\nassert hits(3) == [3, 3, 3]\n"
        "for n in (32, 128): workloads.silu(torch.ones(n))\n",
        TRIDENT_HOOK_LOGS="hook,capture,guards,codegen,build,launch", TRIDENT_HOOK_NO_CACHE="1",
    )  # fmt: skip
    assert out == ""
    for channel in ("hook", "capture", "guards", "build"):
        assert f"[trident_hook:{channel}] " in err, channel
    assert "serving trident_hook.testing.workloads.silu" in err


def test_env_report():
    out, err = processes.run("-m", "trident_hook.env_report", TRIDENT_HOOK_LIMIT="5")
    import torch
    import triton

    import trident_hook

    assert err == ""
    for text in (trident_hook.__version__, torch.__version__, triton.__version__, "not enabled; hook off",
                 "TRIDENT_HOOK_LIMIT=5", "C compiler:", "cython", "python: 3."):  # fmt: skip
        assert text in out, text


def test_env_report_on_a_machine_where_little_works():
    out, _ = processes.run(
        "-m", "trident_hook.env_report", TRIDENT_HOOK_CC="/bin/false", TRIDENT_HOOK_DISABLE="1", HOME=os.devnull
    )
    assert "off because TRIDENT_HOOK_DISABLE is set" in out
    assert "C compiler: " in out
    assert "expected a working C compiler" in out


def test_what_dynamo_makes_of_a_function_is_not_discovered():
    """Neither the code that it runs in place of a function, nor the rest after a graph break."""
    report, _ = processes.run_program("""
        import torch._dynamo

        def broken(x):
            y = workloads.silu(x)
            torch._dynamo.graph_break()
            z = torch.empty_like(y)
            workloads._silu_kernel[(1,)](y, z, y.numel(), BLOCK=64)
            return z

        with trident_hook.enable():
            for n in (48, 48, 48):
                broken(torch.randn(n))
                workloads.silu(torch.randn(n))
            from trident_hook import api
            names = sorted(record.name for _, record in api._known())
        print(names)
    """)
    assert report.count("broken") == 1
    assert "resume" not in report
