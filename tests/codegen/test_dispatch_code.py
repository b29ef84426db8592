"""The tree that chooses whom to ask: what it separates, what it leaves together, and that its text stays small."""

from __future__ import annotations

import dataclasses
import itertools
import random

import pytest
import torch

from trident_hook import _rt
from trident_hook.codegen.dispatch_code import Dispatcher
from trident_hook.codegen.writer import Tables
from trident_hook.ir.guard import Guard, TensorFacts
from trident_hook.ir.objects import ObjectKey
from trident_hook.ir.program import HostProgram
from trident_hook.ir.recipe import Const, ReturnRecipe
from trident_hook.ir.source import Source
from trident_hook.ir.specialization import Specialization

STATE = (1, 2, 3, 4, 5, 6, 7, 0)
NAMES = ("x", "a", "b")
PLAIN = Specialization(
    name="made.up", index=0, argument_names=NAMES, free_names=(), state=STATE, guards=(),
    program=HostProgram((), (), (), {}), recipe=ReturnRecipe((), (), Const(None)), launch_device=None,
    launch_device_type=None, globals_=ObjectKey({}),
)  # fmt: skip


def local(name: str) -> Source:
    return Source(("local", name), (), name)


def equals(name: str, value) -> Guard:
    return Guard("equals", local(name), ObjectKey(value))


def tensor(name: str, *sizes, dtype=torch.float32) -> Guard:
    keys = _rt.tensor_read(torch.empty(0, dtype=dtype))["keys"]
    facts = TensorFacts(torch.Tensor, keys, dtype, "cpu", None, False, sizes, (None,) * len(sizes))
    return Guard("tensor", local(name), facts)


def spec(*guards, state=STATE) -> Specialization:
    return dataclasses.replace(PLAIN, guards=guards, state=state)


def tree(*specs) -> tuple[list[tuple[int, ...]], str]:
    """The groups, and the text."""
    dispatcher = Dispatcher(list(specs), Tables())
    text = dispatcher.write()
    return list(dispatcher.groups), text


def singles(n: int) -> set[tuple[int]]:
    return {(i,) for i in range(n)}


@pytest.mark.parametrize(
    "guards",
    [
        [equals("a", n) for n in range(64)],
        [equals("a", n / 2) for n in range(20)],
        [equals("a", f"mode {n}") for n in range(40)],
        [equals("a", bytes([n])) for n in range(10)],
        [equals("a", value) for value in (1, 1.0, "1", b"1", None, torch.float32, torch.float64)],
        [tensor("x", *[None] * rank) for rank in range(8)],
        [tensor("x", 4, dtype=d) for d in (torch.float32, torch.float16, torch.int32)],
        [tensor("x", 4, n) for n in range(9)],
    ],
    ids=["ints", "floats", "strings", "bytes", "kinds", "ranks", "dtypes", "sizes"],
)
def test_what_one_argument_tells_apart(guards):
    groups, _ = tree(*(spec(guard) for guard in guards))
    assert set(groups) == singles(len(guards))


def test_two_arguments_and_the_state():
    specs = [
        spec(equals("a", a), equals("b", b), state=(*STATE[:2], flags, *STATE[3:]))
        for a, b, flags in itertools.product(range(4), "uvw", (3, 8))
    ]
    assert set(tree(*specs)[0]) == singles(len(specs))


def test_what_nothing_tells_apart_stays_together():
    groups, text = tree(spec(equals("a", 1)), spec(equals("a", 1)), spec(equals("a", 2)))
    assert set(groups) == {(0, 1), (2,)}
    assert "return -1" in text, "another value suits nobody"


def test_one_that_any_value_suits_is_in_every_group():
    many = [spec(equals("a", n)) for n in range(10)]
    groups, text = tree(*many, spec())
    assert {(n, 10) for n in range(10)} <= set(groups)
    assert (10,) in groups
    assert "return -1" not in text


def test_one_answer_for_all_is_no_question():
    groups, text = tree(*(spec(tensor("x", 4), equals("a", n)) for n in range(3)))
    assert "tensor_read" not in text
    assert "st.word" not in text
    assert set(groups) == singles(3)


def test_reading_runs_no_python():
    """What is stored is looked at, nothing that is calculated, and no key whose comparison is the program's."""
    a = local("a")
    stored = (a.then("attr", "mode"), a.then("dict_item", "mode"), a.then("tuple_item", 0), a.then("code"),
              a.then("generic_dict").then("dict_item", 3), Source(("global",)).then("dict_item", "N"))  # fmt: skip
    other = (a.then("item", "mode"), a.then("call"), a.then("apply", ObjectKey(len)), a.then("dict_item", (1, 2)),
             a.then("attr", "mode").then("call").then("attr", "n"))  # fmt: skip
    for source in (*stored, *other):
        groups, text = tree(*(spec(Guard("equals", source, ObjectKey(n))) for n in range(3)))
        assert set(groups) == (singles(3) if source in stored else {(0, 1, 2)}), source
        assert "attr_find" not in text
        assert "PyObject_" not in text


def test_relations_between_values_are_told_apart():
    a, b = local("a"), local("b")
    groups, _ = tree(spec(Guard("same", a, b)), spec(Guard("distinct", b, (b, a))))
    assert set(groups) == singles(2)
    groups, _ = tree(*(spec(Guard("dict_contains", a, (wanted, ObjectKey("k")))) for wanted in (True, False)))
    assert set(groups) == singles(2)


def test_the_same_text_every_time():
    specs = [spec(equals("a", n % 5), equals("b", f"{n}")) for n in range(20)]
    assert tree(*specs) == tree(*specs)


def test_the_text_is_bounded():
    """Guards of all sorts at random, many of them absent: no more questions than four for each specialization."""
    chosen = random.Random(7)
    values = [0, 1, 2.5, "m", "mean", "max", None, b"x"]
    specs = []
    for _ in range(120):
        guards = [equals(name, chosen.choice(values)) for name in ("a", "b") if chosen.random() < 0.7]
        if chosen.random() < 0.7:
            guards.append(tensor("x", *(chosen.choice([None, 4, 8]) for _ in range(chosen.randrange(4)))))
        specs.append(spec(*guards))
    groups, text = tree(*specs)
    assert text.count("while True:") <= 4 * len(specs)
    assert set().union(*groups) == set(range(len(specs))), "one is in no group"
    assert max(len(line) - len(line.lstrip()) for line in text.splitlines()) <= 4 * 44
