"""Every native kind of guard: a call that it lets pass, and the smallest change that it must not."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import types

import pytest
import torch
from support import programs
from support.routes import routed, same, twin

import trident_hook

from .said import CHANGED, SAID


def t(*shape, **options):
    return torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape).to(**options)


class Sub(torch.Tensor):
    pass


@dataclasses.dataclass
class Point:
    x: int = 1


class Model:
    gain = 2

    def apply(self, x):
        return x * self.gain


class Number(int):
    """Hashed and compared as it likes."""

    __hash__ = int.__hash__

    def __eq__(self, other):
        return other == 2


class Slotted:
    __slots__ = ("rate",)


class Table:
    sizes = [1, 2]


class Fallback:
    def __getattr__(self, name):
        return 7


class Shown:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


CONFIG = types.SimpleNamespace(scale=2.0)
SCALE, TABLE, ITEMS = 2.0, {"a": 1, "b": 2}, [1, 2]
WEIGHT = t(2, 3)


def double(x):
    return x * 2


def add(x, y):
    return x + y


def mixed(x, a):
    return x + 1 if a else x * 2


def plus(x, a):
    return x + a


def optional(x, a):
    return x * 2 if a is None else x + 1


def first(x, a):
    return x + a[0]


def value_of(x, a):
    return x + a["k"]


def counted(x, a):
    return x + len(a)


def asked(x, a):
    return x + 1 if "k" in a else x * 2


def tag_of(x):
    return x * getattr(x, "tag", 2)


def one_or_two(x, y):
    return x * 2 if x is y else x + y


def global_number(x):
    return x * SCALE


def global_dict(x):
    return x * len(TABLE)


def global_list(x):
    return x * len(ITEMS)


def global_tensor(x):
    return x * WEIGHT


def makes(x):
    return torch.ones(2, 3) + x


def of_point(x, p):
    return x * p.x


def of_model(x, m):
    return m.apply(x)


def with_set(x, s):
    return x + 1 if 2 in s else x * 2


def with_range(x, r):
    for i in r:
        x = x + i
    return x


def applied(x, f):
    return f(x) + 1


def as_dtype(x, d):
    return x.to(d) + torch.ones(2, 3, dtype=d)


def in_order(x, a):
    other = a.copy()
    return x + 1, [*other]


def or_else(x, a):
    try:
        return x + a["k"]
    except KeyError:
        return x * 2


def through_a_set(x, s):
    for n, item in enumerate(s):
        x = x + n * item
    return x


def has_key(x, keys):
    return x + 1 if keys.has(torch._C.DispatchKey.CPU) else x - 1


def of_fallback(x, f):
    return x * f.missing


def slot_or_else(x, s):
    try:
        return x * s.rate
    except AttributeError:
        return x - 1


def asks_attribute(x, a):
    return x * 2 if hasattr(a, "rate") else x * 3


def of_a_function(x):
    return x * getattr(double, "rate", 2)


def of_a_module(x):
    return x * 2 if hasattr(programs, "rate") else x * 3


def of_table(x):
    return x * Table.sizes[0]


def of_environ(x):
    return x * 2 if os.getenv("TRIDENT_HOOK_TEST_PAIRS") == "on" else x * 3


X = t(2, 3)
CPU_KEYS, META_KEYS = (torch._C.DispatchKeySet(key) for key in (torch._C.DispatchKey.CPU, torch._C.DispatchKey.Meta))


def slotted(rate):
    made = Slotted()
    made.rate = rate
    return made


def fallback(**attributes):
    made = Fallback()
    made.__dict__.update(attributes)
    return made


#: kind and what about it -> (function, arguments that pass, arguments that pass as well, arguments that must miss)
PAIRS = {
    "tensor: dtype": (double, (X,), (t(2, 3),), (t(2, 3, dtype=torch.float64),)),
    "tensor: size": (double, (X,), (t(2, 3) + 1,), (t(2, 4),)),
    "tensor: rank": (double, (X,), (t(2, 3),), (t(2, 3, 1),)),
    "tensor: stride": (double, (X,), (t(2, 3),), (t(3, 2).t(),)),
    "tensor: stride of a size of 1": (double, (t(1, 3),), (t(1, 3),), (t(2, 6)[::2, ::2],)),
    "tensor: requires_grad": (double, (X,), (t(2, 3),), (t(2, 3).requires_grad_(),)),
    "tensor: class": (double, (X,), (t(2, 3),), (t(2, 3).as_subclass(Sub),)),
    "tensor: parameter": (
        double,
        (torch.nn.Parameter(X),),
        (torch.nn.Parameter(t(2, 3)),),
        (t(2, 3).requires_grad_(),),
    ),
    "tensor: device": (double, (X,), (t(2, 3),), (torch.empty(2, 3, device="meta"),)),
    "tensor: conjugate": (
        double,
        (t(2, 3, dtype=torch.complex64),),
        (t(2, 3, dtype=torch.complex64),),
        (t(2, 3, dtype=torch.complex64).conj(),),
    ),
    "tensor: negative": (double, (X,), (t(2, 3),), (t(2, 3)._neg_view(),)),
    "tensor: not one": (double, (X,), (t(2, 3),), (2.5,)),
    "distinct": (add, (X, t(2, 3)), (t(2, 3), t(2, 3)), (X, X)),
    "same": (one_or_two, (X, X), (WEIGHT, WEIGHT), (X, t(2, 3))),
    "type: list or tuple": (first, (X, [1, 2]), (X, [1, 2]), (X, (1, 2))),
    "type: dataclass": (of_point, (X, Point()), (X, Point()), (X, Shown(x=1))),
    "id: function": (applied, (X, torch.relu), (t(2, 3), torch.relu), (X, torch.sigmoid)),
    "id: method descriptor": (applied, (X, torch.Tensor.relu), (t(2, 3), torch.Tensor.relu), (X, torch.Tensor.sigmoid)),
    "equals: int": (plus, (X, 5), (X, 5), (X, 5.0)),
    "equals: float": (plus, (X, 2.5), (X, 2.5), (X, math.nextafter(2.5, 3))),
    "equals: zero": (plus, (X, 0.0), (X, 0.0), (X, -0.0)),
    "equals: complex": (plus, (X, complex(1, 0.0)), (X, complex(1, 0.0)), (X, complex(1, -0.0))),
    "equals: string": (mixed, (X, "a"), (X, "".join(["a"])), (X, "b")),
    "equals: bytes": (mixed, (X, b"a"), (X, bytes([97])), (X, b"b")),
    "equals: dtype": (as_dtype, (X, torch.float64), (X, torch.float64), (X, torch.float32)),
    "equals: member of a tuple": (first, (X, (1, 2)), (X, (1, 2)), (X, (1.0, 2))),
    "equals: size": (mixed, (X, torch.Size([1, 2])), (X, torch.Size([1, 2])), (X, torch.Size([1, 3]))),
    "members: another": (with_set, (X, frozenset({1, 2})), (X, frozenset({True, 2.0})), (X, frozenset({2, 3}))),
    "members: a list": (with_set, (X, {1, 2}), (X, {2, True}), (X, [1, 2])),
    "members: not a plain constant": (with_set, (X, {1, 2}), (X, {2, 1}), (X, {1, Number(2)})),
    "equals: frozen set": (through_a_set, (X, frozenset({1, 2})), (X, frozenset({1, 2})), (X, frozenset({1, 2.0}))),
    "equals: order of a set": (through_a_set, (X, {0, 8}), (X, {0, 8}), (X, {8, 0})),
    "dict_contains: absent attribute": (of_fallback, (X, fallback()), (X, fallback()), (X, fallback(missing=3))),
    "no_attr: empty slot": (slot_or_else, (X, Slotted()), (X, Slotted()), (X, slotted(3))),
    "hasattr: absent": (asks_attribute, (X, Shown()), (X, Shown(other=1)), (X, Shown(rate=1))),
    "hasattr: present": (asks_attribute, (X, Shown(rate=1)), (X, Shown(rate=1, other=2)), (X, Shown())),
    "true": (mixed, (X, True), (X, True), (X, False)),
    "false": (mixed, (X, False), (X, False), (X, 0)),
    "none": (optional, (X, None), (X, None), (X, 0)),
    "not none": (optional, (X, t(1)), (X, t(1)), (X, None)),
    "nan": (plus, (X, math.nan), (X, float("nan")), (X, 1.0)),
    "nan: sign": (plus, (X, math.nan), (X, math.nan), (X, -math.nan)),
    "length: list": (first, (X, [1, 2]), (X, [1, 2]), (X, [1, 2, 3])),
    "length: tuple": (first, (X, (1, 2)), (X, (1, 2)), (X, (1,))),
    "dict_length": (counted, (X, {"k": 1}), (X, {"k": 1}), (X, {"k": 1, "l": 2})),
    "dict: order of keys": (in_order, (X, {"k": 1, "l": 2}), (X, {"k": 1, "l": 2}), (X, {"l": 2, "k": 1})),
    "dict: absent key": (or_else, (X, {"l": 1}), (X, {"l": 1}), (X, {"k": 1})),
    "dict: value": (value_of, (X, {"k": 1}), (X, {"k": 1}), (X, {"k": 2})),
    "dict_contains": (asked, (X, {"k": 1}), (X, {"k": 1}), (X, {"j": 1})),
    "no_attr": (tag_of, (X,), (t(2, 3),), (Shown,)),
    "residual: set": (with_set, (X, {1, 2}), (X, {True, 2}), (X, {1, 3})),
    "residual: dispatch keys": (has_key, (X, CPU_KEYS), (X, CPU_KEYS | CPU_KEYS), (X, CPU_KEYS | META_KEYS)),
    "range": (with_range, (X, range(3)), (X, range(3)), (X, range(4))),
}


def tagged():
    x = t(2, 3)
    x.tag = 5
    return x


@pytest.mark.parametrize("name", PAIRS)
def test_pair(name):
    fn, captured, passing, missing = PAIRS[name]
    served = trident_hook.jit(twin(fn))
    if missing == (Shown,):
        missing = (tagged(),)
    routed(served, *captured, via="dynamo")
    routed(served, *captured, via="scm")
    routed(served, *passing, via="scm")
    misses = trident_hook.counts(served)["misses"]
    assert same(served(*missing), twin(fn)(*missing))
    assert trident_hook.counts(served)["misses"] == misses + 1, "the change was not seen"
    assert SAID.get(name, "seen ") in trident_hook.explain(served).last_miss
    routed(served, *captured, via="scm")


def test_shape():
    def related(x):
        return x + 1 if x.shape[0] * 2 > x.shape[1] else x - 1

    with torch._dynamo.config.patch(assume_static_by_default=False):
        served = trident_hook.jit(related)
        routed(served, t(4, 6), via="dynamo")
        routed(served, t(5, 8), via="scm")
        routed(served, t(4, 7), via="scm")
        routed(served, t(4, 8), via="dynamo")
        routed(served, t(4, 6), via="scm")


@pytest.mark.parametrize("other", [math.inf, -math.inf, math.nan, 3, True, None])
def test_finite(other):
    """A float that changes: any finite one, and nothing else."""

    def added(x, a):
        return x + a if a is not None else x + 1

    served = trident_hook.jit(added)
    for value in (1.5, 2.5):
        routed(served, X, value, via=None)  # Dynamo remembers by place: it may know already that this one changes
    for value in (3.5, -0.0, 5e-324, 1.7976931348623157e308):
        routed(served, X, value, via="scm")
    routed(served, X, other, via="dynamo")
    said = "finite float" if isinstance(other, float) else "expected <class float>"
    assert said in trident_hook.explain(served).last_miss
    routed(served, X, 3.5, via="scm")


ABSENT = object()


def read(owner, key):
    with contextlib.suppress(AttributeError, KeyError):
        return owner[key] if hasattr(owner, "__setitem__") else getattr(owner, key)
    return ABSENT


def put(owner, key, value):
    if hasattr(owner, "__setitem__"):
        owner.pop(key) if value is ABSENT else owner.__setitem__(key, value)
    else:
        delattr(owner, key) if value is ABSENT else setattr(owner, key, value)


@contextlib.contextmanager
def changed(owner, key, value):
    """An item of a container or an attribute, for a while."""
    before = read(owner, key)
    put(owner, key, value)
    try:
        yield
    finally:
        put(owner, key, before)


@contextlib.contextmanager
def default_device(name):
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(None)


#: what is changed -> (function, arguments, the change)
CHANGES = {
    "global": (global_number, (X,), lambda: changed(globals(), "SCALE", 2)),
    "global: other bits": (global_number, (X,), lambda: changed(globals(), "SCALE", 2.5)),
    "global dict: length": (global_dict, (X,), lambda: changed(globals(), "TABLE", {"a": 1})),
    "global list: length": (global_list, (X,), lambda: changed(globals(), "ITEMS", [1])),
    "global tensor": (global_tensor, (X,), lambda: changed(globals(), "WEIGHT", t(2, 1))),
    "class_facts: attribute": (of_model, (X, Model()), lambda: changed(Model, "gain", 3)),
    "class_facts: method": (of_model, (X, Model()), lambda: changed(Model, "apply", lambda self, x: x)),
    "class_facts: attribute that is added": (of_model, (X, Model()), lambda: changed(Model, "__len__", lambda self: 1)),
    "attribute of a function": (of_a_function, (X,), lambda: changed(double, "rate", 5)),
    "attribute of a module": (of_a_module, (X,), lambda: changed(programs, "rate", 5)),
    "list of a class": (of_table, (X,), lambda: changed(Table.sizes, 0, 5)),
    "global of the standard library": (of_environ, (X,), lambda: changed(os.environ, "TRIDENT_HOOK_TEST_PAIRS", "on")),
    "code of a method": (
        of_model,
        (X, Model()),
        lambda: changed(Model.apply, "__code__", (lambda self, x: x).__code__),
    ),
    "defaults of a method": (of_model, (X, Model()), lambda: changed(Model.apply, "__defaults__", (5,))),
    "state: grad mode": (double, (X,), torch.no_grad),
    "state: inference mode": (double, (X,), torch.inference_mode),
    "state: autocast": (double, (X,), lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change_of_the_environment_or_the_state(name):
    fn, args, change = CHANGES[name]
    served = trident_hook.jit(twin(fn))
    routed(served, *args, via="dynamo")
    routed(served, *args, via="scm")
    misses = trident_hook.counts(served)["misses"]
    with change():
        assert same(served(*args), twin(fn)(*args))
        assert trident_hook.counts(served)["misses"] == misses + 1, "the change was not seen"
        assert CHANGED.get(name, "seen ") in trident_hook.explain(served).last_miss
    routed(served, *args, via="scm")


def test_metadata_of_a_global_tensor_that_changes_in_place():
    served = trident_hook.jit(twin(global_tensor))
    weight = t(2, 3)
    with changed(globals(), "WEIGHT", weight):
        routed(served, X, via="dynamo")
        routed(served, X, via="scm")
        weight.requires_grad_()
        routed(served, X, via="dynamo")


def test_a_global_that_is_an_argument():
    served = trident_hook.jit(twin(global_tensor))
    with changed(globals(), "WEIGHT", X):
        routed(served, X, via="dynamo")
        routed(served, X, via="scm")
    routed(served, X, via="dynamo")
    with changed(globals(), "WEIGHT", 3.0):
        routed(served, X, via="dynamo")


def test_a_list_of_the_environment_that_changes_in_place():
    served = trident_hook.jit(twin(global_list))
    routed(served, X, via="dynamo")
    routed(served, X, via="scm")
    ITEMS.append(3)
    try:
        routed(served, X, via="dynamo")
    finally:
        ITEMS.pop()
    routed(served, X, via="scm")


def test_default_device():
    served = trident_hook.jit(twin(makes))
    routed(served, X, via="dynamo")
    routed(served, X, via="scm")
    with default_device("cpu"):
        routed(served, X, via=None)
    routed(served, X, via="scm")


def test_undoing_a_change_of_a_class_hits_again_without_a_new_specialization():
    served, model = trident_hook.jit(twin(of_model)), Model()
    routed(served, X, model, via="dynamo")
    other = lambda self, x: x + self.gain
    for _ in range(3):
        with changed(Model, "apply", other):
            routed(served, X, model, via=None)
        routed(served, X, model, via="scm")
    assert len(trident_hook.explain(served).specializations) == 2


def test_an_attribute_of_a_class_that_no_traced_code_names_may_change():
    served, model = trident_hook.jit(twin(of_model)), Model()
    routed(served, X, model, via="dynamo")
    routed(served, X, model, via="scm")
    with changed(Model, "unrelated", 1):
        routed(served, X, model, via="scm")


def test_an_attribute_under_a_name_made_up_at_run_time_may_not_change():
    def named(x, m, name):
        return x * getattr(m, "ga" + name)

    served, model = trident_hook.jit(named), Model()
    routed(served, X, model, "in", via="dynamo")
    routed(served, X, model, "in", via="scm")
    with changed(Model, "gain", 5):
        routed(served, X, model, "in", via="dynamo")


def test_is_compiling_is_what_it_is_for_the_plain_function():
    def asks(x):
        return x + 1 if torch.compiler.is_compiling() else x + 2

    served = trident_hook.jit(asks)
    for _ in range(3):
        assert torch.equal(served(X), X + 2)
    assert torch.equal(torch.compile(twin(asks), backend="eager")(X), X + 1), "other compiles are left alone"
