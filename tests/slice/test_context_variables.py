"""Context variables: what was set before is guarded; what is set and reset inside is seen by nobody, and served."""

from __future__ import annotations

import contextlib
import contextvars

import pytest
import torch

import trident_hook

SCALE: contextvars.ContextVar = contextvars.ContextVar("scale", default=None)
UNSET: contextvars.ContextVar = contextvars.ContextVar("unset")


@pytest.fixture(autouse=True)
def sync(monkeypatch):
    monkeypatch.setattr(trident_hook.config, "build", "sync")


def sets_for_a_try(x):
    token = SCALE.set(3)
    try:
        return x * SCALE.get()
    finally:
        SCALE.reset(token)


class Wrapped:
    """Setter and resetter are methods of an object of the program, as libraries have them."""

    def set(self, value):
        return SCALE.set(value)

    def reset(self, token):
        if token is None:
            self.missing = True
        else:
            SCALE.reset(token)


WRAPPED = Wrapped()


def sets_through_an_object(x):
    token = WRAPPED.set({"scale": 3})
    try:
        y = x * SCALE.get()["scale"]
    finally:
        WRAPPED.reset(token)
    return y + 1


@contextlib.contextmanager
def scaled(value):
    token = SCALE.set(value)
    try:
        yield
    finally:
        SCALE.reset(token)


def sets_twice(x):
    outer = SCALE.set(3)
    try:
        inner = SCALE.set(4)
        try:
            x = x * SCALE.get()
        finally:
            SCALE.reset(inner)
        return x + SCALE.get()
    finally:
        SCALE.reset(outer)


def sets_in_a_with(x):
    with scaled(3):
        y = x * SCALE.get()
    return y + (1 if SCALE.get() is None else 2)


@pytest.mark.parametrize("function", [sets_for_a_try, sets_through_an_object, sets_twice, sets_in_a_with])
def test_one_that_is_reset_is_served(function):
    served, x = trident_hook.jit(function), torch.arange(4.0)
    for _ in range(3):
        assert torch.equal(served(x), function(x))
        assert SCALE.get() is None
    assert trident_hook.counts(served)["hits"] == 2


def test_what_was_set_before_is_guarded():
    def reads(x):
        return x * 2 if SCALE.get() is None else x * SCALE.get() + UNSET.get(5)

    served, x = trident_hook.jit(reads), torch.arange(4.0)

    def inside(scale, unset):
        SCALE.set(scale)
        if unset is not None:
            UNSET.set(unset)
        return [torch.equal(served(x), reads(x)) for _ in range(2)]

    for scale, unset in ((3, None), (4, None), (None, 7), (3, 7), (3, None), (3.0, None), (True, None)):
        assert contextvars.copy_context().run(inside, scale, unset) == [True, True]
    assert trident_hook.counts(served)["hits"] >= 7


def test_another_variable_in_its_place_is_a_miss():
    class Holder:
        variable = contextvars.ContextVar("first", default=2)

    def reads(x, holder):
        return x * holder.variable.get()

    served, x, holder = trident_hook.jit(reads), torch.arange(4.0), Holder()
    for _ in range(2):
        assert torch.equal(served(x, holder), x * 2)
    holder.variable = contextvars.ContextVar("second", default=5)
    assert torch.equal(served(x, holder), x * 5)


def without_a_try(x):
    token = SCALE.set(3)
    y = x + torch.ones(2)
    SCALE.reset(token)
    return y


def stays_set(x):
    SCALE.set(3)
    return x + 1


def raises_before_the_try(x):
    token = SCALE.set(3)
    x = x + torch.ones(2)
    try:
        return x * 2
    finally:
        SCALE.reset(token)


def raises_before_the_reset(x):
    token = SCALE.set(3)
    try:
        y = x * 2
    finally:
        y = x + torch.ones(2)
        SCALE.reset(token)
    return y


def holds_an_object(x):
    return x * SCALE.get(Wrapped()).__class__.__name__.__len__()


@pytest.mark.parametrize(
    "function", [without_a_try, stays_set, raises_before_the_try, raises_before_the_reset, holds_an_object]
)
def test_what_the_program_could_see_is_refused(function):
    served = trident_hook.jit(function)

    def inside(x, serve):
        try:
            answer = (served if serve else function)(x).tolist()
        except RuntimeError as error:
            answer = str(error)
        return answer, SCALE.get()

    for size in (2, 3, 2, 2):
        x = torch.arange(float(size))
        answers = [contextvars.copy_context().run(inside, x, serve) for serve in (True, False)]
        assert repr(answers[0]) == repr(answers[1])
    assert trident_hook.counts(served)["hits"] == 0
    assert any("context variable" in reason for reason in trident_hook.explain(served).refusals)


def test_code_in_the_middle_that_may_read_it_is_refused():
    @torch.library.custom_op("trident_hook_tests::reads_scale", mutates_args=())
    def reads_scale(x: torch.Tensor) -> torch.Tensor:
        return x * SCALE.get()

    @reads_scale.register_fake
    def _(x):
        return torch.empty_like(x)

    def calls(x):
        token = SCALE.set(3)
        try:
            return reads_scale(x)
        finally:
            SCALE.reset(token)

    served, x = trident_hook.jit(calls), torch.arange(4.0)
    for _ in range(3):
        assert torch.equal(served(x), x * 3)
    assert trident_hook.counts(served)["hits"] == 0


def test_whether_a_stream_is_recorded_is_asked_again(monkeypatch):
    def asks(x):
        try:
            recorded = torch.cuda.is_current_stream_capturing()
        except Exception:
            recorded = False
        return x * 2 if recorded else x + 1

    served, x = trident_hook.jit(asks), torch.arange(4.0)
    for _ in range(3):
        assert torch.equal(served(x), asks(x))
    assert trident_hook.counts(served)["hits"] == 2
    monkeypatch.setattr(torch.cuda.graphs, "_cuda_isCurrentStreamCapturing", lambda: True)
    assert torch.equal(served(x), x * 2)
