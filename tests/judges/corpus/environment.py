"""Functions that depend on globals, modules, classes, closures, defaults and other functions."""

from __future__ import annotations

import math
import sys
import types

import torch

from ..places import MISSING, Attribute, Entry, Slot, argument, constants, subject
from ..values import SCALARS, layouts, ramp

X = argument("x", *layouts(4, 6)[:6])
HERE = sys.modules[__name__]

SCALE = 2.0
COUNT = 3
LIMITS = [1, 2]
TABLE = {"low": 1, "high": 2}
NAMES = {"a", "b"}
WEIGHT = ramp(4, 6)
LEVEL = {"inner": {"value": 5}}
helpers = types.ModuleType("helpers")
helpers.factor = 3
counter = 0


def glob(name: str, *values) -> Slot:
    return Slot(name, Entry(globals(), name), constants(globals()[name], *values))


@subject(X, glob("SCALE", *SCALARS, MISSING))
def global_float(x):
    return x * SCALE


@subject(X, glob("COUNT", *SCALARS, MISSING))
def global_int(x):
    return x + COUNT


@subject(
    X,
    glob("LIMITS", [1, 2], [1, 3], [1, 2, 3], (1, 2), [1, 2.0], [True, 2]),
    Slot("LIMITS[0]", Entry(LIMITS, 0), constants(1, 5, True, 1.0)),
)
def global_list(x):
    return x.clamp(LIMITS[0], LIMITS[1])


@subject(
    X,
    glob("TABLE", {"low": 1, "high": 3}, {"low": 1}, {"high": 2, "low": 1}),
    Slot("TABLE[low]", Entry(TABLE, "low"), constants(1, 4, 1.0, True, MISSING)),
    Slot("TABLE[new]", Entry(TABLE, "new"), constants(MISSING, 4)),
)
def global_dict(x):
    return x * TABLE["low"] + TABLE["high"]


@subject(
    X,
    Slot("value", Entry(LEVEL["inner"], "value"), constants(5, 6, 5.0, MISSING)),
    Slot("inner", Entry(LEVEL, "inner"), [lambda: LEVEL["inner"], lambda: {"value": 9}]),
)
def global_nested(x):
    return x * LEVEL["inner"]["value"]


@subject(X, glob("NAMES", {"a", "c"}, {"a"}, set(), frozenset({"a", "b"})))
def global_set(x):
    return x + 1 if "b" in NAMES else x


@subject(
    X,
    Slot(
        "WEIGHT",
        Entry(globals(), "WEIGHT"),
        [
            lambda: ramp(4, 6),
            lambda: ramp(4, 6, start=1.0),
            lambda: ramp(4, 1),
            lambda: ramp(4, 6).double(),
            lambda: ramp(6, 4).t(),
            lambda: ramp(4, 6).requires_grad_(),
            lambda: None,
            lambda: torch.nn.Parameter(ramp(4, 6)),
            lambda made: made["x"],
        ],
    ),
)
def global_tensor(x):
    return x * WEIGHT


@subject(X, Slot("factor", Attribute(helpers, "factor"), constants(3, 4, 3.0, True, MISSING, None)))
def module_attribute(x):
    return x * helpers.factor


@subject(X, Slot("pi", Attribute(math, "pi"), constants(math.pi, 3, 3.0)))
def stdlib_attribute(x):
    return x * math.pi


@subject(X, effects=lambda: counter, reset=lambda: globals().update(counter=0))
def counts_calls(x):
    global counter
    counter = counter + 1
    return x + 1


def helper(x, a=3, *, b=1):
    return x * a + b


def other_helper(x, a=3, *, b=1):
    return x - a - b


HELPER, ORIGINAL = helper, helper.__code__


