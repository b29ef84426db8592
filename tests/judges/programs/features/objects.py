"""Objects, closures, defaults and globals: their identity, attributes and changes."""

from __future__ import annotations

from ..draft import Draft, feature


def _plain_class(p: Draft, body: str = "") -> str:
    name = p.name("Box")
    p.define(f"class {name}:\n    def __init__(self, k=2):\n        self.k = k\n" + body)
    return name


@feature(weight=1.5)
def attribute_read(p: Draft) -> None:
    cls = _plain_class(p)
    o = p.argument(f"{cls}()", f"{cls}(3)", f"{cls}(2.5)", f"{cls}(x)", f"{cls}(None)", sort="object")
    p.keep(f"x * {o}.k" if p.rng.random() < 0.7 else f"({o}.k, {o})")


@feature(weight=1.5)
def attribute_written(p: Draft) -> None:
    cls = _plain_class(p)
    o = p.argument(f"{cls}()", f"{cls}(3)", sort="object")
    p.line(
        p.one_of(
            f"{o}.last = {p.any()}", f"{o}.k = {p.number()}", f"{o}.k += 1", f"{o}.seen = [{p.any()}]", f"del {o}.k"
        )
    )
    p.keep("x * 2")


@feature(1, weight=2)
def two_objects(p: Draft) -> None:
    cls = _plain_class(p)
    a, b = (p.argument(f"{cls}()", f"{cls}(3)", sort="object" + cls) for _ in range(2))
    p.line(p.one_of(f"{a}.k = {p.number() + 10}", f"{a}.k += 1", "pass"))
    p.keep(f"x * {b}.k")
    p.keep(p.one_of(f"{a} is {b}", f"x * (3 if {a} is {b} else 2)", f"{a} == {b}", f"{a} in [{b}]"))


@feature(1, weight=1.5)
def two_sides(p: Draft) -> None:
    """Attributes that may be one object: compared, and moved by the function itself."""
    g = p.glob("types.SimpleNamespace(left=object(), right=object())", "SIDES")
    p.define(f"{g}.current = {g}.left")
    p.change(f"{g}.current = {g}.right", f"{g}.current = {g}.left", f"{g}.current = object()", f"{g}.right = {g}.left")
    if p.rng.random() < 0.5:
        p.line(f"{g}.current = {g}.right if {g}.current is {g}.left else {g}.left")
    p.keep(f"x * (2 if {g}.current is {g}.left else 3)")


@feature(1)
def sentinel(p: Draft) -> None:
    s = p.glob("object()", "MISSING")
    a = p.argument(s, "object()", "None", "3", sort="value")
    p.change(f"{s} = object()")
    p.keep(f"x * 2 if {a} is {s} else x * 3")


@feature(1)
def global_and_argument(p: Draft) -> None:
    cls = _plain_class(p)
    g = p.glob(f"{cls}(4)", "BOX")
    a = p.argument(f"{cls}(4)", g, f"{cls}(5)", sort="object" + cls)
    p.line(f"{a}.k = 11")
    p.keep(f"x * {g}.k")
    p.change(f"{g} = {cls}(6)", f"{g}.k = 4")


@feature(1)
def closure_objects(p: Draft) -> None:
    """Cells that may hold one list."""
    first, second, made = p.glob("[1]", "ONE"), p.glob("[1]", "TWO"), p.name("inner")
    p.define(f"""
        def make_{made}(one, two):
            def {made}(x):
                one.append(1)
                return x * len(two)
            return {made}
        {made} = make_{made}({first}, {second})
    """)
    p.change(
        f"{made} = make_{made}({first}, {first})",
        f"{made} = make_{made}([1], [1])",
        f"{made} = make_{made}([], {second})",
    )
    p.keep(f"{made}(x)")


@feature(1)
def default_lists(p: Draft) -> None:
    made, shared = p.name("helper"), p.glob("[1]", "SHARED")
    p.define(f"def {made}(x, acc={shared}, *, other=[2]):\n    acc.append(1)\n    return x * len(other)")
    p.change(f"{made}.__defaults__ = ([],)", f"{made}.__kwdefaults__ = {{'other': {shared}}}", f"{shared}.clear()")
    p.keep(f"{made}(x)")


