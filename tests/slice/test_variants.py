"""Launch variants: calls that Dynamo's entry answers with another binary, while the module is built, are learned as well."""

from __future__ import annotations

import contextlib
import threading
import warnings

import pytest
import torch
import triton
import triton.language as tl
from support import programs
from support.routes import counted, routed, twin, warm

import trident_hook
from trident_hook._scm import worker
from trident_hook.api import find_record
from trident_hook.testing import simdriver

ALIGNED, OTHER = torch.arange(64, dtype=torch.float32), torch.ones(64)
MISALIGNED, OTHER_MISALIGNED = torch.arange(65, dtype=torch.float32)[1:], torch.ones(65)[1:]
PAIRS = [(ALIGNED, OTHER), (ALIGNED, OTHER_MISALIGNED), (MISALIGNED, OTHER), (MISALIGNED, OTHER_MISALIGNED)]


@pytest.fixture(params=["background", "sync"])
def mode(request):
    trident_hook.config.build = request.param
    return request.param


class Held:
    """The worker waits until the block ends: all that its calls teach comes in one build."""

    def __enter__(self):
        self.go = threading.Event()
        worker.submit(lambda: self.go.wait(120))

    def __exit__(self, *_):
        self.go.set()
        assert trident_hook.settle(120)


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), BLOCK=64)
    return out


