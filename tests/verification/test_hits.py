"""Hits are held against the plain function: a wrong specialization is found and given up, a right one leaves no trace of the second run."""

from __future__ import annotations

import collections
import warnings

import pytest
import torch
from support import programs
from support.routes import twin

import trident_hook
from trident_hook.capture.guards.translate import GuardTranslator
from trident_hook.verification import hits

LOG: list = []
FACTOR = 2


def logged(x):
    LOG.append(len(LOG))
    return x * FACTOR


def both(x, y):
    x.add_(1)
    y.mul_(2)
    return x, y, x is y


def counted(box, x):
    box.n += 1
    box.last = x * box.n
    box.items.append(box.last)
    return box, x[0]


class Box:
    def __init__(self):
        self.n, self.last, self.items = torch.tensor(0), None, []


def noisy(x):
    return x + torch.rand_like(x), torch.randn(2) * 2


def by_number(x, k):
    return x * k


def failing(x, i):
    return x[i]


def failing_late(x, i):
    x.mul_(1)
    return x[i]


def served(fn):
    return trident_hook.jit(twin(fn))


def verified(fn, *args, **kwargs):
    """Calls; proves that it was a hit, and that it was verified."""
    before, hits_before = hits.counted["verified"], trident_hook.counts(fn)["hits"]
    answer = fn(*args, **kwargs)
    assert trident_hook.counts(fn)["hits"] == hits_before + 1, trident_hook.explain(fn)
    assert hits.counted["verified"] == before + 1, hits.not_verified
    return answer


@pytest.fixture(autouse=True)
def no_difference():
    """Tests that expect one say so by `different`."""
    before = dict(hits.counted)
    yield
    assert hits.counted["different"] == before["different"]


@pytest.fixture
def different(monkeypatch):
    """Behind this the counters are as they were."""
    kept = dict(hits.counted)
    yield
    hits.counted.update(kept)


def test_effects_happen_once():
    fn, x = served(logged), torch.ones(3)
    for _ in range(3):
        LOG.clear()
        fn(x)
    LOG.clear()
    assert torch.equal(verified(fn, x), x * 2)
    assert LOG == [0]


def test_writes_and_aliasing_are_those_of_one_run():
    fn = served(both)
    for _ in range(2):
        fn(torch.ones(3), torch.ones(3))
    x, y = torch.ones(3), torch.ones(3)
    versions = x._version, y._version
    a, b, same = verified(fn, x, y)
    assert a is x
    assert b is y
    assert same is False
    assert x.tolist() == [2.0] * 3
    assert y.tolist() == [2.0] * 3
    assert (x._version, y._version) == (versions[0] + 1, versions[1] + 1)
    z = torch.ones(3)
    fn(z, z)
    assert verified(fn, z, z)[2] is True


def test_views_of_one_memory_are_written_once():
    fn = served(both)
    base = torch.ones(6)
    for _ in range(3):
        fn(base[:3], base[3:])
    base.fill_(1)
    verified(fn, base[:3], base[3:])
    assert base.tolist() == [2.0] * 6


def test_objects_are_put_back_whole():
    fn, x = served(counted), torch.arange(3.0)
    box = Box()
    for _ in range(3):
        fn(Box(), x)
    answer, _ = verified(fn, box, x)
    assert answer is box
    assert len(box.items) == 1
    assert box.items[0] is box.last
    assert box.n.item() == 1
    assert torch.equal(box.last, x)


def moved(x, ordered):
    ordered.move_to_end("a")
    return x * next(iter(ordered.values()))


def test_the_order_of_an_ordered_dict_is_its_own(no_difference):
    """`move_to_end` changes nothing that `dict` itself shows."""
    fn = served(moved)
    for _ in range(4):
        ordered = collections.OrderedDict(a=1, b=2, c=3)
        assert torch.equal(fn(torch.ones(2), ordered), torch.full((2,), 2.0))
        assert list(ordered) == ["b", "c", "a"]
    assert trident_hook.counts(fn)["hits"] >= 2


def test_random_numbers_are_drawn_once():
    fn, x = served(noisy), torch.zeros(4)
    fn(x)
    torch.manual_seed(5)
    expected = [noisy(x), torch.rand(1)]
    torch.manual_seed(5)
    seen = [verified(fn, x), torch.rand(1)]
    assert all(torch.equal(a, b) for a, b in zip(seen[0], expected[0], strict=True))
    assert torch.equal(seen[1], expected[1])


def test_kernels_are_verified():
    fn, x = served(programs.shift), torch.ones(64)
    fn(x, 3)
    assert torch.equal(verified(fn, x, 3), torch.full((64,), 4.0))


def test_results_have_their_place_in_autograd():
    fn, x = served(by_number), torch.ones(3, requires_grad=True)
    fn(x, 3)
    verified(fn, x, 3).sum().backward()
    assert x.grad.tolist() == [3.0] * 3


