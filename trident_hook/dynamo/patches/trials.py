"""Trials of the lessons: what is captured, and what guards must then notice, or what the captured code must answer. Each makes
its own functions and objects, so that it can be made again."""

from __future__ import annotations

import builtins
import os
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass
class Trial:
    """`function(*arguments)` is captured. Then `change(*arguments)` changes something, or returns other arguments, and the
    guards may no longer hold; or, without a change, `holds(captured)` says whether all is well. call: what calls the function,
    where that is not ourselves. refused: the capture must be given up."""

    function: Any
    arguments: tuple
    change: Callable[..., Any] | None = None
    undo: Callable[[], None] = lambda: None
    holds: Callable[[Any], bool] = lambda captured: False
    call: Callable | None = None
    refused: bool = False


def _tensor():
    import torch

    return torch.arange(6.0)


def _answers(function: Callable, *arguments: Any) -> Trial:
    """The captured code answers what the plain function does."""
    expected = function(*arguments)
    return Trial(function, arguments, holds=lambda captured: bool((captured.answer == expected).all()))


def tracing_state() -> Iterator[Trial]:
    import torch

    def asks(x):
        return x + 1 if torch.compiler.is_compiling() else x * 2

    def asks_dynamo(x):
        return x + 1 if torch.compiler.is_dynamo_compiling() else x * 2

    yield _answers(asks, _tensor())
    yield _answers(asks_dynamo, _tensor())


def descriptors() -> Iterator[Trial]:
    import torch

    def applies(x, method):
        return method(x)

    yield Trial(applies, (_tensor(), torch.Tensor.relu), lambda x, method: (x, torch.Tensor.neg))


def duplicates() -> Iterator[Trial]:
    scope: dict[str, Any] = {"shared": _tensor(), "__builtins__": builtins}

    def adds(x):
        return x + shared  # noqa: F821

    adds = types.FunctionType(adds.__code__, scope)
    yield Trial(adds, (scope["shared"],), lambda x: (_tensor(),))


def class_literals() -> Iterator[Trial]:
    class Sizes:
        all = [2, 3]

    def scales(x, sizes):
        return x * sizes.all[0] + len(sizes.all)

    yield Trial(scales, (_tensor(), Sizes), lambda x, sizes: sizes.all.append(4))


def absent_attributes() -> Iterator[Trial]:
    class Answering:
        def __getattr__(self, name):
            return 2.0

    class Slot:
        __slots__ = ("scale",)

    def reads(x, thing):
        return x * thing.scale

    def asks(x, thing):
        return x * 3 if hasattr(thing, "scale") else x + 1

    def sets(x, thing):
        thing.scale = 5.0

    def plain(x):
        return x

    yield Trial(reads, (_tensor(), Answering()), sets)
    yield Trial(asks, (_tensor(), types.SimpleNamespace()), sets)
    yield Trial(asks, (_tensor(), Slot()), sets)
    yield Trial(asks, (_tensor(), types.ModuleType("trident_hook_trial")), sets)
    yield Trial(asks, (_tensor(), plain), sets)


def dict_keys() -> Iterator[Trial]:
    def copies(x, table):
        for value in dict(table).values():
            x = x * value + 1
        return x

    def merges(x, table):
        for key in {**table}:
            x = x * 2 if key == "a" else x + 1
        return x

    def misses(x, table):
        try:
            return x * table["c"]
        except KeyError:
            return x + 1

    def turns(x, table):
        items = list(table.items())
        table.clear()
        table.update(reversed(items))

    for function in (copies, merges):
        yield Trial(function, (_tensor(), {"a": 2, "b": 3}), turns)
    yield Trial(misses, (_tensor(), {"a": 2, "b": 3}), lambda x, table: table.update(c=4))


def stdlib_globals() -> Iterator[Trial]:
    name = "TRIDENT_HOOK_TRIAL_OF_LESSONS"

    def asks(x):
        return x * 2 if os.getenv(name) == "1" else x + 1

    # In Python's dict alone: the environment of the process belongs to all threads.
    data, key, value = os.environ._data, os.environ.encodekey(name), os.environ.encodevalue("1")  # type: ignore[attr-defined]
    yield Trial(asks, (_tensor(),), lambda x: data.update({key: value}), undo=lambda: data.pop(key, None))


