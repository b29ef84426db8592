"""Lists, dicts, sets, tuples and their relatives: read, changed, returned, aliased."""

from __future__ import annotations

from ..draft import Draft, feature

_LIST = ("[1, 2]", "[1]", "[]", "[1, 2, 3]", "[1, 2.0]", "(1, 2)")
_DICT = ("{'k': 2}", "{'k': 3}", "{'k': 2, 'l': 1}", "{'l': 1, 'k': 2}", "{'k': 2.0}", "{'k': True}")


@feature(weight=1.5)
def list_read(p: Draft) -> None:
    a = p.argument(*_LIST, sort="list")
    p.keep(f"x * sum({a})")
    p.keep(p.one_of(f"len({a})", f"{a}[:1]", f"list({a})", f"1 in {a}", a, f"[i * 2 for i in {a}]"))


@feature(1, weight=1.5)
def two_lists(p: Draft) -> None:
    a, b = p.argument("[]", "[1]", sort="list"), p.argument("[]", "[1]", "[3, 4]", sort="list")
    p.line(f"{a}.append({p.number()})", p.one_of(f"{b}.append(1)", f"{b}.extend([1, 2])", f"{b} += [5]", "pass"))
    p.keep(f"x * len({b})")


@feature(1)
def two_dicts(p: Draft) -> None:
    a, b = p.argument(*_DICT, sort="dict"), p.argument(*_DICT, sort="dict")
    p.line(f"{a}['k'] = {p.number() + 10}")
    p.keep(f"x * {b}['k']")
    p.keep(p.one_of(f"{a} is {b}", f"{a} == {b}", f"len({a})"))


@feature(1)
def one_list_in_two_places(p: Draft) -> None:
    a = p.argument("[[1], [1]]", "(lambda l: [l, l])([1])", "[[1], [2]]", sort="lists")
    p.line(f"{a}[0].append(7)")
    p.keep(f"x * len({a}[1])")
    p.keep(f"{a}[0] is {a}[1]")


@feature(1)
def member_of_a_list(p: Draft) -> None:
    a = p.glob("[object(), object()]")
    b = p.argument(f"{a}[0]", "object()", f"{a}[1]", "None", sort="item")
    p.keep(f"x * ({p.one_of(f'{b} in {a}', f'{b} is {a}[0]', f'{a}[-1] is {b}')} + 2)")


@feature(weight=1.5)
def dict_read(p: Draft) -> None:
    d = p.argument(*_DICT, sort="dict")
    p.keep(f"x * {d}['k']")
    p.keep(
        p.one_of(
            f"list({d})", f"{d}.get('l')", f"'l' in {d}", f"sorted({d}.items())", f"{{**{d}}}", f"tuple({d}.values())"
        )
    )


@feature(weight=1.5)
def dict_written(p: Draft) -> None:
    d = p.argument(*_DICT, sort="dict")
    p.line(
        p.one_of(
            f"{d}['new'] = {p.any()}", f"{d}.update(k=9)", f"{d}.setdefault('l', 4)", f"{d}.pop('k')", f"{d}['k'] += 1"
        )
    )
    p.keep(f"len({d})")


@feature(9)
def ordered_dict(p: Draft) -> None:
    d = p.argument("collections.OrderedDict(a=1, b=2, c=3)", "collections.OrderedDict(b=2, a=1)", sort="ordered")
    p.line(
        p.one_of(
            f"{d}.move_to_end('a')", f"{d}.move_to_end('b', last=False)", f"{d}.popitem(last=False)", f"{d}['z'] = 1"
        )
    )
    p.keep(p.one_of(f"list({d})", d, f"x * next(iter({d}.values()))"))


@feature(9)
def named_tuple(p: Draft) -> None:
    cls = p.name("Pair")
    p.define(p.one_of(f"{cls} = collections.namedtuple('{cls}', 'left right')",
                      f"class {cls}(typing.NamedTuple):\n    left: object\n    right: object = 3"))  # fmt: skip
    a = p.argument(f"{cls}(1, 2)", f"{cls}(2, 1)", f"{cls}(x, 2)", sort="pair")
    p.keep(
        p.one_of(f"{a}._replace(right=5)", f"{cls}(x, {a}.left)", f"{a}.left", f"{a}._asdict()", f"{cls}._make({a})", a)
    )
    p.keep(p.one_of(f"len({a})", f"{a}[1]", f"{a} + (1,)", f"type({a}) is {cls}"))


@feature()
def sets(p: Draft) -> None:
    s = p.argument("{1, 2}", "{1}", "set()", "{2, 1, 3}", sort="set")
    p.line(p.one_of(f"{s}.add(9)", f"{s}.discard(1)", "pass"))
    p.keep(f"x * len({s})")
    p.keep(f"1 in {s}")


@feature()
def global_list(p: Draft) -> None:
    g = p.glob("[1, 2]", "LIST")
    p.change(f"{g}.append(3)", f"{g}[0] = 5", f"{g} = [7]", f"{g}.clear()", f"{g} = (1, 2)")
    p.keep(f"x * sum({g})")


@feature()
def global_dict(p: Draft) -> None:
    g = p.glob("{'k': 2}", "DICT")
    p.change(f"{g}['k'] = 5", f"{g}['n'] = 1", f"{g} = {{'k': 2.5}}", f"{g}['k'] = torch.ones(3, 4)")
    p.keep(f"x * {g}['k']")
    p.keep(f"len({g})")


@feature(weight=1.5)
def built_containers(p: Draft) -> None:
    t = p.any()
    p.keep(p.one_of(f"[{t}, {t}]", f"{{'t': {t}, 'n': 1}}", f"[({t}, 1), ({t}, 2)]", f"(lambda l: [l, l])([{t}])",
                    f"dict(a={t}, b=[{t}])", f"collections.OrderedDict(a={t})", f"collections.deque([{t}], 3)",
                    f"collections.defaultdict(list, a=[{t}])", f"{{1, 2, {p.number()}}}"))  # fmt: skip


@feature()
def unpacked(p: Draft) -> None:
    a = p.argument("(1, 2)", "[3, 4]", "(x, 2)", "(1, 2.5)", sort="two")
    first, second = p.name("u"), p.name("u")
    p.line(f"{first}, {second} = {a}")
    p.keep(f"x * {first} + {second}")


@feature()
def iterated(p: Draft) -> None:
    a = p.argument("[1, 2]", "range(3)", "{'p': 1}.values()", "'ab'", "enumerate([4, 5])", "()", sort="iterable")
    n = p.name("n")
    p.line(f"{n} = 0")
    with p.block(f"for {p.name('i')} in {a}:"):
        p.line(f"{n} += 1")
    p.keep(f"x + {n}")


@feature(1)
def deque_written(p: Draft) -> None:
    a, b = (p.argument("collections.deque([1], 3)", "collections.deque([2, 3], 3)", sort="deque") for _ in range(2))
    p.line(f"{a}.append(5)", f"{b}.appendleft(6)")
    p.keep(f"x * len({b})")
