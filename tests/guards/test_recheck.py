"""Every step of the check of environment guards (ext/guard/recheck.cpp): it holds, the smallest change fails the guard that
it was made for. Guards are made by hand: one function, one module, all steps."""

from __future__ import annotations

import re
import types

import pytest
import torch

from trident_hook import _compat, _core, _rt
from trident_hook._scm.compiler import include_dir
from trident_hook._scm.loader import LoadedScm
from trident_hook.codegen.module import generate
from trident_hook.ir.condition import Condition
from trident_hook.ir.guard import Guard
from trident_hook.ir.objects import ObjectKey
from trident_hook.ir.program import HostProgram
from trident_hook.ir.recipe import Const, ReturnRecipe
from trident_hook.ir.source import Source
from trident_hook.ir.specialization import Specialization

MARK, OTHER = object(), object()
G = Source(("global",), (), "G")


class Base:
    pass


class Rival:
    pass


def namespace() -> dict:
    class Holder(Base):
        x = MARK

    def outer():
        held = MARK

        def f(a=MARK, *, k=MARK):
            return held

        return f

    holder = Holder()
    holder.a = MARK
    return {
        "number": 7, "text": "a", "ratio": 0.0, "nan": float("nan"), "nothing": None, "thing": MARK, "yes": True, "no": False,
        "one": MARK, "two": MARK, "apart": OTHER, "pair": (1, MARK), "table": {"a": 1, "b": 2}, "holder": holder, "kind": Holder,
        "f": outer(), "watched": [],
    }  # fmt: skip


def item(name: str) -> Source:
    return G.then("dict_item", name)