def buffers() -> Iterator[Trial]:
    import torch

    def asks(x, buffer):
        return x + buffer if type(buffer) is torch.Tensor else x - buffer

    yield _answers(asks, _tensor(), torch.nn.Buffer(_tensor() + 1))


def autograd_function() -> Iterator[Trial]:
    import torch

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad

    def applies(x):
        return Same.apply(x) * 1, Same.apply(x)

    class Marking(Same):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.mark_non_differentiable(y)
            return y

    x = _tensor()
    yield Trial(applies, (x,), holds=lambda captured: captured.answer[1] is not x)
    yield Trial(
        Marking.forward,
        (x.clone().requires_grad_(),),
        call=Marking.apply,
        holds=lambda captured: not captured.answer.requires_grad,
    )


def guard_tree() -> Iterator[Trial]:
    def adds(x, number):
        return x + number

    wanted = {"tensor_match", "equals_match"}
    yield Trial(adds, (_tensor(), 3), holds=lambda captured: wanted <= {kind.lower() for kind in captured.leaves()})


def comparisons() -> Iterator[Trial]:
    def compares(x, one, other):
        return x + 1 if one is other else x * 2

    def searches(x, number, numbers):
        return x + 1 if number in numbers else x * 2

    nan = float("nan")
    yield Trial(compares, (_tensor(), 1.5, 1.5), refused=True)
    yield Trial(compares, (_tensor(), "a b", "a c"), refused=True)
    yield Trial(searches, (_tensor(), nan, [1.0, nan]), refused=True)


def addresses() -> Iterator[Trial]:
    def asks(x):
        made = (x, 1)
        return x + 1 if id(made) == 0 else x * 2

    yield Trial(asks, (_tensor(),), refused=True)


def constant_results() -> Iterator[Trial]:
    import torch

    @torch._dynamo.assume_constant_result
    def number():
        return 2

    def scales(x):
        return x * number()

    yield Trial(scales, (_tensor(),), refused=True)


def allowed_in_graph() -> Iterator[Trial]:
    import torch

    def doubles(x):
        return x * 2

    def calls(x, function):
        return function(x)

    yield Trial(calls, (_tensor(), torch._dynamo.allow_in_graph(doubles)), refused=True)


def objects_made() -> Iterator[Trial]:
    class Closing:
        number = 2

        def __del__(self):
            pass

    def makes(x):
        return x * Closing().number

    yield Trial(makes, (_tensor(),), refused=True)


def weak_references() -> Iterator[Trial]:
    import weakref

    class Plain:
        number = 2

    def watches(x):
        plain = Plain()
        weakref.ref(plain, print)
        return x * plain.number

    yield Trial(watches, (_tensor(),), refused=True)


def generators() -> Iterator[Trial]:
    def numbers():
        try:
            yield 2
            yield 3
        finally:
            pass

    def begins(x):
        items = numbers()
        return x * next(items)

    def returns(x):
        return x * 2, (n for n in (1, 2))

    yield Trial(begins, (_tensor(),), refused=True)
    yield Trial(returns, (_tensor(),), refused=True)


def branches() -> Iterator[Trial]:
    class Items(list):
        pass

    class Number:
        def __init__(self, shape):
            self.shape = shape

        def __bool__(self):
            return self.shape[0] > 2

    def asks(x, items):
        return x + 1 if items else x * 2

    def asks_of_a_symbol(x):
        return x + 1 if Number(x.shape) else x * 2

    yield Trial(asks, (_tensor(), Items()), refused=True)
    yield _answers(asks_of_a_symbol, _symbolic(_tensor()))


def _symbolic(tensor):
    """Its first size is a symbol of the capture."""
    import torch

    torch._dynamo.mark_dynamic(tensor, 0)
    return tensor