@subject(
    X,
    glob("helper", other_helper, abs, None),
    Slot("code", Attribute(lambda fn: HELPER, "__code__"), constants(ORIGINAL, other_helper.__code__)),
    Slot("defaults", Attribute(lambda fn: HELPER, "__defaults__"), constants((3,), (4,), (3.0,), (True,), None)),
    Slot(
        "kwdefaults",
        Attribute(lambda fn: HELPER, "__kwdefaults__"),
        [lambda: {"b": 1}, lambda: {"b": 2}, lambda: {"b": 1.0}],
    ),
)
def calls_helper(x):
    return helper(x) + 1


def stateful_helper(x):
    return x * COUNT


@subject(X, glob("COUNT", 4, 3.0, True), glob("stateful_helper", other_helper))
def calls_with_global(x):
    return stateful_helper(x)


@subject(
    X,
    Slot("len", Entry(globals(), "len"), constants(MISSING, lambda x: 7)),
    Slot("abs", Entry(globals(), "abs"), constants(MISSING, lambda x: x)),
)
def shadowed_builtin(x):
    return abs(x) + len(x.shape)


class Base:
    rate = 2

    def bump(self):
        return 1


class Meta(type):
    limit = 4


class Model(Base, metaclass=Meta):
    gain = 3
    table = (1, 2)

    def __init__(self, bias=1):
        self.bias = bias

    def apply(self, x):
        return x * self.gain + self.bias + self.bump()

    @property
    def doubled(self):
        return self.bias * 2

    @staticmethod
    def fixed(x):
        return x + 1

    @classmethod
    def named(cls, x):
        return x * cls.gain


class Other(Base):
    gain = 5
    table = (1, 2)
    bias = 1

    def apply(self, x):
        return x - self.gain


MODEL = Model()
APPLY = Model.apply
APPLY_CODE = Model.apply.__code__
CLASS_SLOTS = [
    Slot("gain", Attribute(Model, "gain"), constants(3, 4, 3.0, True)),
    Slot("rate", Attribute(Base, "rate"), constants(2, 3)),
    Slot("rate below", Attribute(Model, "rate"), constants(MISSING, 9)),
    Slot("bump", Attribute(Base, "bump"), constants(Base.bump, lambda self: 5)),
    Slot("apply", Attribute(Model, "apply"), constants(APPLY, Other.apply, lambda self, x: x)),
    Slot("code", Attribute(lambda fn: APPLY, "__code__"), constants(APPLY_CODE, Other.apply.__code__)),
    Slot("unrelated", Attribute(Model, "unrelated"), constants(MISSING, 1)),
    Slot(
        "getattribute",
        Attribute(Model, "__getattribute__"),
        constants(MISSING, lambda self, name: object.__getattribute__(self, name) if name != "bias" else 8),
    ),
]
INSTANCE_SLOTS = [
    Slot("bias", Attribute(MODEL, "bias"), constants(1, 2, 1.0, True, MISSING)),
    Slot("own gain", Attribute(MODEL, "gain"), constants(MISSING, 7)),
    Slot("own apply", Attribute(MODEL, "apply"), constants(MISSING, lambda x: x * 9)),
    Slot("own bump", Attribute(MODEL, "bump"), constants(MISSING, lambda: 9)),
    Slot("class", Attribute(MODEL, "__class__"), constants(Model, Other)),
    Slot(
        "MODEL",
        Entry(globals(), "MODEL"),
        [lambda: MODEL, lambda: Model(), lambda: Model(4), lambda: Other(), lambda: None],
    ),
]


@subject(X, *CLASS_SLOTS, *INSTANCE_SLOTS)
def global_instance(x):
    return MODEL.apply(x)


@subject(X, *INSTANCE_SLOTS, *CLASS_SLOTS)
def instance_attributes(x):
    return x * MODEL.gain + MODEL.bias + MODEL.rate + MODEL.doubled


@subject(
    X,
    argument("m", lambda: Model(), lambda: Model(2), lambda: Model(1.0), lambda: Other(), lambda: MODEL, lambda: None),
    *CLASS_SLOTS,
)
def instance_given(x, m):
    return m.apply(x) + m.rate