def cases(space: dict) -> list:
    """(guard, change to the namespace that it must see)."""
    holder, kind, f, table = space["holder"], space["kind"], space["f"], space["table"]

    def put(name, value):
        return lambda: space.__setitem__(name, value)

    def reordered():
        table["a"] = table.pop("a")

    nan = ObjectKey(space["nan"])
    return [
        (Guard("equals", item("number"), ObjectKey(7)), put("number", 8)),
        (Guard("equals", item("number"), ObjectKey(7)), put("number", 7.0)),
        (Guard("equals", item("number"), ObjectKey(7)), lambda: space.pop("number")),
        (Guard("equals", item("text"), ObjectKey("a")), put("text", "b")),
        (Guard("equals", item("ratio"), ObjectKey(0.0)), put("ratio", -0.0)),
        (Guard("nan", item("nan"), nan), put("nan", 1.0)),
        (Guard("none", item("nothing")), put("nothing", 0)),
        (Guard("not_none", item("thing")), put("thing", None)),
        (Guard("true", item("yes")), put("yes", 1)),
        (Guard("false", item("no")), put("no", 0)),
        (Guard("id", item("one"), ObjectKey(MARK)), put("one", OTHER)),
        (Guard("same", item("two"), item("thing")), put("two", OTHER)),
        (Guard("id", item("pair").then("tuple_item", 1), ObjectKey(MARK)), put("pair", (MARK, 1))),
        (Guard("id", item("pair").then("tuple_item", 1), ObjectKey(MARK)), put("pair", (1,))),
        (Guard("id", item("pair").then("tuple_item", 1), ObjectKey(MARK)), put("pair", [1, MARK])),
        (Guard("dict_length", item("table"), 2), lambda: table.__setitem__("c", 3)),
        (Guard("dict_contains", item("table"), (True, "a")), lambda: table.__setitem__("A", table.pop("a"))),
        (Guard("dict_contains", item("table"), (False, "A")), lambda: table.__setitem__("A", table.pop("b"))),
        (Guard("equals", item("table").then("dict_key_at", 1), ObjectKey("b")), reordered),
        (Guard("equals", item("table").then("dict_value_at", 0), ObjectKey(1)), reordered),
        (Guard("type", item("holder"), ObjectKey(kind)), put("holder", types.SimpleNamespace(a=MARK))),
        (Guard("id", item("holder").then("attr", "a"), ObjectKey(MARK)), lambda: setattr(holder, "a", OTHER)),
        (Guard("id", item("holder").then("attr", "a"), ObjectKey(MARK)), lambda: delattr(holder, "a")),
        (Guard("id", item("holder").then("attr", "x"), ObjectKey(MARK)), lambda: setattr(kind, "x", OTHER)),
        (Guard("dict_contains", item("holder").then("generic_dict"), (False, "x")), lambda: setattr(holder, "x", MARK)),
        (Guard("id", item("kind").then("type_dict").then("dict_item", "x"), ObjectKey(MARK)), lambda: setattr(kind, "x", 1)),
        (Guard("id", item("kind").then("type_mro").then("tuple_item", 1), ObjectKey(Base)),
         lambda: setattr(kind, "__bases__", (Rival, Base))),
        (Guard("id", item("holder").then("type"), ObjectKey(kind)), put("holder", types.SimpleNamespace(a=MARK))),
        (Guard("id", item("f").then("code"), ObjectKey(f.__code__)),
         lambda: setattr(f, "__code__", f.__code__.replace(co_name="g"))),
        (Guard("id", item("f").then("closure").then("tuple_item", 0), ObjectKey(f.__closure__[0])),
         put("f", namespace()["f"])),
        (Guard("id", item("f").then("defaults").then("tuple_item", 0), ObjectKey(MARK)),
         lambda: setattr(f, "__defaults__", (OTHER,))),
        (Guard("id", item("f").then("defaults").then("tuple_item", 0), ObjectKey(MARK)),
         lambda: setattr(f, "__defaults__", None)),
        (Guard("id", item("f").then("kwdefaults").then("dict_item", "k"), ObjectKey(MARK)),
         lambda: setattr(f, "__kwdefaults__", {"k": OTHER})),
        (Guard("class_facts", item("kind"), ObjectKey(lambda cls: cls.x is MARK)), lambda: setattr(kind, "x", OTHER)),
        (Guard("env_distinct", item("one"), (item("one"), item("apart"))), put("apart", MARK)),
        (Guard("default_device", Source(("none",)), ObjectKey(None)), None),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def asked():
    """One function with the guards of every case, each on objects of its own, and the changes."""
    guards, changes = [], []
    for place in range(len(cases(namespace()))):
        space = namespace()
        guard, change = cases(space)[place]
        guards.append(rooted(guard, space))
        changes.append(change)
    space = {"number": 7}
    guards.append(Guard("equals", item("number"), ObjectKey(7)))
    changes.append(lambda: space.pop("number"))
    fn = types.FunctionType(compile("def fn(): pass", "made_up.py", "exec").co_consts[0], space, "fn")
    spec = Specialization(
        name="made.up", index=0, argument_names=(), free_names=(), state=tuple(_rt.state_read()[1]), guards=tuple(guards),
        program=HostProgram((), (), (), {}), recipe=ReturnRecipe((), (), Const(None)), launch_device=None,
        launch_device_type=None, globals_=ObjectKey(space),
    )  # fmt: skip
    hooks, module = [], {"_stance": types.SimpleNamespace(stance="default")}
    conditions = [
        Condition(Source(("object", ObjectKey(hooks))), "empty_list", "nobody watches"),
        Condition(Source(("object", ObjectKey(module))).then("dict_item", "_stance"), "not_eager", "not eager"),
    ]
    generated = generate([spec], conditions)
    scm = LoadedScm(generated)
    _core.entry_create(fn.__code__, object(), 0)
    _core.entry_scm_set(fn.__code__, scm)
    yield types.SimpleNamespace(**locals())
    _core.entry_drop(fn.__code__)


def rooted(guard: Guard, space: dict) -> Guard:
    """The same guard of this namespace instead of the function's globals."""
    root = ("object", ObjectKey(space))

    def moved(source):
        return Source(root, source.steps) if source.root == ("global",) else source

    arg = moved(guard.arg) if guard.kind == "same" else guard.arg
    arg = tuple(map(moved, arg)) if guard.kind == "env_distinct" else arg
    return Guard(guard.kind, moved(guard.source), arg)


def failing(asked) -> str | None:
    """The text of the guard that does not hold; asked twice, as the second answer may come from the plan."""
    answers = [_core.scm_check(asked.fn, ()) for _ in range(2)]
    assert answers in ([0, 0], [None, None])
    return None if answers[0] == 0 else asked.generated.guard_texts[0][asked.scm.failed[0]]


def test_all_steps_are_here(asked):
    enum = re.findall(r"TDH_(?:READ|ASK)_[A-Z_]+", (include_dir() / "tdh_rt.h").read_text())
    assert {name for name in enum if not name.endswith("_")} == set(
        re.findall(r"TDH_(?:READ|ASK)_\w+", asked.generated.source)
    )


@pytest.mark.skipif(not _compat.HAS_WATCHERS, reason="nothing is watched below CPython 3.12")
def test_it_is_watched(asked):
    assert failing(asked) is None
    assert _rt.env_watchers()["dicts"] > 10


def test_ambient_conditions(asked):
    assert failing(asked) is None
    asked.hooks.append(1)
    assert _core.scm_check(asked.fn, ()) is None
    asked.hooks.clear()
    assert failing(asked) is None
    asked.module["_stance"] = types.SimpleNamespace(stance="force_eager")  # as PyTorch sets it: another object
    assert _core.scm_check(asked.fn, ()) is None
    asked.module["_stance"] = types.SimpleNamespace(stance="default")
    assert failing(asked) is None


def test_each_change_fails_its_guard(asked, monkeypatch):
    """From the last guard to the first: the first that does not hold is the one whose objects were changed last."""
    assert failing(asked) is None
    texts = asked.generated.guard_texts[0][-len(asked.guards) :]
    for guard, change, text in reversed(list(zip(asked.guards, asked.changes, texts, strict=True))):
        if guard.kind == "default_device":
            monkeypatch.setattr("torch.utils._device.CURRENT_DEVICE", torch.device("cpu"))
        else:
            change()
        assert failing(asked) == text == f"[env] {guard}"
