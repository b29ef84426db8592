"""Triton kernels on the simulated driver: arguments, options, grids, launchers that are replaced."""

from __future__ import annotations

from ..draft import Draft, feature


def _out(p: Draft) -> tuple[str, str]:
    """A dense input and a tensor like it."""
    source, out = p.name("i"), p.name("o")
    p.line(f"{source} = {p.any()}.detach().float().contiguous()", f"{out} = torch.zeros_like({source})")
    return source, out


@feature(weight=3)
def kernel(p: Draft) -> None:
    source, out = _out(p)
    factor = p.argument("2", "3", "1", "16", "2.5", sort="number") if p.rng.random() < 0.6 else str(p.number())
    grid = p.one_of(
        "(1,)", "[1]", "lambda meta: (triton.cdiv(64, meta['BLOCK']),)", f"(triton.cdiv({source}.numel(), 64) or 1,)"
    )
    p.line(f"scale_kernel[{grid}]({source}, {out}, {source}.numel(), {factor}, BLOCK={p.one_of(64, 32)})")
    p.tensors.append(out)
    p.keep(out)


@feature(weight=1.5)
def kernel_of_a_constant(p: Draft) -> None:
    source, out = _out(p)
    g = p.glob("2", "FACTOR")
    p.change(f"{g} = 3", f"{g} = 2.5")
    p.line(
        f"times_kernel[(1,)]({source}, {out}, {source}.numel(), FACTOR={g}, BLOCK=64, num_warps={p.one_of(1, 2, 4)})"
    )
    p.keep(out)


@feature(10)
def kernel_options(p: Draft) -> None:
    source, out = _out(p)
    p.line(
        f"stages_kernel[(1,)]({source}, {out}, {source}.numel(){p.one_of('', ', num_warps=2', ', num_stages=3', ', x=' + source)})"
    )
    p.keep(out)


@feature(7)
def kernel_of_strides(p: Draft) -> None:
    y = p.argument("ramp(1, 2, 4, 4).contiguous(memory_format=torch.channels_last)", "ramp(1, 2, 4, 4)", sort="image")
    made, out = p.name("s"), p.name("o")
    p.line(f"{made} = " + p.one_of("F.pad({0}, (1, 1, 1, 1), mode='reflect')", "torch.roll({0}, 1, 2)", "{0}.flip(3)").format(y),
           f"{out} = torch.zeros({made}.shape[2] * {made}.shape[3])",
           f"strided_kernel[(1,)]({made}, {out}, {made}.shape[2], {made}.shape[3], {made}.stride(2), {made}.stride(3), BLOCK=64)")  # fmt: skip
    p.keep(out)


@feature(2)
def kernel_of_data(p: Draft) -> None:
    source, out = _out(p)
    p.line(f"scale_kernel[(1,)]({source}.data, {out}, {source}.numel(), 2, BLOCK=64)")
    p.keep(out)


@feature(12)
def launcher_replaced(p: Draft) -> None:
    """Somebody counts launches by a `run` of their own."""
    source, out = _out(p)
    n = p.glob("[0]", "LAUNCHES")
    p.process(f"replace_run({n!r})", "put_run_back()")
    p.line(f"scale_kernel[(1,)]({source}, {out}, {source}.numel(), 2, BLOCK=64)")
    p.keep(out)


@feature()
def kernel_in_place(p: Draft) -> None:
    t = p.argument("ramp(3, 4)", "ramp(12).view(3, 4)", "ramp(13)[1:].view(3, 4)", sort="dense")
    p.line(f"scale_kernel[(1,)]({t}, {t}, {t}.numel(), 3, BLOCK=64)")
    p.keep(p.one_of(t, f"{t} + 1"))


@feature()
def kernel_in_a_loop(p: Draft) -> None:
    source, out = _out(p)
    n = p.argument("2", "1", "0", "3", sort="number")
    with p.block(f"for {p.name('i')} in range({n}):"):
        p.line(f"scale_kernel[(1,)]({source}, {out}, {source}.numel(), 2, BLOCK=64)")
    p.keep(out)


@feature(5)
def kernel_before_failure(p: Draft) -> None:
    source, out = _out(p)
    i, log = p.argument("torch.tensor([1])", "torch.tensor([99])", sort="index"), p.glob("[]", "LOG")
    p.line(f"{log}.append('launch')", f"scale_kernel[(1,)]({source}, {out}, {source}.numel(), 2, BLOCK=64)")
    p.keep(f"{out}[{i}]")
