"""Arithmetic, views, in-place writes and aliasing of tensors."""

from __future__ import annotations

from ..draft import Draft, feature

_UNARY = ("{0}.relu()", "{0} * {1}", "{0} + {1}", "{0}.abs()", "{0} - {2}", "{0} * {2}", "-{0}", "{0}.clone()", "{0}.sigmoid()",
          "torch.where({0} > 0, {0}, {2})", "torch.maximum({0}, {2})", "{0}.contiguous()", "F.gelu({0})",
          "{0}.clamp(-3, {1})", "{0}.softmax(-1)", "{0} / {1}", "{0}.to(torch.float64)", "{0}.cumsum(0)", "{0}.float()")  # fmt: skip
_INPLACE = (
    ".add_({1})",
    ".mul_({1})",
    ".relu_()",
    ".copy_({0} * 1)",
    ".neg_()",
    ".clamp_(min=0)",
    ".zero_()",
    ".sub_({0})",
)
_VIEWS = ("{0}.t()", "{0}[1:]", "{0}[:, 1:]", "{0}.view(-1)", "{0}.reshape(-1)", "{0}.unsqueeze(0)", "{0}[..., None]", "{0}.detach()",
          "{0}.view({0}.shape)", "{0}.expand(2, *{0}.shape)", "{0}.transpose(0, 1)", "{0}.flatten()", "{0}[0]", "{0}.chunk(2)[0]",
          "{0}.unbind(0)", "{0}.split(1)", "{0}.narrow(1, 0, 1)")  # fmt: skip


@feature(weight=3)
def arithmetic(p: Draft) -> None:
    for _ in range(p.rng.choice((1, 2, 3))):
        p.tensor(p.one_of(*_UNARY).format(p.any(), p.number(), p.any()))


@feature(weight=2)
def reductions(p: Draft) -> None:
    p.keep(
        p.one_of("{0}.sum()", "{0}.sum(-1)", "{0}.mean(0)", "{0} @ {0}.t()", "{0}.sum(0, keepdim=True)").format(p.any())
    )
    p.keep(p.one_of("{0}.shape", "{0}.stride()", "{0}.numel()", "{0}.dtype", "{0}.dim()", "len({0})").format(p.any()))


@feature(weight=2)
def views(p: Draft) -> None:
    p.keep(p.one_of(*_VIEWS).format(p.any()))
    p.keep(p.one_of(*_VIEWS).format(p.any()))


@feature(weight=2)
def written_in_place(p: Draft) -> None:
    t = p.tensor(f"{p.any()} * {p.number()}")
    p.line(t + p.one_of(*_INPLACE).format(p.any(), p.number()))


@feature(weight=1.5)
def argument_written(p: Draft) -> None:
    """The caller's tensor is written, which may be x, or a view of it."""
    other = p.argument(
        "ramp(3, 4)", "x", "ramp(3, 4, start=3.0)", "x.view(x.shape)", "x.detach()", "leaf(3, 4)", sort="tensor"
    )
    p.line(other + p.one_of(*_INPLACE).format("x", p.number()))
    p.keep(f"{other} * 2")
    p.keep(p.one_of(other, "x", f"{other} is x"))


@feature(weight=1.5)
def two_tensors(p: Draft) -> None:
    other = p.argument("ramp(3, 4)", "ramp(1, 4)", "ramp(4)", "x", "x[:]", "ramp(3, 4, dtype=torch.float64)", "2.0", "3",
                       sort="tensor")  # fmt: skip
    p.keep(f"x {p.one_of('+', '*', '-')} {other}")
    if p.rng.random() < 0.5:
        p.keep(f"{other} is x")


@feature(weight=1.5)
def view_written(p: Draft) -> None:
    t = p.tensor(f"{p.any()} * 1")
    v = p.name("v")
    p.line(f"{v} = {t}{p.one_of('[1:]', '.t()', '.view(-1)', '[:, :2]', '[0]')}", f"{v}.add_({p.number()})")
    p.keep(v)