@feature(weight=1.5)
def closure_number(p: Draft) -> None:
    made = p.name("inner")
    p.define(f"""
        def make_{made}(k):
            def {made}(x):
                return x * k
            return {made}
        {made} = make_{made}(2)
    """)
    p.change(
        f"{made} = make_{made}(5)", f"{made}.__closure__[0].cell_contents = 7", f"{made} = make_{made}(torch.ones(4))"
    )
    p.keep(f"{made}(x)")


@feature(weight=1.5)
def global_number(p: Draft) -> None:
    g = p.glob("3", "SCALE")
    p.change(f"{g} = 4", f"{g} = 3.0", f"{g} = True", f"{g} = None", f"del {g}", f"{g} = torch.tensor(2.0)")
    p.keep(f"x * {g}")


@feature()
def global_written(p: Draft) -> None:
    g, setter = p.glob("0", "COUNT"), p.name("bump")
    p.define(f"def {setter}():\n    global {g}\n    {g} += 1\n    return {g}")
    p.change(f"{g} = 10")
    p.keep(f"x * {setter}()")


@feature()
def replaced_helper(p: Draft) -> None:
    h = p.name("helper")
    p.define(f"def {h}(x, k=2):\n    return x * k")
    p.change(f"{h} = lambda x, k=2: x + k", f"{h}.__defaults__ = (5,)", f"{h}.__code__ = (lambda x, k=2: x - k).__code__",
             f"{h}.k = 3")  # fmt: skip
    p.keep(f"{h}({p.any()})")


@feature()
def partial_and_method(p: Draft) -> None:
    cls = _plain_class(p, "    def times(self, x):\n        return x * self.k\n")
    f = p.argument(f"{cls}().times", f"{cls}(3).times", "functools.partial(torch.add, 2)", "torch.relu", "lambda x: x * 4",
                   f"functools.partial({cls}.times, {cls}(5))", sort="callable")  # fmt: skip
    p.keep(f"{f}(x)")


@feature(weight=1.5)
def module_called(p: Draft) -> None:
    m = p.glob(
        p.one_of(
            "nn.Linear(4, 2)", "nn.Sequential(nn.Linear(4, 4), nn.ReLU())", "nn.LayerNorm(4)", "nn.BatchNorm1d(4)"
        ),
        "MOD",
    )
    p.define(f"for q in {m}.parameters():\n    q.data = ramp(*q.shape)\ndel q")
    p.change(f"{m}.eval()", f"{m}.train()", f"{m}.requires_grad_(False)", f"{m}.extra = 1",
             f"{m}._forward_hooks[7] = lambda m, a, o: o * 2",
             f"{m}.forward = lambda x: x")  # fmt: skip
    p.keep(f"{m}(x.float())")


@feature(1)
def tied_parameters(p: Draft) -> None:
    m = p.glob("nn.ParameterDict(dict(a=nn.Parameter(ramp(4)), b=nn.Parameter(ramp(4))))", "TIED")
    p.change(f"{m}['b'] = {m}['a']", f"{m}['b'] = nn.Parameter(ramp(4))")
    with p.block("with torch.no_grad():"):
        p.line(f"{m}['a'].add_(1)")
    p.keep(f"x * {m}['b'].detach()")


@feature()
def object_returned(p: Draft) -> None:
    cls = _plain_class(p)
    p.keep(
        p.one_of(
            f"{cls}({p.any()})",
            f"[{cls}(1), {cls}(2)]",
            f"types.SimpleNamespace(t={p.any()})",
            f"(lambda o: (o, o))({cls}(3))",
        )
    )


@feature(1)
def object_kept_by_another(p: Draft) -> None:
    cls = _plain_class(p)
    a = p.argument(f"{cls}()", f"{cls}(3)", sort="object" + cls)
    b = p.argument(f"{cls}()", f"{cls}({a})", f"{cls}({cls}(7))", sort="object" + cls)
    p.line(f"{a}.k = 21")
    p.keep(f"x * (getattr({b}.k, 'k', 1))")
