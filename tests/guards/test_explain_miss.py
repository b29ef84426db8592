"""`explain(fn).last_miss`: what was expected and what was seen, without running code of the program. What it says of each kind
of guard is checked in test_pairs.py, with the calls that miss there."""

from __future__ import annotations

import enum
import gc
import math
import types
import weakref

import pytest
import torch
from support import programs
from support.routes import routed, same, twin

import trident_hook
from guards import test_pairs as pairs
from trident_hook import _core, _rt, api
from trident_hook.misses import state_text
from trident_hook.misses.safe_text import show

X = pairs.X


def last_miss(served, *args) -> str:
    misses = trident_hook.counts(served)["misses"]
    served(*args)
    assert trident_hook.counts(served)["misses"] == misses + 1
    return trident_hook.explain(served).last_miss


def learned(fn, *args):
    served = trident_hook.jit(twin(fn))
    routed(served, *args, via="dynamo")
    routed(served, *args, via="scm")
    return served


def test_numbers_of_a_shape_expression():
    def related(x, n):
        return x + 1 if x.shape[0] * 2 > n else x - 1

    with torch._dynamo.config.patch(assume_static_by_default=False):
        served = learned(related, pairs.t(4, 6), 5)
        said = last_miss(served, pairs.t(4, 6), 9)
    assert "['x'].size()[0] = 4" in said or "L['n'] = 9" in said, said
    assert "L['n'] = 9" in said, said


def remainder(x, a):
    return x + a % 5


def test_a_number_beyond_64_bits():
    with torch._dynamo.config.patch(assume_static_by_default=False):
        served = learned(remainder, X, 7)
        said = last_miss(served, X, 10**30)
    assert f"seen a = {10**30}" in said, said
    assert "numbers of 64 bits" in said


def test_what_a_kernel_needs():
    served = learned(programs.shift, torch.arange(32.0), 3)
    said = last_miss(served, torch.arange(36.0)[1:33], 3)
    assert "shift_kernel: x divisible by 16: True (seen an address with remainder 4)" in said


def test_free_variables_and_keyword_arguments():
    scale = 2

    def closed(x, *, shift, **more):
        return x * scale + shift + more["extra"]

    served = trident_hook.jit(closed)
    served(X, shift=1, extra=2)
    routed(served, X, shift=1, extra=2, via="scm")
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        served(X, extra=3, shift=1)
        assert "(expected 2, seen 3)" in trident_hook.explain(served).last_miss
        scale = 5
        served(X, shift=1, extra=2)
    assert "(expected 2, seen 5)" in trident_hook.explain(served).last_miss


@pytest.mark.parametrize("promote", [True, False])
def test_through_the_doors_of_enable(promote):
    trident_hook.config.promote = promote
    fn = twin(pairs.plus)
    with trident_hook.enable(include=[fn]):
        fn(X, 2.5)
        routed(fn, X, 2.5, via="scm")
        fn(X, 3.5)
    assert trident_hook.explain(fn).last_miss.endswith("L['a'] == 2.5 (expected 2.5, seen 3.5)")


def test_each_specialization_has_its_own():
    served = learned(pairs.plus, X, 2.5)
    routed(served, X.double(), 2.5, via="dynamo")
    said = last_miss(served, X, 4.5).split("; ")
    assert len(said) == 2
    assert said[0].startswith("specialization 0: ")
    assert "seen 4.5" in said[0]
    assert said[1].startswith("specialization 1: ")
    assert "seen Tensor(torch.float32" in said[1]


def test_the_log_says_it(capsys):
    served = learned(pairs.plus, X, 2.5)
    trident_hook.config.logs = "guards"
    served(X, 3.5)
    line = next(line for line in capsys.readouterr().err.splitlines() if "missed" in line)
    assert "[trident_hook:guards]" in line
    assert "(expected 2.5, seen 3.5)" in line


def test_the_moment_of_the_miss_counts():
    """What the call then does to its argument is not what was seen."""

    def appends(x, a):
        a.append(len(a))
        return x + a[0]

    served = learned_afresh(appends, lambda: (X, [1, 2]))
    served(X, [1, 2, 3])
    assert "expected length 2, seen length 3" in trident_hook.explain(served).last_miss


def learned_afresh(fn, args):
    served = trident_hook.jit(fn)
    served(*args())
    hits = trident_hook.counts(served)["hits"]
    served(*args())
    assert trident_hook.counts(served)["hits"] == hits + 1
    return served


# -- what the program must not notice ------------------------------------------------------------------------------------


class Hostile(type):
    """Its classes and their instances run code when they are asked for nearly anything."""

    def _raises(self, *args):
        raise AssertionError("code of the program ran")

    __repr__ = __str__ = __instancecheck__ = __subclasscheck__ = __len__ = __getattr__ = _raises


class Trap(metaclass=Hostile):
    def _raises(self, *args):
        raise AssertionError("code of the program ran")

    __repr__ = __str__ = __len__ = __iter__ = __eq__ = __getattr__ = __bool__ = __format__ = _raises
    __hash__ = _raises
    __class__ = property(_raises)
    value = property(_raises)


def test_no_code_of_the_program_runs_and_nothing_is_kept():
    served, trap = learned(pairs.plus, X, 2.5), Trap()
    gone = weakref.ref(trap, lambda _: None)
    with pytest.raises(AssertionError, match="ran"):  # by x + trap, in the function itself
        served(X, trap)
    assert trident_hook.explain(served).last_miss.endswith("(expected 2.5, seen <Trap object>)")
    del trap
    gc.collect()
    assert gone() is None