@feature(weight=1.5)
def items_assigned(p: Draft) -> None:
    t = p.tensor(f"{p.any()}.clone()")
    p.line(f"{t}{p.one_of('[0]', '[:, 1]', '[1:]', '[..., 0]')} = {p.number()}")


@feature()
def made_here(p: Draft) -> None:
    p.keep(p.one_of("torch.zeros(3)", "torch.full((2, 2), {0}.0)", "torch.arange({0})", "torch.ones_like(x)", "torch.eye({0})",
                    "torch.tensor([1.0, {0}])", "x.new_zeros(2)", "torch.zeros_like(x).add_({0})").format(p.number()))  # fmt: skip


@feature()
def random_numbers(p: Draft) -> None:
    p.keep(
        p.one_of(
            "torch.randn(3)", "torch.rand_like(x.float())", "F.dropout(x.float(), 0.5)", "torch.randint(0, 9, (4,))"
        )
    )


@feature(12)
def version_counters(p: Draft) -> None:
    t = p.name("v")
    p.line(f"{t} = {p.one_of('torch.zeros(3)', 'torch.full((3,), 1.0)', 'torch.randn(3)', 'x * 1')}")
    if p.rng.random() < 0.5:
        p.line(f"{t}.add_(1)")
    p.keep(t)
    p.keep(f"{t}._version")


@feature(7)
def other_strides(p: Draft) -> None:
    """Operators whose results Dynamo may lay out otherwise than the real ones."""
    y = p.argument("ramp(1, 2, 4, 4).contiguous(memory_format=torch.channels_last)", "ramp(1, 2, 4, 4)",
                   "ramp(1, 4, 2, 4).transpose(1, 2)", sort="image")  # fmt: skip
    made = p.name("s")
    p.line(f"{made} = " + p.one_of(
        "F.pad({0}, (1, 1, 1, 1), mode='reflect')", "torch.fft.fft2({0}).real", "torch.roll({0}, 1, 2)",
        "F.batch_norm({0}, torch.zeros({0}.shape[1]), torch.ones({0}.shape[1]))", "F.interpolate({0}, scale_factor=2)",
        "F.avg_pool2d({0}, 2)", "{0}.flip(2)", "F.pad({0}, (1, 1), mode='circular')", "{0}.cumsum(1)",
        "torch.fft.rfft({0}, dim=1).imag", "F.instance_norm({0})", "{0}.repeat(1, 2, 1, 1)", "F.softmax({0}, 1)",
    ).format(y))  # fmt: skip
    p.keep(made)
    p.keep(f"{made}.stride()")


@feature()
def branch_on_shape(p: Draft) -> None:
    t = p.name("b")
    with p.block(f"if x.shape[0] {p.one_of('>', '==', '<')} {p.one_of(2, 3)}:"):
        p.line(f"{t} = x * {p.number()}")
    with p.block("else:"):
        p.line(f"{t} = x + {p.number()}")
    p.keep(t)


@feature()
def branch_on_tensor(p: Draft) -> None:
    p.keep(
        f"x * {p.number()} if {p.one_of('x.dtype is torch.float64', 'x.requires_grad', 'x.is_contiguous()', 'x.dim() == 2', 'x.numel() > 8')} else x"
    )


@feature()
def decided_by_data(p: Draft) -> None:
    p.keep(
        p.one_of(
            "x.sum().item()",
            "x[x > 0]",
            "x.nonzero()",
            "x.max().item() * 2",
            "x.tolist()",
            "x * 2 if x.sum() > 0 else x * 3",
        )
    )


@feature(2)
def data_attribute(p: Draft) -> None:
    p.keep(p.one_of("x.data", "x.data * 2", "x.data.sum()", "(x.data, x.data.requires_grad)"))


@feature(2)
def data_assigned(p: Draft) -> None:
    other = p.argument("ramp(3, 4)", "leaf(3, 4)", "x", sort="tensor")
    p.line(p.one_of("{0}.data.copy_({0}.data + 1)", "{0}.data = {0}.data * 2", "{0}.data.add_(1)").format(other))
    p.keep(f"{other} + 1")
