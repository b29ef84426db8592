"""FlagGems registered with the dispatcher, below autograd and inside other served functions. Run in a process of its own."""

from __future__ import annotations

import torch

from benchmarks import flag_gems_sim
from benchmarks.flag_gems_capture import Probe, same

flag_gems = flag_gems_sim.present()

import trident_hook  # noqa: E402 - after the library

trident_hook.config.build = "sync"
F = torch.nn.functional


def called(function, call, *args):
    """`call(*args)` until a specialization answers, then once more, which must be a hit with native launches."""
    for _ in range(4):
        call(*args)
    answer, route = Probe(function, call).call(args)
    assert route == "scm", (function.__name__, route, trident_hook.explain(function).refusals)
    return answer


def main() -> None:
    x = torch.randn(4, 64)
    table, tokens = torch.randn(50, 32), torch.tensor([3, 1, 4])
    weight = torch.randn(16, 64, requires_grad=True)
    with flag_gems_sim.registered(flag_gems, ["silu", "embedding", "mm", "add"]):
        silu, embedding, mm = F.silu(x), F.embedding(tokens, table), x @ weight.detach().t()
        with trident_hook.enable(include=[flag_gems.silu, flag_gems.embedding, flag_gems.mm]):
            assert same(called(flag_gems.silu, F.silu, x), silu)
            assert same(called(flag_gems.embedding, F.embedding, tokens, table), embedding)
            assert same(called(flag_gems.mm, torch.mm, x, weight.detach().t()), mm)
            # `linear` is a composite: it reaches `mm` below autograd, whose formula calls `mm` again.
            y = called(flag_gems.mm, F.linear, x, weight)
            assert y.grad_fn is not None
            (gradient,) = torch.autograd.grad(y, weight, torch.ones(4, 16))
            assert torch.allclose(gradient, x.sum(0).expand(16, 64), atol=1e-4)
    print("all well")


if __name__ == "__main__":
    main()
