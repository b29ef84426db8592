"""Every way to write and to call a function. Each is served where it can be, and left alone where it cannot."""

from __future__ import annotations

import functools
import inspect
import sys

import pytest
import torch
from support import programs, routes
from support.routes import counted, routed, same, twin, warm

import trident_hook

X = torch.arange(16, dtype=torch.float32)


def scaled_by(x, a, /, b, *rest, c=3, d, **more):
    y = torch.empty_like(x)
    programs.shift_kernel[(1,)](x, y, a, x.numel(), BLOCK=64)
    return y, b, rest, c, d, more


def test_positional_keyword_and_rest(through):
    fn = through(scaled_by)
    warm(fn, X, 1, 2, d=4)
    routed(fn, X, 1, b=2, d=4, via="scm")
    warm(fn, X, 1, 2, 5, 6, d=4)
    routed(fn, X, 1, d=4, b=2, via="scm")
    routed(fn, X, 1, 2, c=9, d=5, via="scm")  # these are only passed through: nothing depends on them
    routed(fn, X, 1, 2, d=4, x=7, a=8, via="scm")
    routed(fn, X, 1, *(2, 5, 6), d=4, via="scm")


def test_order_of_keyword_arguments(through):
    """**kwargs keeps the caller's order, and the answer shows it."""
    fn = through(keywords)
    warm(fn, X, p=1, q=2)
    routed(fn, X, q=2, p=1, via=None)
    routed(fn, X, q=2, p=1, via=None)
    routed(fn, X, p=1, q=2, via="scm")


def keywords(x, **named):
    y = torch.empty_like(x)
    programs.shift_kernel[(1,)](x, y, 3, x.numel(), BLOCK=64)
    return y, list(named)


def test_defaults(through):
    fn = through(programs.with_default)
    warm(fn, X)
    routed(fn, X, 5, via="scm")
    routed(fn, X, a=5, b=7, via="scm")
    routed(fn, X, 6, via="dynamo")
    routed(fn, X, via="scm")


def test_partial(through):
    fn = through(programs.shift)
    warm(fn, X, 3)
    with counted(fn) as added:
        assert same(functools.partial(fn, a=3)(X), X + 3)
        assert same(list(map(functools.partial(fn, X), [3, 3]))[1], X + 3)
    assert added["hits"] == 3


class Model:
    def __init__(self, a):
        self.a = a

    def plain(self, x):
        y = torch.empty_like(x)
        programs.shift_kernel[(1,)](x, y, self.a, x.numel(), BLOCK=64)
        return y

    @trident_hook.jit
    def decorated(self, x):
        y = torch.empty_like(x)
        programs.shift_kernel[(1,)](x, y, self.a, x.numel(), BLOCK=64)
        return y

    @classmethod
    @trident_hook.jit
    def of_class(cls, x):
        y = torch.empty_like(x)
        programs.shift_kernel[(1,)](x, y, cls.number, x.numel(), BLOCK=64)
        return y

    @staticmethod
    @trident_hook.jit
    def static(x):
        y = torch.empty_like(x)
        programs.shift_kernel[(1,)](x, y, 3, x.numel(), BLOCK=64)
        return y

    number = 6


def test_methods(monkeypatch):
    one, two = Model(3), Model(4)
    warm(one.decorated, X)
    routed(two.decorated, X, via="dynamo")
    routed(two.decorated, X, via="scm")
    routed(one.decorated, X, via="scm")
    routed(Model.decorated, one, X, via="scm")
    one.a = 4
    assert torch.equal(routed(one.decorated, X, via=None), X + 4)
    warm(Model.of_class, X)
    monkeypatch.setattr(Model, "number", 7)
    assert torch.equal(routed(Model(0).of_class, X, via="dynamo"), X + 7)
    warm(Model.static, X)
    routed(one.static, X, via="scm")


@pytest.mark.parametrize("promote", [True, False])
def test_methods_of_an_enabled_class(promote):
    trident_hook.config.promote = promote

    class Mine(Model):
        plain = twin(Model.plain)

    with trident_hook.enable(include=[Mine.plain]):
        warm(Mine(3).plain, X)
        routed(Mine(3).plain, X, via="scm")


def test_module(through):
    """forward() of an nn.Module, called as the module is called."""

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(16))

    def forward(self, x):
        y = torch.empty_like(x)
        programs.shift_kernel[(1,)](x, y, 3, x.numel(), BLOCK=64)
        return y * self.weight

    fn = through(forward)
    Layer.forward = fn
    layer = Layer()
    with counted(fn) as added:
        answers = [layer(X) for _ in range(3)]
    assert (added["delegated"], added["hits"]) == (1, 2)
    for answer in answers:
        assert torch.equal(answer, (X + 3) * layer.weight)
        (gradient,) = torch.autograd.grad(answer.sum(), layer.weight)
        assert torch.equal(gradient, X + 3)
    layer.weight.data.mul_(2)
    with counted(fn) as added:
        assert torch.equal(layer(X), (X + 3) * layer.weight)
    assert added["hits"] == 1
    layer.weight = torch.nn.Parameter(torch.ones(16))
    assert torch.equal(layer(X), X + 3)


