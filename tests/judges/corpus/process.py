"""Functions that depend on the process: its environment variables, random numbers, builtins, other modules, threads."""

from __future__ import annotations

import builtins
import contextvars
import functools
import math
import os
import random
import threading

import numpy
import torch

from .. import elsewhere
from ..places import MISSING, Attribute, Entry, Place, Slot, argument, constants, subject
from ..values import layouts

X = argument("x", *layouts(4, 6)[:6])


class Variable(Place):
    """An environment variable."""

    def __init__(self, name):
        self.name = name

    def apply(self, fn, value, bound):
        before = os.environ.pop(self.name, None)
        if value is not None:
            os.environ[self.name] = value

        def undo():
            os.environ.pop(self.name, None)
            if before is not None:
                os.environ[self.name] = before

        return undo


VARIABLE = Slot("variable", Variable("JUDGES_MODE"), constants(None, "fast", "slow", ""))
OTHER_VARIABLE = Slot("other variable", Variable("JUDGES_OTHER"), constants(None, "1"))


@subject(X, VARIABLE, OTHER_VARIABLE)
def reads_environ(x):
    return x * 2 if os.environ.get("JUDGES_MODE", "slow") == "fast" else x * 3


@subject(X, VARIABLE)
def asks_environ(x):
    return x * 2 if "JUDGES_MODE" in os.environ else x * 3


@subject(X, VARIABLE)
def reads_getenv(x):
    return x * 2 if os.getenv("JUDGES_MODE") == "fast" else x * 3


@subject(X)
def python_random(x):
    return x * random.random()


@subject(X)
def numpy_random(x):
    return x * float(numpy.random.rand())  # noqa: NPY002


@subject(
    X,
    Slot("abs", Entry(vars(builtins), "abs"), constants(abs, lambda x: x * 7)),
    Slot("len", Entry(vars(builtins), "len"), constants(len, lambda x: 9)),
    Slot("sum", Entry(vars(builtins), "sum"), constants(sum, lambda x: 5)),
)
def replaced_builtin(x):
    return abs(x) + sum((1, 2))


@subject(X, Slot("floor", Attribute(math, "floor"), constants(math.floor, math.ceil, lambda x: 4)))
def patched_math(x):
    return x * math.floor(2.5)


INNER = elsewhere.inner


@subject(
    X,
    Slot("RATE", Attribute(elsewhere, "RATE"), constants(2, 3, 2.0, True, MISSING)),
    Slot("inner", Attribute(elsewhere, "inner"), constants(INNER, lambda x: x)),
    Slot("abs", Attribute(elsewhere, "abs"), constants(MISSING, lambda x: x * 0)),
    Slot("OPTIONS[deep]", Entry(elsewhere.OPTIONS, "deep"), constants(1, 2, 1.0, True, MISSING)),
    Slot(
        "code",
        Attribute(lambda fn: INNER, "__code__"),
        constants(INNER.__code__, (lambda x: x).__code__),
    ),
)
def other_module(x):
    return elsewhere.outer(x)


@subject(X, Slot("RATE", Attribute(elsewhere, "RATE"), constants(2, 3, 2.0)))
def imports_inside(x):
    from judges.elsewhere import RATE

    return x * RATE


SETTING = contextvars.ContextVar("SETTING", default=2)


class Context(Place):
    def apply(self, fn, value, bound):
        token = SETTING.set(value)
        return lambda: SETTING.reset(token)


@subject(X, Slot("setting", Context(), constants(2, 3, 2.0)))
def context_variable(x):
    return x * SETTING.get()


LOCAL = threading.local()
LOCAL.gain = 2


@subject(X, Slot("gain", Attribute(LOCAL, "gain"), constants(2, 3, 2.0, MISSING)))
def thread_local(x):
    return x * LOCAL.gain


FACTOR = 3


@functools.cache
def remembered(n):
    return n * FACTOR


@subject(
    X,
    argument("n", *constants(2, 3)),
    Slot("FACTOR", Entry(globals(), "FACTOR"), constants(3, 4)),
    reset=remembered.cache_clear,
)
def calls_cached(x, n):
    return x * remembered(n)


@subject(X, Slot("flag", Attribute(torch.backends.cuda.matmul, "allow_tf32"), constants(False, True)))
def asks_tf32(x):
    return x * 2 if torch.backends.cuda.matmul.allow_tf32 else x * 3


@subject(X, argument("n", *constants(2, 3, 2.0)))
def generator_inside(x, n):
    return sum(x * i for i in range(n))


def generate(x, n):
    for i in range(n):
        yield x * i


@subject(
    X,
    argument("n", *constants(2, 3, True)),
    Slot("generate", Entry(globals(), "generate"), constants(generate, lambda x, n: [x])),
)
def generator_called(x, n):
    return list(generate(x, n))


class Entered:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, *exc):
        self.log.append("out")


@subject(X, argument("log", list, lambda: ["before"], lambda: None))
def context_manager(x, log):
    with Entered(log):
        y = x * 2
    return y, len(log)


@subject(X, Slot("dtype", Attribute(torch, "float32"), constants(torch.float32, torch.float64)))
def patched_dtype(x):
    return x.to(torch.float32)
