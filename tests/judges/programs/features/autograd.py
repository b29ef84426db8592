"""Autograd: functions of one's own, backward inside a call, hooks, functional transforms."""

from __future__ import annotations

from ..draft import Draft, feature


@feature(weight=1.5)
def own_function(p: Draft) -> None:
    c = p.name("Fn")
    save = p.rng.random() < 0.5
    p.define(f"class {c}(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, k):\n        ctx.k = k\n"
             + ("        ctx.save_for_backward(x)\n" if save else "")
             + "        return x * k\n    @staticmethod\n    def backward(ctx, g):\n"
             + ("        x, = ctx.saved_tensors\n        return g * ctx.k + x * 0, None" if save else "        return g * ctx.k, None"))  # fmt: skip
    k = p.argument("2", "3", "2.5", sort="number")
    p.keep(f"{c}.apply(x, {k})")


@feature()
def backward_inside(p: Draft) -> None:
    w = p.name("w")
    p.line(f"{w} = x.detach().float().requires_grad_()", f"({w} * {p.number()}).sum().backward()")
    p.keep(f"{w}.grad")


@feature()
def gradient_asked(p: Draft) -> None:
    w = p.name("w")
    p.line(f"{w} = x.detach().float().requires_grad_()")
    p.keep(f"torch.autograd.grad(({w} * {w}).sum(), {w})[0]")


@feature(2)
def functional_transform(p: Draft) -> None:
    y = "x.detach().float()"
    p.keep(p.one_of(f"torch.func.grad(lambda t: t.sin().sum())({y})", f"torch.func.vmap(lambda t: t * 2)({y})",
                    f"torch.func.jvp(torch.sin, ({y},), (torch.ones_like({y}),))", f"torch.func.vjp(torch.sin, {y})[0]",
                    f"torch.func.functional_call(nn.Identity(), {{}}, ({y},))"))  # fmt: skip


@feature(2)
def forward_mode(p: Draft) -> None:
    t = p.name("d")
    with p.block("with torch.autograd.forward_ad.dual_level():"):
        p.line(f"{t} = torch.autograd.forward_ad.make_dual(x.detach().float(), torch.ones_like(x.detach().float()))",
               f"{t} = torch.autograd.forward_ad.unpack_dual({t} * 2).tangent")  # fmt: skip
    p.keep(t)


@feature()
def requires_grad_set(p: Draft) -> None:
    t = p.tensor("x.detach().float()")
    p.line(f"{t}.requires_grad_()")
    p.keep(f"{t} * 2")


@feature(6)
def hook_registered(p: Draft) -> None:
    other = p.argument("leaf(3, 4)", "leaf(3, 4) * 1", sort="tensor")
    p.line(f"{other}.register_hook(lambda g: g * 2)")
    p.keep(f"{other} * 3")


@feature()
def checkpointed(p: Draft) -> None:
    p.define("import torch.utils.checkpoint")
    p.keep(
        p.one_of(
            "torch.utils.checkpoint.checkpoint(lambda t: t * 2, x, use_reentrant=False)",
            "torch.autograd.functional.jacobian(lambda t: t * 2, ramp(2))",
        )
    )


@feature(6)
def grad_field(p: Draft) -> None:
    w = p.argument("leaf(3, 4)", "(lambda t: (t.sum().backward(), t)[1])(leaf(3, 4))", sort="tensor")
    p.line(p.one_of(f"{w}.grad = None", f"{w}.grad = torch.ones(3, 4)", "pass"))
    p.keep(f"x * (2 if {w}.grad is None else 3)")
