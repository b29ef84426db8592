"""Operators that fail at run time: handlers, `finally` and `with` of the program run, and what it did before is done."""

import pytest
import torch
from support import programs
from support.routes import counted, outcome, routed, twin

import trident_hook

X = torch.arange(6, dtype=torch.float32)
GOOD, BAD = torch.tensor([2, 0]), torch.tensor([2, 6])
LOG: list = []


class Noted:
    """A context of the program's own, which may swallow what is raised."""

    swallows = False

    def __enter__(self):
        LOG.append("in")

    def __exit__(self, kind, *rest):
        LOG.append("out")
        return self.swallows


class Swallowing(Noted):
    swallows = True


def handled(x, i):
    try:
        return torch.take(x, i) * 2
    except (IndexError, RuntimeError) as error:
        return x * 3 + len(str(error)) * 0


def handled_by_an_inner_function(x, i):
    def picked():
        try:
            return x.index_select(0, i)
        except Exception:
            return x - 1

    return picked() + 1


def finished(x, i):
    try:
        return x.index_select(0, i) * 2
    finally:
        LOG.append("finally")


def in_a_context(x, i):
    with Noted():
        y = x[i] * 2
    return y


def in_a_context_that_swallows(x, i):
    y = x
    with Swallowing():
        y = x[i] * 2
    return y


def without_gradients(x, i):
    try:
        with torch.no_grad():
            return x.gather(0, i)
    except Exception:
        return x + torch.is_grad_enabled()


def noted_before(x, i):
    LOG.append("begun")
    return x[i] + 1


PROGRAMS = [handled, handled_by_an_inner_function, finished, in_a_context, in_a_context_that_swallows, without_gradients,
            noted_before]  # fmt: skip


def answer(fn, *args):
    """What comes of a call, and what it noted."""
    LOG.clear()
    got = outcome(fn, args, {})
    error = got.error and (type(got.error), str(got.error))
    return None if got.value is None else got.value.tolist(), error, list(LOG), torch.is_grad_enabled()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_hit_that_fails_is_the_plain_functions(through, program):
    fn = through(program)
    for _ in range(3):
        assert answer(fn, X, GOOD) == answer(twin(program), X, GOOD)
    with counted(fn) as added:
        assert answer(fn, X, GOOD) == answer(twin(program), X, GOOD)
    assert added["hits"] == 1, trident_hook.explain(fn).refusals
    with counted(fn) as added:
        assert answer(fn, X, BAD) == answer(twin(program), X, BAD)
    assert (added["bypasses"], added["errors"]) == (1, 0)
    with counted(fn) as added:
        assert answer(fn, X, GOOD) == answer(twin(program), X, GOOD)
    assert added["hits"] == 1


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("build", ["sync", "background"])
def test_the_first_call_fails(served, program, build):
    """Nothing is known yet: the call is not answered by code in which the handler is missing."""
    trident_hook.config.build = build
    fn = served(program)
    for index in (BAD, BAD, GOOD, BAD, GOOD, BAD):
        assert answer(fn, X, index) == answer(twin(program), X, index)


def test_what_fails_behind_a_write_is_refused_with_a_handler(served):
    def write(x, i):
        x.add_(1)
        try:
            return x[i]
        except IndexError:
            return x * 2

    fn = served(write)
    for index in (GOOD, GOOD, BAD, GOOD, BAD):
        routed(fn, X.clone(), index, via="python" if index is BAD else None, mutates=True)
    assert trident_hook.counts(fn)["hits"] == 0
    assert "order-of-errors" in str(trident_hook.explain(fn).refusals)


def test_what_fails_behind_a_write_is_refused_with_a_note(served):
    def write(x, i):
        LOG.append("begun")
        x.mul_(2)
        return x.index_select(0, i)

    fn = served(write)
    for index in (GOOD, GOOD, BAD, GOOD, BAD):
        x, y = X.clone(), X.clone()
        assert answer(fn, x, index) == answer(twin(write), y, index)
        assert torch.equal(x, y)
    assert trident_hook.counts(fn)["hits"] == 0


def test_random_numbers_are_drawn_once(served):
    def draw(x, i):
        y = torch.rand_like(x)
        return y[i]

    fn = served(draw)
    for _ in range(3):
        fn(X, GOOD)
    for index in (GOOD, BAD):
        torch.manual_seed(3)
        first = answer(fn, X, index), torch.get_rng_state().tolist()
        torch.manual_seed(3)
        assert first == (answer(twin(draw), X, index), torch.get_rng_state().tolist())


@pytest.mark.parametrize("program", [programs.shift, programs.shift_])
def test_a_launch_alone_stays_served_among_handlers(served, program):
    def launched(x):
        try:
            y = program(x, 3) + 1
        finally:
            LOG.append("done")
        return y

    fn = served(launched)
    for _ in range(3):
        assert answer(fn, X.clone()) == answer(twin(launched), X.clone())
    assert trident_hook.counts(fn)["hits"] == 2


def test_what_cannot_fail_stays_served_among_effects(served):
    def counts(x, out):
        LOG.append(1)
        out.copy_(x.relu() + x.exp())
        return out.softmax(0) + x.sum()

    fn = served(counts)
    for _ in range(3):
        LOG.clear()
        fn(X, torch.zeros(6))
    assert trident_hook.counts(fn)["hits"] == 2


def test_integers_that_are_divided_may_fail(served):
    """Only for integers is it an error."""

    def divided(x, y):
        try:
            return torch.remainder(x, y)
        except RuntimeError:
            return x * 7

    fn, ints = served(divided), torch.arange(3)
    for y in (ints + 1, ints + 1, ints, ints + 1):
        routed(fn, ints, y, via=None)
    assert trident_hook.counts(fn)["hits"] >= 2