@subject(
    X,
    *CLASS_SLOTS,
    Slot("limit", Attribute(Meta, "limit"), constants(4, 5)),
    Slot("fixed", Attribute(Model, "fixed"), constants(Model.__dict__["fixed"], staticmethod(lambda x: x))),
)
def class_attributes(x):
    return Model.fixed(x) * Model.gain + Model.table[1] + Model.limit + Model.rate


@subject(X, *CLASS_SLOTS, *INSTANCE_SLOTS)
def instance_made(x):
    return Model(2).apply(x)


@subject(X, argument("m", lambda: Model(), lambda: Model(2), lambda: Model(3.0), lambda: Other()))
def instance_changed(x, m):
    m.bias = m.bias + 1
    m.seen = x * 2
    return x + m.bias


def closing_over(a, b):
    def closure(x):
        return x * a + b

    return closure


CLOSURE = closing_over(3, 2.0)
subject(
    X,
    Slot("a", Attribute(CLOSURE.__closure__[0], "cell_contents"), constants(3, *SCALARS, MISSING)),
    Slot("b", Attribute(CLOSURE.__closure__[1], "cell_contents"), constants(2.0, 3.0, -0.0, 0.0, None, 2)),
)(CLOSURE)


def _closing_over_tensor(w):
    def closure_tensor(x):
        return x * w

    return closure_tensor


CLOSURE_TENSOR = _closing_over_tensor(ramp(4, 6))
subject(
    X,
    Slot(
        "w",
        Attribute(CLOSURE_TENSOR.__closure__[0], "cell_contents"),
        [
            lambda: ramp(4, 6),
            lambda: ramp(4, 1),
            lambda: ramp(4, 6).double(),
            lambda made: made["x"],
            lambda: 2.0,
            lambda: ramp(4, 6, start=2.0),
        ],
    ),
)(CLOSURE_TENSOR)


def _calling_closure(f):
    def closure_function(x):
        return f(x) + 1

    return closure_function


CLOSURE_FUNCTION = _calling_closure(CLOSURE)
subject(
    X,
    Slot("a", Attribute(CLOSURE.__closure__[0], "cell_contents"), constants(3, 4, 3.0, True)),
    Slot(
        "f",
        Attribute(CLOSURE_FUNCTION.__closure__[0], "cell_contents"),
        constants(CLOSURE, helper, closing_over(3, 2.0), closing_over(9, 2.0), torch.relu),
    ),
)(CLOSURE_FUNCTION)


@subject(
    X,
    argument("a", *constants(MISSING, 5, 6, True, 5.0)),
    argument("b", *constants(MISSING, 7, 8)),
    Slot("defaults", Attribute(lambda fn: fn, "__defaults__"), constants((5,), (6,), (5.0,), (True,))),
    Slot(
        "kwdefaults",
        Attribute(lambda fn: fn, "__kwdefaults__"),
        [lambda: {"b": 7}, lambda: {"b": 8}, lambda: {"b": 7.0}],
    ),
)
def own_defaults(x, a=5, *, b=7):
    return x * a + b


@subject(X, Slot("relu", Attribute(torch, "relu"), constants(torch.relu, torch.sigmoid)))
def patched_operator(x):
    return torch.relu(x) + 1


@subject(
    X,
    Slot(
        "silu",
        Attribute(torch.nn.functional, "silu"),
        constants(torch.nn.functional.silu, torch.nn.functional.gelu, lambda x: x),
    ),
)
def patched_functional(x):
    return torch.nn.functional.silu(x)


@subject(
    X,
    Slot("gelu", Attribute(torch.Tensor, "my_method"), [lambda: MISSING, lambda: lambda self: self]),
    Slot("names", Attribute(torch.Tensor, "relu"), constants(torch.Tensor.relu, torch.Tensor.sigmoid)),
)
def patched_method(x):
    return x.relu() + 1
