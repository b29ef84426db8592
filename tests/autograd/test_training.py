"""Functions around Triton kernels train: forward and backward are both served, results and gradients are eager's bit for
bit."""

from __future__ import annotations

import pytest
import torch
from support.routes import same

import trident_hook

from .library import HIT, MISS, NOT_CALLED, inner, leaves, routes_of, train

SEED = torch.Generator().manual_seed(0)
A, B, C = (torch.randn(6, 8, generator=SEED) for _ in range(3))
W = torch.randn(8, generator=SEED)

CASES = {
    "Silu": (A,), "RmsNorm": (A, W, 1e-5), "MulAdd": (A, B, C), "CastMul": (A, B), "SetUp": (A, B),
    "WithoutSecond": (A, B), "Sparse": (A, B),
}  # fmt: skip


def warm(function, *args, **options) -> None:
    """Both directions miss once and are built."""
    _, forward, backward = routes_of(function, lambda: train(function, *args, **options))
    assert (forward, backward) == (MISS, MISS), reasons(function)


def reasons(function) -> str:
    return "\n".join(str(trident_hook.explain(inner(f))) for f in (function.forward, function.backward))


@pytest.mark.parametrize("name", CASES)
def test_both_directions_are_served(plain, served, name):
    expected = train(getattr(plain, name), *CASES[name])
    function = getattr(served, name)
    first, *_ = routes_of(function, lambda: train(function, *CASES[name]))
    assert same(first, expected)
    got, forward, backward = routes_of(function, lambda: train(function, *CASES[name]))
    assert same(got, expected)
    assert (forward, backward) == (HIT, HIT), reasons(function)


def test_a_changed_argument(plain, served):
    """The result is the argument itself, one version later, with the Function behind it."""

    def step(library):
        a = A.clone().requires_grad_()
        b, product = B.clone(), a * 1
        result = library.InPlace.apply(product, b)
        result.sum().backward()
        return result is product, result._version, type(result.grad_fn).__name__, result.detach(), a.grad

    expected = step(plain)
    step(served)
    got, forward, backward = routes_of(served.InPlace, lambda: step(served))
    assert same(got, expected)
    assert (forward, backward) == (HIT, HIT), reasons(served.InPlace)


def test_gradients_that_nobody_asked_for(plain, served):
    """needs_input_grad is a constant of a specialization."""
    for requiring in ((0, 1, 2), (0,), (1, 2)):
        warm(served.MulAdd, A, B, C, requiring=requiring)
    for requiring in ((1, 2), (0, 1, 2), (0,)):
        expected = train(plain.MulAdd, A, B, C, requiring=requiring)
        got, forward, backward = routes_of(served.MulAdd, lambda: train(served.MulAdd, A, B, C, requiring=requiring))
        assert same(got, expected)
        assert (forward, backward) == (HIT, HIT)


def test_what_was_saved_is_guarded(plain, served):
    """The smallest changes that must miss: a number on ctx, the strides of the gradient, the dtype of what was saved."""
    function = served.RmsNorm
    warm(function, A, W, 1e-5)
    for other in ((A[:, :3].contiguous(), W[:3], 1e-5), (A.double(), W.double(), 1e-5)):
        got, _, backward = routes_of(function, lambda: train(function, *other))
        assert backward == MISS
        assert same(got, train(plain.RmsNorm, *other))
    x, weight = leaves(A, W)
    _, forward, backward = routes_of(
        function, lambda: function.apply(x, weight, 1e-5).t().contiguous().sum().backward()
    )
    assert (forward, backward) == (HIT, MISS)
    again, eager = leaves(A, W), leaves(A, W)
    function.apply(*again, 1e-5).t().contiguous().sum().backward()
    plain.RmsNorm.apply(*eager, 1e-5).t().contiguous().sum().backward()
    assert same([t.grad for t in again], [t.grad for t in eager])


def test_a_model_learns_the_same(load, plain):
    """Found by enable() itself. Parameters after some steps are eager's, bit for bit."""
    x, target = A, B

    def learn(library, steps: int):
        weight, mix, gain = leaves(torch.eye(8), torch.full((6, 8), 0.5), W)
        optimizer = torch.optim.SGD([weight, mix, gain], lr=0.05, momentum=0.9)
        for _ in range(steps):
            optimizer.zero_grad()
            hidden = library.silu(x @ weight)
            out = library.mul_add(library.rms_norm(hidden, gain), mix, x)
            ((out - target) ** 2).mean().backward()
            optimizer.step()
        return weight.detach(), mix.detach(), gain.detach()

    expected = learn(plain, 12)
    module = load()
    with trident_hook.enable(include=[f"{module.__name__}.*"]):
        assert same(learn(module, 12), expected)
        for function in (module.Silu, module.RmsNorm, module.MulAdd):
            for direction in (function.forward, function.backward):
                counts = trident_hook.counts(inner(direction))
                assert counts["hits"] >= 6, (direction, counts)
                assert counts["python"] == counts["errors"] == 0, (direction, counts)


def test_gradients_add_up(plain, served):
    """Two losses through one graph that is kept."""

    def step(library):
        (x,) = leaves(A)
        y = library.Silu.apply(x)
        y.sum().backward(retain_graph=True)
        (y * B).sum().backward()
        return x.grad

    expected = step(plain)
    for _ in range(3):
        got, forward, backward = routes_of(served.Silu, lambda: step(served))
        assert same(got, expected)
    assert (forward, backward) == (HIT, (2, 0, 0, 0, 0, 0)), reasons(served.Silu)


# -- modes --------------------------------------------------------------------------------------------------------------


def test_without_grad(plain, served):
    warm(served.Silu, A)
    for mode in (torch.no_grad, torch.inference_mode):
        (x,) = leaves(A)
        with mode():
            expected = plain.Silu.apply(x)
            served.Silu.apply(x)
            got, forward, backward = routes_of(served.Silu, lambda: served.Silu.apply(x))
        assert same(got, expected)
        assert (got.requires_grad, got.is_inference()) == (False, mode is torch.inference_mode)
        assert (forward, backward) == (HIT, NOT_CALLED)
    got, forward, backward = routes_of(served.Silu, lambda: train(served.Silu, A))
    assert same(got, train(plain.Silu, A))
    assert (forward, backward) == (HIT, HIT)


def test_autocast(plain, served):
    """custom_fwd casts the arguments and turns autocast off inside; custom_bwd restores forward's mode."""

    def step(library):
        a, b = leaves(A, B)
        with torch.autocast("cpu", torch.bfloat16):
            product = library.CastMul.apply(a @ b.t(), b @ a.t())
        product.sum().backward()
        return product.detach(), a.grad, b.grad

    expected = step(plain)
    assert expected[0].dtype == torch.float32
    step(served)
    got, forward, backward = routes_of(served.CastMul, lambda: step(served))
    assert same(got, expected)
    assert (forward, backward) == (HIT, HIT), reasons(served.CastMul)


def test_autocast_on_and_off_are_two_specializations(plain, served):
    warm(served.Silu, A)
    with torch.autocast("cpu", torch.bfloat16):
        got, forward, _ = routes_of(served.Silu, lambda: train(served.Silu, A))
        assert same(got, train(plain.Silu, A))
    assert forward == MISS
    _, forward, backward = routes_of(served.Silu, lambda: train(served.Silu, A))
    assert (forward, backward) == (HIT, HIT)