def test_an_error_is_the_plain_functions(monkeypatch):
    """Before the first effect no hit raises, and there is nothing to compare."""
    for program, compared in ((failing, 0), (failing_late, 1)):
        fn, x = served(program), torch.ones(3)
        for _ in range(2):
            fn(x, torch.tensor([1]))
        before = hits.counted["verified"]
        with pytest.raises(IndexError) as caught:
            fn(x, torch.tensor([7]))
        assert hits.counted["verified"] == before + compared
        assert any(frame.name == program.__name__ for frame in caught.traceback)


def _without(kind: str, monkeypatch):
    """Captures that leave out guards of a kind."""
    translate = GuardTranslator.translate
    monkeypatch.setattr(GuardTranslator, "translate", lambda self: [g for g in translate(self) if g.kind != kind])


@pytest.mark.parametrize("door", ["jit", "enable"])
def test_a_wrong_guard_is_found_and_given_up(monkeypatch, different, door):
    _without("equals", monkeypatch)
    plain = twin(by_number)
    fn, x = trident_hook.jit(plain) if door == "jit" else plain, torch.ones(3)
    with trident_hook.enable(include=[plain]) if door == "enable" else warnings.catch_warnings():
        fn(x, 3)
        verified(fn, x, 3)
        with pytest.warns(RuntimeWarning, match="not what the plain function does: the result: values") as caught:
            assert fn(x, 4).tolist() == [4.0] * 3
        text = str(caught[0].message)
        assert "guards:" in text
        assert "host program:" in text
        assert "by_number" in text
        hits_then = trident_hook.counts(plain)["hits"]
        assert fn(x, 5).tolist() == [5.0] * 3
        assert fn(x, 3).tolist() == [3.0] * 3
        assert trident_hook.counts(plain)["hits"] == hits_then
        assert any("verification" in str(key) for key in trident_hook.explain(plain).refusals)


def test_the_other_specializations_stay(monkeypatch, different):
    fn = served(by_number)
    for value in (torch.ones(3), torch.ones(3, dtype=torch.int64)):
        fn(value, 3)
    _without("equals", monkeypatch)
    fn(torch.ones(2, 2, 2), 3)
    assert len(trident_hook.explain(fn).specializations) == 3
    with pytest.warns(RuntimeWarning, match="is given"):
        assert fn(torch.ones(2, 2, 2), 4).sum() == 32
    assert len(trident_hook.explain(fn).specializations) == 2
    assert verified(fn, torch.ones(3), 3).tolist() == [3.0] * 3
    assert fn(torch.ones(2, 2, 2), 4).sum() == 32


def test_a_change_of_what_can_be_reached_is_found(monkeypatch, different):
    """The wrong run writes an object that the plain one does not."""
    LOG.clear()
    fn, x = served(logged), torch.ones(3)
    fn(x)
    monkeypatch.setattr(hits.Verifier, "_ask", _asking_and_then(lambda: LOG.append("more"), hits.Verifier._ask))
    LOG.clear()
    with pytest.warns(RuntimeWarning, match="LOG"):
        fn(x)
    assert LOG == [0]


def _asking_and_then(act, ask):
    def asked(self, *args):
        answer = ask(self, *args)
        act()
        return answer

    return asked


def test_state_of_the_thread_is_found_and_put_back(monkeypatch, different):
    fn, x = served(by_number), torch.ones(3)
    fn(x, 3)
    monkeypatch.setattr(
        hits.Verifier, "_ask", _asking_and_then(lambda: torch._C._set_grad_enabled(False), hits.Verifier._ask)
    )
    with pytest.warns(RuntimeWarning, match="grad mode afterwards: False, expected True"):
        fn(x, 3)
    assert torch.is_grad_enabled()


def test_what_cannot_be_undone_keeps_the_served_answer(no_difference):
    """An in-place operation that gives an argument another place in the graph of autograd."""
    fn = served(both)

    def arguments():
        w = torch.ones(3, requires_grad=True)
        return w * 1, w * 2

    for _ in range(2):
        fn(*arguments())
    x, y = arguments()
    before = collections.Counter(hits.not_verified)
    fn(x, y)
    assert sum((collections.Counter(hits.not_verified) - before).values()) == 1
    assert x.tolist() == [2.0] * 3
    assert y.tolist() == [4.0] * 3


def test_hits_inside_hits_are_part_of_them():
    inner = served(by_number)

    @torch.library.custom_op("verification::outer", mutates_args=())
    def op(x: torch.Tensor) -> torch.Tensor:
        return inner(x, 3)

    op.register_fake(torch.empty_like)
    inner(torch.ones(3), 3)

    def outer(x):
        return torch.ops.verification.outer(x) + 1

    fn = served(outer)
    fn(torch.ones(3))
    assert verified(fn, torch.ones(3)).tolist() == [4.0] * 3


def test_off_by_default():
    trident_hook.config.verify = False
    fn, x, before = served(by_number), torch.ones(3), hits.counted["verified"]
    for _ in range(3):
        fn(x, 3)
    assert trident_hook.counts(fn)["hits"] == 2
    assert hits.counted["verified"] == before
