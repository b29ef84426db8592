"""Symbolic evaluation of code that this interpreter's own compiler makes. Needs neither torch nor pytest, so that
test_bytecode_versions.py can run it on every supported CPython that is installed: opcodes differ, recipes must not.

Usage: python plain_bytecode.py CHECKOUT"""

from __future__ import annotations

import sys
import types
from pathlib import Path


def _import_from(checkout: Path):
    package = types.ModuleType("trident_hook")  # the real one asks for torch
    package.__path__ = [str(checkout / "trident_hook")]
    sys.modules["trident_hook"] = package
    sys.path.insert(0, str(Path(__file__).parent))
    import recipe_reference

    from trident_hook.capture.return_recipe import analyse
    from trident_hook.errors import Unsupported

    return analyse, Unsupported, recipe_reference


class Thing:
    def __init__(self, **attributes) -> None:
        self.__dict__.update(attributes)

    def method(self, *args, **kwargs):
        return (self, args, kwargs)


def helper(*args, **kwargs):
    return [args, kwargs]


def replace_first(values):
    values[0] = "replaced"


counter = 0


def several(x, y):
    out = graph(x, y)
    return out[0], [out[1], x], {"k": (out[0],), "x": x}, {1, 2}, slice(1, y), None


def unpacked(x, y):
    a, b = graph(y)
    return b, a, y


def constant(x, y):
    graph(x)
    return None


def called(x, y):
    out = graph(x)
    return helper(out[0], y, k=x), helper(), helper(*(x, y)), helper(*[x], **{"z": y})  # noqa: PIE804


def methods(x, y):
    out = graph(x.value)
    return x.method(out[0]), x.method(out[0], k=y), x.method


def displays(x, y):
    out = graph(x)
    return [*(1, 2, 3), out[0]], {**{"a": x}, "b": y}, (*[x, y],)  # noqa: PIE800


def attributes(x, y):
    out = graph(x)
    before = x.value
    x.value = out[0]
    x.other = y
    del x.gone
    return before, x.value


def items(x, y):
    out = graph(x)
    old = y[0]
    y[0] = out[0]
    del y[1]
    return old, y[0], y


def swapped(x, y):
    out = graph(x)
    x, y = y, x
    x, y, z = y, out[1], x
    return x, y, z


def shared(x, y):
    out = graph(x)
    fresh = [out[0]]
    return fresh, (fresh, fresh), fresh[0]


def changed_after(x, y):
    out = graph(x)
    fresh = [out[0]]
    replace_first(fresh)
    return fresh[0]


def globally(x, y):
    global counter
    out = graph(x)
    old = counter
    counter = out[0]
    return old, counter, len


def keyword_only(x, *rest, y, **others):
    out = graph(x, y)
    return out[0], rest, others


def iterated(x, y):
    out = graph(x)
    return list(iter((out[0], y)))


def closure(x, y):
    out = graph(x)
    return lambda: out


def captured(x, y):
    def inner():
        return x, y

    return graph(x), inner


def graph_break(x, y):
    out = graph(x)
    return __resume_at_10_1(out[0])  # noqa: F821


def twice(x, y):
    return graph(x)[0], graph(y)[0]


def other_graph(x, y):
    return graph(x)[0], __compiled_fn_9(y)[0]  # noqa: F821


def escaping(x, y):
    return graph(x)


def branching(x, y):
    out = graph(x)
    return x if y else out[0]


def no_graph(x, y):
    return x


def early_effect(x, y):
    x.value = 1
    return graph(x)[0]


def early_call(x, y):
    z = helper(x)
    return graph(z)[0]


def early_read(x, y):
    z = x.value
    return graph(x)[0], z


def guarded(x, y):
    try:
        return graph(x)[0]
    except ValueError:
        return y


def generating(x, y):
    yield graph(x)[0]


def added(x, y):
    return graph(x)[0] + y


def unbound(x, y):
    out = graph(x)
    del x
    return x, out[0]  # noqa: F821


