"""Code that fails at run time, with and without handlers, and what was done before it failed."""

from __future__ import annotations

from ..draft import Draft, feature

_FAILING = (
    "{0}[{1}]",
    "torch.index_select({0}, 0, {1})",
    "checked({0} + {1}.max() * 2)",
    "{0}.gather(0, {1}[None, :1].expand(1, {0}.shape[1]))",
)


def _index(p: Draft) -> str:
    return p.argument("torch.tensor([1])", "torch.tensor([99])", "torch.tensor([0, 0])", sort="index")


@feature(weight=1.5)
def raises(p: Draft) -> None:
    k = p.argument("1", "0", "5", sort="number")
    with p.block(f"if {k} > 3:"):
        p.line(p.one_of("raise ValueError('too large')", "raise KeyError(1)", "raise RuntimeError"))
    p.keep(f"x * {k}")


@feature(4, weight=1.5)
def handled(p: Draft) -> None:
    i, t = _index(p), p.name("e")
    with p.block("try:"):
        p.line(f"{t} = " + p.one_of(*_FAILING).format("x", i))
    with p.block(p.one_of("except Exception:", "except (IndexError, RuntimeError, ValueError):")):
        p.line(f"{t} = x * 5")
    p.keep(t)


@feature(4)
def factorised(p: Draft) -> None:
    m, t = p.argument("positive(2)", "-positive(2)", sort="matrix"), p.name("e")
    with p.block("try:"):
        p.line(f"{t} = torch.linalg.cholesky({m})")
    with p.block(p.one_of("except torch.linalg.LinAlgError:", "except RuntimeError:", "except ValueError:")):
        p.line(f"{t} = {m} * 2")
    p.keep(t)


@feature(4, weight=1.5)
def finally_run(p: Draft) -> None:
    i, log = _index(p), p.glob("[]", "LOG")
    with p.block("try:"):
        p.keep(p.one_of(*_FAILING).format("x", i))
    with p.block("finally:"):
        p.line(f"{log}.append('finally')")


@feature(4, weight=1.5)
def left_by_with(p: Draft) -> None:
    i, log, c = _index(p), p.glob("[]", "LOG"), p.name("Region")
    swallow = p.one_of("False", "False", "True")
    if p.rng.random() < 0.5:
        p.define(f"class {c}:\n    def __enter__(self):\n        {log}.append('enter')\n        return self\n    def __exit__(self, kind, *rest):\n"
                 f"        {log}.append(kind and kind.__name__)\n        return {swallow}")  # fmt: skip
    else:
        p.define(
            f"@contextlib.contextmanager\ndef {c}():\n    {log}.append('enter')\n    try:\n        yield\n    finally:\n        {log}.append('exit')"
        )
    t = p.name("w")
    p.line(f"{t} = x * 2")
    with p.block(f"with {c}():"):
        p.line(f"{t} = " + p.one_of(*_FAILING).format("x", i))
    p.keep(t)


@feature(5, weight=1.5)
def effect_before_failure(p: Draft) -> None:
    i, o = _index(p), p.argument("types.SimpleNamespace(last=None)", sort="object")
    p.line(p.one_of(f"{o}.last = 'started'", f"{o}.last = {p.any()}", f"{o}.count = 1"))
    p.keep(p.one_of(*_FAILING).format("x", i))


@feature(5)
def unused_check(p: Draft) -> None:
    i = _index(p)
    p.line(p.one_of(*_FAILING).format("x", i))
    p.keep("x + 1")


@feature(5)
def mutation_before_failure(p: Draft) -> None:
    i, other = _index(p), p.argument("ramp(3, 4)", sort="tensor")
    p.line(p.one_of(f"{other}.add_(1)", f"{other}[0] = 7"))
    p.keep(p.one_of(*_FAILING).format("x", i))


@feature(5)
def asserted(p: Draft) -> None:
    k = p.argument("3", "-1", "0", sort="number")
    p.line(
        p.one_of(
            f"assert {k} >= 0, 'negative'", "assert x.shape[0] > 2", f"assert {k}", f"assert x.numel() > {k}, 'small'"
        )
    )
    p.keep(f"x * {k}")


@feature(5)
def asserted_of_data(p: Draft) -> None:
    p.line(p.one_of("assert (x < 6).all(), 'large'", "torch._assert((x < 6).all(), 'large')", "assert x.sum() < 50"))
    p.keep("x * 2")


@feature()
def wrong_shapes(p: Draft) -> None:
    other = p.argument("ramp(3, 4)", "ramp(5)", "ramp(2, 2)", sort="tensor")
    p.keep(f"x {p.one_of('+', '*')} {other}")
    if p.rng.random() < 0.5:
        p.keep(f"x @ {other}.t()")


@feature()
def error_of_python(p: Draft) -> None:
    a = p.argument("{'k': 1}", "{}", "[1]", "None", sort="any")
    p.keep(f"x * {a}['k']")


@feature(4)
def raised_and_handled(p: Draft) -> None:
    a, t = p.argument("{'k': 2}", "{}", sort="dict"), p.name("e")
    with p.block("try:"):
        p.line(f"{t} = x * {a}['k']")
    with p.block(p.one_of("except KeyError:", "except LookupError as error:")):
        p.line(f"{t} = x + 1")
    with p.block("else:"):
        p.line(f"{t} = {t} + 2")
    p.keep(t)