def generating(x):
    y = torch.empty_like(x)
    programs.shift_kernel[(1,)](x, y, 3, x.numel(), BLOCK=64)
    yield y
    yield y + 1


async def awaiting(x):
    y = torch.empty_like(x)
    programs.shift_kernel[(1,)](x, y, 3, x.numel(), BLOCK=64)
    return y


def test_generators_and_coroutines_are_left_alone(through):
    import asyncio

    generator, coroutine = through(generating), through(awaiting)
    for _ in range(3):
        with counted(generator) as added:
            assert [t[0].item() for t in generator(X)] == [3, 4]
        assert not any(added[n] for n in ("hits", "misses", "errors"))
        assert torch.equal(asyncio.run(coroutine(X)), X + 3)


def test_a_function_that_uses_a_generator(through):
    fn = through(over_a_generator)
    routed(fn, X, via="dynamo")
    for _ in range(4):
        routed(fn, X, via=None)


def over_a_generator(x):
    return list(generating(x))


def recursive(x, n):
    y = torch.empty_like(x)
    programs.shift_kernel[(1,)](x, y, 1, x.numel(), BLOCK=64)
    return y if n == 0 else recursive(y, n - 1)


def test_recursion(through, monkeypatch):
    fn = through(recursive)
    monkeypatch.setattr(sys.modules[__name__], "recursive", fn)
    for n in (0, 3):
        for _ in range(3):
            assert torch.equal(fn(X, n), X + n + 1)
    assert trident_hook.counts(fn)["hits"] > 0


def test_a_caller_under_torch_compile(through):
    """Dynamo traces through the function as if we were not there; nothing is served inside, nothing breaks."""
    fn = through(programs.shift)
    warm(fn, X, 3)

    def caller(x):
        return fn(x, 3) * 2

    compiled = torch.compile(caller, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(X), (X + 3) * 2)
    routed(fn, X, 3, via="scm")


def test_a_function_that_torch_compile_has_compiled(served):
    fn = served(programs.shift)
    compiled = torch.compile(getattr(fn, "__wrapped__", fn), backend="eager")
    assert torch.equal(compiled(X, 3), X + 3)
    warm(fn, X, 3)
    assert torch.equal(compiled(X, 3), X + 3)
    routed(fn, X, 3, via="scm")


@pytest.mark.parametrize("name", routes.DOORS)
def test_a_call_from_a_served_function(name):
    """The outer function's graph takes the inner one in; the inner one alone has its own module."""
    with routes.doors(name, twin(programs.shift), twin(calling)) as (inner, outer):
        warm(inner, X, 3)
        routed(outer, X, inner, via="dynamo")
        for _ in range(2):
            with counted(inner) as added:
                routed(outer, X, inner, via="scm")
            assert added["hits"] == 1, "the plain twin's call of it; the served one made none"
        routed(inner, X, 3, via="scm")


def calling(x, inner):
    return inner(x, 3) + 1


def test_jit_keeps_what_the_function_is():
    def documented(x: torch.Tensor, a: int = 3) -> torch.Tensor:
        """Adds."""
        return programs.shift(x, a)

    fn = trident_hook.jit(documented)
    assert (fn.__name__, fn.__qualname__, fn.__doc__) == (documented.__name__, documented.__qualname__, "Adds.")
    assert fn.__module__ == documented.__module__
    assert fn.__wrapped__ is documented
    assert inspect.signature(fn) == inspect.signature(documented)
    assert twin(fn).__code__ is not documented.__code__


@pytest.mark.parametrize("wrong", [len, torch.nn.ReLU(), 3, None, staticmethod(len), Model], ids=repr)
def test_jit_refuses_what_is_no_function(wrong):
    with pytest.raises(TypeError, match="expected a plain Python function"):
        trident_hook.jit(wrong)


def test_a_profiler_and_a_tracer_see_the_function(through):
    """Watched calls run as plain Python, so that the tool sees them."""
    fn, seen = through(programs.shift), []
    warm(fn, X, 3)

    def profile(frame, event, argument):
        if frame.f_code is getattr(fn, "__wrapped__", fn).__code__:
            seen.append(event)

    sys.setprofile(profile)
    try:
        with counted(fn) as added:
            answer = fn(X, 3)
    finally:
        sys.setprofile(None)
    assert torch.equal(answer, X + 3)
    assert (seen[0], seen[-1]) == ("call", "return")
    assert added["hits"] == 0
    routed(fn, X, 3, via="scm")
