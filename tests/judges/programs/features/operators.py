"""Operators of other sorts: several results, written in Python, allowed in graphs, given out=."""

from __future__ import annotations

from ..draft import Draft, feature


@feature(weight=1.5)
def several_results(p: Draft) -> None:
    p.keep(p.one_of("x.max(0)", "x.sort()", "x.topk(1)", "torch.var_mean(x)", "x.split(2)", "torch.unique(x)", "x.unbind()", "x.min(-1).values",
                    "torch.meshgrid(x[0], x[0], indexing='ij')", "torch.linalg.qr(x.float())", "x.aminmax()"))  # fmt: skip


@feature()
def written_to_out(p: Draft) -> None:
    out = p.argument("torch.zeros(3, 4)", "torch.zeros(0)", "torch.zeros(4, 3).t()", sort="out")
    p.keep(f"torch.{p.one_of('mul', 'add')}(x.detach().float(), 2, out={out})")


@feature(12)
def constant_result(p: Draft) -> None:
    h, g = p.name("const"), p.glob("2", "SCALE")
    p.define(f"@torch._dynamo.assume_constant_result\ndef {h}():\n    return {g}")
    p.change(f"{g} = 5")
    p.keep(f"x * {h}()")


@feature(12)
def allowed_in_graph(p: Draft) -> None:
    h, log = p.name("allowed"), p.glob("[]", "LOG")
    p.define(f"@torch._dynamo.allow_in_graph\ndef {h}(x):\n    {log}.append('run')\n    return x * 2")
    p.keep(f"{h}(x)")


@feature(8)
def operator_that_raises(p: Draft) -> None:
    p.keep("checked(x + 3)")
    p.keep("checked(x * 4)")


@feature(12)
def overridden_empty(p: Draft) -> None:
    """A library replaces an operator of PyTorch's between two calls."""
    p.process("override_empty()", "drop_override()")
    p.keep("torch.empty(2, dtype=torch.float32).fill_(1) * 0 + 1")


@feature()
def tensor_subclass(p: Draft) -> None:
    c = p.name("Sub")
    p.define(f"class {c}(torch.Tensor):\n    pass")
    a = p.argument("ramp(3, 4)", f"ramp(3, 4).as_subclass({c})", sort="tensor")
    p.keep(f"{a} * 2")


@feature()
def numpy_used(p: Draft) -> None:
    p.define("import numpy")
    p.keep(
        p.one_of(
            "numpy.float32(2.0) * x", "torch.from_numpy(numpy.ones(3, dtype='float32'))", "x * int(numpy.int64(3))"
        )
    )


@feature()
def losses_and_layers(p: Draft) -> None:
    y = "x.float()"
    p.keep(p.one_of(f"F.layer_norm({y}, (4,))", f"F.softmax({y}, 0)", f"F.linear({y}, torch.ones(2, 4))",
                    f"F.cross_entropy({y}, torch.zeros({y}.shape[0], dtype=torch.long))",
                    f"F.normalize({y})", f"torch.einsum('ij,kj->ik', {y}, {y})", f"torch.cat([{y}, {y}])", f"torch.stack([{y}] * 2)",
                    f"F.scaled_dot_product_attention({y}[None], {y}[None], {y}[None])"))  # fmt: skip