class TrapDict(dict):
    def _raises(self, *args):
        raise AssertionError("code of the program ran")

    __getitem__ = __len__ = __iter__ = __contains__ = get = items = keys = values = _raises


class Colour(enum.Enum):
    RED = 1


class SubInt(int):
    def __repr__(self):
        raise AssertionError("code of the program ran")


def test_texts_are_short_and_safe():
    deep = [1]
    for _ in range(200):
        deep = [deep]
    cyclic = []
    cyclic.append(cyclic)
    module = types.ModuleType("m")
    module.__name__ = 3
    shown = {
        2**300: "<int of 301 bits>",
        "x" * 10**6: "'" + "x" * 60 + "'... (1000000 long)",
        "\ud800\n": r"'\ud800\n'",
        (): "()",
        (1,): "(1,)",
        (True, 1.0): "(True, 1.0)",
        Colour.RED: "Colour.RED",
        SubInt(3): "<SubInt object>",
        -math.inf: "-inf",
        torch.Size([2, 3]): "torch.Size([2, 3])",
        torch.device("cpu", 0): "device(type='cpu', index=0)",
        Colour: "<class Colour>",
        math: "<module math>",
        module: "<module>",
    }
    assert {value: show(value) for value in shown} == shown
    assert show(slice(1, None)) == "slice(1, None, None)"  # has no hash below CPython 3.12
    assert show([1, {"a": [1, 2]}]) == "[1, {'a': <list of 2>}]"
    assert show(list(range(100))) == "[0, 1, 2, 3, 4, 5, 6, 7, ... (100 in all)]"
    assert len(show(deep)) < 50
    assert len(show(cyclic)) < 50
    assert show(Trap()) == "<Trap object>"
    assert show(Trap) == "<class Trap>"
    assert show([Trap(), TrapDict(a=1)]) == "[<Trap object>, <TrapDict object>]"
    assert show(torch.empty(2).to_sparse()) == "Tensor without plain sizes and strides"
    assert show(torch.empty(2, 0, dtype=torch.bfloat16)) == "Tensor(torch.bfloat16, cpu, size=(2, 0), stride=(1, 1))"


def test_looking_fails_quietly(monkeypatch):
    """Help that cannot be had does not become an error of the program's."""
    served = learned(pairs.plus, X, 2.5)
    monkeypatch.setattr("trident_hook.misses.explain_miss._Eyes._read", lambda self, source: 1 / 0)
    assert same(served(X, 3.5), X + 3.5)
    assert "<not to be read: ZeroDivisionError>" in trident_hook.explain(served).last_miss


def test_no_call_is_missed_outside_of_one():
    served = learned(pairs.plus, X, 2.5)
    record, seen = api.find_record(served), []
    assert _core.missed_call() is None
    look = record.last_miss.inspector.look
    record.last_miss.inspector.look = lambda failed, call: seen.append(call) or look(failed, call)
    served(X, 3.5)
    ((function, arguments),) = seen
    assert function is served.__wrapped__
    assert arguments[0] is X
    assert arguments[1] == 3.5
    assert _core.missed_call() is None


STATES = {
    "grad mode": torch.no_grad,
    "inference mode": torch.inference_mode,
    "default dtype": lambda: _set(torch.set_default_dtype, torch.get_default_dtype(), torch.float64),
    "number of threads": lambda: _set(torch.set_num_threads, torch.get_num_threads(), torch.get_num_threads() + 1),
    "deterministic algorithms": lambda: _set(torch.use_deterministic_algorithms, False, True),
    "TF32 in matrix products": lambda: _set(torch.set_float32_matmul_precision, "highest", "high"),
    "TF32 in convolutions": lambda: _flag(torch.backends.cudnn, "allow_tf32"),
    "reduced precision of fp16 sums": lambda: _flag(
        torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"
    ),
    "reduced precision of bf16 sums": lambda: _flag(
        torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction"
    ),
    "deterministic fill of uninitialized memory": lambda: _flag(torch.utils.deterministic, "fill_uninitialized_memory"),
    "forward-mode grad": lambda: torch.autograd.forward_ad._set_fwd_grad_enabled(False),
    "autocast for cpu": lambda: torch.autocast("cpu", dtype=torch.float16),
    "autocast for cuda": lambda: _set(
        lambda dtype: torch.set_autocast_dtype("cuda", dtype), torch.get_autocast_dtype("cuda"), torch.bfloat16
    ),
}


class _set:
    def __init__(self, setter, before, now):
        self.setter, self.before, self.now = setter, before, now

    def __enter__(self):
        self.setter(self.now)

    def __exit__(self, *exc):
        self.setter(self.before)


def _flag(owner, name):
    before = getattr(owner, name)
    return _set(lambda value: setattr(owner, name, value), before, not before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STATES)
def test_each_part_of_the_torch_state_has_its_name(name):
    before = tuple(_rt.state_read()[1])
    with STATES[name]():
        found = state_text.differences(before, tuple(_rt.state_read()[1]))
    assert name in [part for part, *_ in found], found
    if name != "inference mode":
        assert len(found) <= 2, found  # autocast has its cache, and nothing else comes with another part
    assert all(expected != seen for _, expected, seen in found)
