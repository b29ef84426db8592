"""Questions about tensors whose answers Dynamo may take for constants."""

from __future__ import annotations

from ..draft import Draft, feature

_QUESTIONS = ("{0}.is_leaf", "{0}.grad_fn is None", "{0}._base is None", "{0}.retains_grad", "{0}._version", "{0}._is_view()",
              "{0}.untyped_storage().size()", "{0}.storage_offset()", "{0}.is_contiguous()", "{0}.requires_grad", "{0}.grad is None",
              "{0}._backward_hooks is None", "{0}.output_nr", "{0}.is_inference()", "{0}.data_ptr() == x.data_ptr()",
              "{0}.names", "{0}.layout", "{0}.device", "{0}.is_conj()", "{0}.untyped_storage().nbytes()", "type({0}) is torch.Tensor",
              "hasattr({0}, 'tag')")  # fmt: skip


@feature(6, weight=2)
def asked_of_an_argument(p: Draft) -> None:
    other = p.argument("ramp(3, 4)", "ramp(6, 4)[3:]", "leaf(3, 4)", "leaf(3, 4) * 1", "ramp(3, 4)[:]", "leaf(3, 4).detach()",
                       "nn.Parameter(ramp(3, 4))", "(lambda t: (t.sum().backward(), t)[1])(leaf(3, 4))",
                       "(lambda t: (t.retain_grad(), t)[1])(leaf(3, 4) * 1)",
                       "(lambda t: (t.register_hook(lambda g: g * 2), t)[1])(leaf(3, 4))",
                       "(lambda t: (setattr(t, 'tag', 1), t)[1])(ramp(3, 4))", sort="tensor")  # fmt: skip
    p.keep(
        f"x * (3 if {p.one_of(*_QUESTIONS).format(other)} else 2)"
        if p.rng.random() < 0.5
        else p.one_of(*_QUESTIONS).format(other)
    )


@feature(6)
def asked_of_a_result(p: Draft) -> None:
    t = p.tensor(
        p.one_of("x * 2", "x[1:] if False else x.view(x.shape)", "x.detach()", "torch.zeros_like(x)", "x + x.sum()")
    )
    p.keep(p.one_of(*_QUESTIONS).format(t))


@feature(6)
def detached_in_place(p: Draft) -> None:
    t = p.name("h")
    p.line(f"{t} = x * 2", f"{t}.detach_()")
    p.keep(f"{t} + 1")
    p.keep(
        p.one_of(
            f"{t}.requires_grad", f"{t}.is_leaf", f"{t}.grad_fn is None", f"{t} * 2 if {t}.requires_grad else {t} * 3"
        )
    )


@feature(6)
def grad_gained_in_place(p: Draft) -> None:
    t, w = p.name("h"), p.argument("leaf(3, 4)", "ramp(3, 4)", "leaf(3, 4) * 1", sort="tensor")
    p.line(f"{t} = torch.zeros(3, 4)", p.one_of(f"{t}.add_({w})", f"{t}[1:] = {w}[1:]", f"{t}.copy_({w})"))
    p.keep(f"{t} + 1")
    p.keep(p.one_of(f"{t}.requires_grad", f"{t}.is_leaf"))


@feature(6)
def process_asked(p: Draft) -> None:
    p.define("import os, sys")
    p.process("sys.setrecursionlimit(sys.getrecursionlimit() + 1)", "sys.setrecursionlimit(RECURSION)")
    p.process("os.environ['JUDGE_K'] = '5'", "os.environ.pop('JUDGE_K', None)")
    p.keep(p.one_of("x * (sys.getrecursionlimit() % 7 + 1)", "x * int(os.environ.get('JUDGE_K', '2'))"))


@feature()
def numbers_compared(p: Draft) -> None:
    a, b = (
        p.argument("3", "4", "3.0", "True", "-1", "2**40", "0", "1", "0.5", "float('nan')", sort="number")
        for _ in range(2)
    )
    p.keep(p.one_of(f"x * {a} if {a} > {b} else x * {b}", f"x + ({a} == {b})", f"x * ({a} + {b})", f"x + {a} * {b}", f"x * max({a}, {b})",
                    f"({a}, {b}, {a} + {b})", f"x * ({a} // ({b} or 1))", f"str({a})", f"type({a}).__name__"))  # fmt: skip


@feature()
def strings_compared(p: Draft) -> None:
    a = p.argument("'sum'", "'mean'", "''", "None", "b'sum'", sort="string")
    p.keep(f"x.sum() if {a} == 'sum' else x * 3")
    if p.rng.random() < 0.5:
        p.keep(f"f'{{{a}}}-{{x.shape[0]}}'")