def split(x, a):
    """The kernel is given a quotient of the number: another class than that of the number itself."""
    y = torch.empty_like(x)
    programs.shift_kernel[(1,)](x, y, a // 3, x.numel(), BLOCK=64)
    return y


def facts(fn) -> tuple:
    explanation = trident_hook.explain(fn)
    return len(explanation.specializations), explanation.counts["errors"], explanation.refusals, explanation.full


def test_all_alignments_of_one_round(through, mode):
    """The first round teaches everything, as with synchronous builds."""
    fn = through(add)
    for pair in PAIRS:
        routed(fn, *pair, via="dynamo" if mode == "sync" else None)
    assert trident_hook.settle(120)
    for _ in range(3):
        for pair in PAIRS:
            routed(fn, *pair, via="scm", launches=1)
    assert facts(fn) == (4, 0, {}, False)


#: The number is a symbol after the second call. Classes of a // 3: 16 divides, none, 1, wider than 32 bits.
NUMBERS = [48, 51, 3, 3 << 40, 96, 3 * (2**33 + 1)]


def test_all_classes_of_an_int(served, mode):
    fn = served(split)
    with Held() if mode == "background" else contextlib.nullcontext():
        for a in (7, *NUMBERS):
            routed(fn, ALIGNED, a, via="scm" if mode == "sync" and a == 96 else "dynamo")
    for a in (7, *NUMBERS, 33, 192):
        routed(fn, ALIGNED, a, via="scm", launches=1)
    assert facts(fn) == (6, 0, {}, False)  # 7 itself, and five classes


def test_one_build_for_what_was_learned_meanwhile(through):
    trident_hook.config.build = "background"
    fn = through(add)
    frames = torch._dynamo.utils.counters["frames"]
    with Held():
        routed(fn, *PAIRS[0], via="dynamo")
        captured = frames["total"]
        for _ in range(3):  # again and again: nothing is learned twice
            for pair in PAIRS:
                routed(fn, *pair, via="dynamo")
        assert frames["total"] == captured, "captured again: Dynamo's entry was to answer"
    for pair in PAIRS:
        routed(fn, *pair, via="scm", launches=1)
    assert trident_hook.explain(fn).builds == 1
    assert facts(fn) == (4, 0, {}, False)


def test_variants_do_not_answer_each_others_calls(served):
    """The preconditions of every variant, alone in its module: the other three calls miss."""
    trident_hook.config.build, trident_hook.config.limit = "background", 1
    for pair in PAIRS:
        fn = served(add)
        with Held():
            fn(*pair)
        for other in PAIRS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                routed(fn, *other, via="scm" if other is pair else "over")


def test_a_variant_of_a_module_in_place_is_not_learned_again(served):
    """Captured anew for a new variant, Dynamo's entry answers the old ones too, where a call enters late."""
    trident_hook.config.build = "background"
    fn = served(add)
    with Held():
        fn(*PAIRS[0])
    with Held():
        routed(fn, *PAIRS[1], via="dynamo")
        routed(fn, *PAIRS[2], via="dynamo")
        routed(fn, *PAIRS[1], via="dynamo")
        routed(fn, *PAIRS[0], via="scm")
    assert facts(fn)[0] == 3
    assert trident_hook.explain(fn).builds == 2


def test_what_is_known_is_no_build_without_news(served):
    """A build that has nothing new ends the learning, where builds are synchronous."""
    fn = served(add)
    for pair in PAIRS[:2]:
        warm(fn, *pair)
    record = find_record(fn)
    for spec in record.specializations:
        record.learning.learned_variant(spec)
        record.builds.run()
    assert facts(fn) == (2, 0, {}, False)
    warm(fn, *PAIRS[2])


def test_the_limit_holds(served):
    trident_hook.config.build, trident_hook.config.limit = "background", 3
    fn = served(add)
    with Held():
        for pair in PAIRS:
            routed(fn, *pair, via="dynamo")
    for pair in PAIRS[:3]:
        routed(fn, *pair, via="scm")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        routed(fn, *PAIRS[3], via="over")
    assert facts(fn) == (3, 0, {}, True)


def test_another_state_teaches_nothing_wrong(served):
    """A variant is served in the state in which it was launched, and in no other."""
    trident_hook.config.build = "background"
    fn = served(add)
    with Held():
        fn(*PAIRS[0])
        with torch.no_grad():
            routed(fn, *PAIRS[1], via="dynamo")
    routed(fn, *PAIRS[0], via="scm")
    routed(fn, *PAIRS[1], via="dynamo")
    with torch.no_grad():
        routed(fn, *PAIRS[1], via="scm")


def test_guards_on_the_kernel_are_those_of_the_variants_own_launch(served):
    """Triton's settings, as they were then: they are part of its choice."""
    from triton import knobs

    trident_hook.config.build = "background"
    fn = served(add)
    with Held():
        fn(*PAIRS[0])
        knobs.runtime.debug = True
        try:
            routed(fn, *PAIRS[1], via="dynamo")
        finally:
            knobs.runtime.debug = False
    routed(fn, *PAIRS[0], via="scm")
    routed(fn, *PAIRS[1], via="dynamo", reason=".debug == True")


def two_launches(x, y):
    """The second launch reads what an operator made: its alignment never varies."""
    z = add(x, y) * 2
    out = torch.empty_like(z)
    add_kernel[(1,)](z, y, out, z.numel(), BLOCK=64)
    return out, z


def test_several_launches(served, mode):
    fn = served(two_launches)
    for pair in PAIRS:
        routed(fn, *pair, via="dynamo" if mode == "sync" else None)
    assert trident_hook.settle(120)
    for pair in PAIRS:
        routed(fn, *pair, via="scm", launches=2)
    assert facts(fn) == (4, 0, {}, False)


def returning_the_launch(x, y):
    return add_kernel[(1,)](x, x, y, x.numel(), BLOCK=64)


def test_what_a_launch_returns_is_that_launchs(served):
    """Where the program uses it, each capture has one: such variants are left to captures of their own."""
    trident_hook.config.build = "background"
    fn = served(returning_the_launch)
    for _ in range(len(PAIRS)):
        for pair in PAIRS:
            assert fn(*pair) is twin(fn)(*pair)
            assert torch.equal(pair[1], pair[0] * 2)
        assert trident_hook.settle(120)
    for pair in PAIRS:
        routed(fn, *pair, via="scm", launches=1)
    assert facts(fn) == (4, 0, {}, False)


def test_two_threads_from_the_first_call(served, mode):
    """Each alternates between two variants. A run that ends while another one is the first is right as well."""
    fn, failures, done = served(add), [], []
    barrier = threading.Barrier(2)

    def job(pairs):
        try:
            barrier.wait()
            for _ in range(12):
                for x, y in pairs:
                    assert torch.equal(fn(x, y), x + y)
            done.append(True)
        except BaseException as error:
            failures.append(error)

    with simdriver.record(False), counted(fn) as added:
        threads = [threading.Thread(target=job, args=(pairs,)) for pairs in (PAIRS[:2], PAIRS[2:])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    if failures:
        raise failures[0]
    assert len(done) == 2
    assert (added["hits"] + added["misses"], added["errors"]) == (48, 0)
    assert trident_hook.settle(120)
    for pair in PAIRS:  # at most one more capture each: a call may have run while another was the first
        fn(*pair)
        assert trident_hook.settle(120)
    for pair in PAIRS:
        routed(fn, *pair, via="scm", launches=1)
    assert facts(fn)[:2] == (4, 0)


def test_the_first_run_fails(served):
    """The next run is the first, then."""
    trident_hook.config.build = "background"
    fn = served(indexing)
    with Held():
        routed(fn, ALIGNED, torch.tensor([64]), raises=IndexError, via=None)
        routed(fn, ALIGNED, torch.tensor([3]), via="dynamo")
        routed(fn, MISALIGNED, torch.tensor([3]), via="dynamo")
    for x in (ALIGNED, MISALIGNED):
        routed(fn, x, torch.tensor([5]), via="scm")
    assert facts(fn)[:2] == (2, 0)


def indexing(x, at):
    return torch.index_select(add(x, x), 0, at)


def test_one_that_cannot_be_generated_does_not_take_the_others_along(served, monkeypatch):
    from trident_hook.errors import Unsupported
    from trident_hook.functions import builds

    def picky(specializations, *more):
        for spec in specializations:
            if any(p.divisible is False for op in spec.program.ops for p in getattr(op, "params", ())[1:2]):
                raise Unsupported("codegen", "a second tensor that is not aligned")
        return generate(specializations, *more)

    trident_hook.config.build, generate = "background", builds.generate
    monkeypatch.setattr(builds, "generate", picky)
    fn = served(add)
    with Held():
        for pair in PAIRS:
            routed(fn, *pair, via="dynamo")
    for pair in (PAIRS[0], PAIRS[2]):
        routed(fn, *pair, via="scm")
    explanation = trident_hook.explain(fn)
    assert (len(explanation.specializations), explanation.refused) == (2, None)
    assert list(explanation.refusals) == ["codegen: a second tensor that is not aligned"]