def missing(x, y):
    return graph(x)[0], nowhere_to_be_found  # noqa: F821


def make_read_late(cell):
    def read_late(x, y):
        out = graph(x)
        helper(y)
        return out[0], cell

    return read_late


def make_free(cell):
    def free(x, y):
        nonlocal cell
        out = graph(x, cell)
        cell = out[0]
        return cell, y

    return free


def graph(*inputs):
    return [("out 0", *inputs), ("out 1", *inputs)]


GOOD = (
    several,
    unpacked,
    constant,
    called,
    methods,
    displays,
    attributes,
    items,
    swapped,
    shared,
    changed_after,
    globally,
)
GOOD += (iterated,)
REFUSED = {
    closure: "closure",
    captured: "closure",
    graph_break: "graph-break",
    twice: "two-graph-calls",
    other_graph: "other-graph",
    escaping: "graph-output-escapes",
    branching: "bytecode:",
    no_graph: "no-graph-call",
    early_effect: "effect-before-graph",
    early_call: "effect-before-graph",
    early_read: "early-read",
    guarded: "exception-table",
    generating: "",  # how depends on the version
    added: "bytecode:BINARY_OP",
    unbound: "bytecode:",
    missing: "global-missing",
    make_read_late(1): "closure",  # `helper` may have changed it
}


def arguments():
    thing, old = Thing(value="value", gone=1), ["old"]
    return {items: (thing, [old, 1, 2]), None: (thing, old)}


def text(value, names: dict) -> str:
    """A value with its identities: things and lists are numbered as they are met."""
    if isinstance(value, (list, Thing)):
        if id(value) in names:
            return f"#{names[id(value)]}"
        names[id(value)] = len(names)
        inside = vars(value).items() if isinstance(value, Thing) else value
        return f"{type(value).__name__} #{names[id(value)]} [{', '.join(text(item, names) for item in inside)}]"
    if isinstance(value, tuple):
        return f"({', '.join(text(item, names) for item in value)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {text(item, names)}' for key, item in value.items())}}}"
    if isinstance(value, types.MethodType):
        return f"method {value.__name__} of {text(value.__self__, names)}"
    return repr(value)


def main(checkout: str) -> None:
    analyse, Unsupported, reference = _import_from(Path(checkout))
    module = globals()
    module["__compiled_fn_9"] = module["__resume_at_10_1"] = graph

    def compare(function, *args, **kwargs):
        recipe = analyse(function.__code__, "graph", module)
        module["counter"] = 0
        args, plain_args = args[0](), args[0]()
        expected = function(*plain_args, **kwargs)
        wanted = text((plain_args, expected, module["counter"]), {})
        module["counter"] = 0
        got = reference.run(recipe, graph, reference.bind(function, args, kwargs), module, function)
        seen = text((args, got, module["counter"]), {})
        assert seen == wanted, f"{function.__name__}:\n{recipe}\n{seen}\n{wanted}"

    def refused(function):
        try:
            analyse(function.__code__, "graph", module)
        except Unsupported as refusal:
            return refusal

    for function in GOOD:
        compare(function, lambda function=function: arguments().get(function) or arguments()[None])
    compare(keyword_only, lambda: (1, 2, 3), y=4, z=5)

    free, twin = make_free("cell"), make_free("cell")
    recipe = analyse(free.__code__, "graph", module)
    assert free(1, 2) == reference.run(recipe, graph, reference.bind(twin, (1, 2), {}), module, twin)
    assert free.__closure__[0].cell_contents == twin.__closure__[0].cell_contents != "cell"

    for function, slug in REFUSED.items():
        refusal = refused(function)
        assert refusal is not None, f"{function.__name__} was not refused"
        assert refusal.slug.startswith(slug), f"{function.__name__}: {refusal}"
        assert str(refusal).startswith(refusal.slug)
    print(f"{len(GOOD) + 2} recipes, {len(REFUSED)} refusals on {sys.version.split()[0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
