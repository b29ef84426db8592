"""Classes: their attributes, metaclasses, descriptors, and the questions that are asked of them."""

from __future__ import annotations

from ..draft import Draft, feature


@feature(weight=1.5)
def class_attribute(p: Draft) -> None:
    c = p.name("C")
    p.define(f"class {c}:\n    k = 2\n    box = [1]\nclass {c}Sub({c}):\n    pass")
    p.change(f"{c}.k = 5", f"{c}Sub.k = 7", f"{c}.box.append(2)", f"{c}.box = []", f"{c}Sub.__bases__ = ({c},)",
             f"{c}.other = 3")  # fmt: skip
    p.keep(f"x * {c}Sub.k")
    p.keep(f"len({c}.box)")


@feature()
def class_written(p: Draft) -> None:
    c = p.name("C")
    p.define(f"class {c}:\n    last = None\n    n = 0")
    p.line(p.one_of(f"{c}.last = 'called'", f"{c}.n += 1", f"{c}.n = x.shape[0]"))
    p.keep("x * 2")


@feature(11)
def metaclass(p: Draft) -> None:
    m = p.name("Meta")
    p.define(
        f"class {m}(type):\n    k = 2\n    @property\n    def level(cls):\n        return 3\nclass {m}User(metaclass={m}):\n    pass"
    )
    p.change(f"{m}.k = 5", f"{m}.level = 7", f"{m}User.k = 9", f"{m}.level = property(lambda cls: 8)")
    p.keep(f"x * {m}User.{p.one_of('k', 'k', 'level')}")


@feature(6)
def asked_by_isinstance(p: Draft) -> None:
    c, way = p.name("Asked"), p.rng.randrange(3)
    p.define(f"class {c}Plain:\n    pass\n{c}OBJ = {c}Plain()")
    if way == 0:
        p.define(f"class {c}(abc.ABC):\n    pass")
        p.change(f"{c}.register({c}Plain)")
    elif way == 1:
        p.define(f"@typing.runtime_checkable\nclass {c}(typing.Protocol):\n    scale: int")
        p.change(f"{c}OBJ.scale = 1", f"{c}Plain.scale = 2")
    else:
        p.define(f"{c}ANSWER = False\nclass {c}Meta(type):\n    def __instancecheck__(cls, o):\n        return {c}ANSWER\n"
                 f"class {c}(metaclass={c}Meta):\n    pass")  # fmt: skip
        p.change(f"{c}ANSWER = True")
    p.keep(f"x * (3 if isinstance({c}OBJ, {c}) else 2)")


@feature(6)
def names_of_functions(p: Draft) -> None:
    h = p.name("named")
    p.define(f"def {h}(x):\n    'text'\n    return x")
    p.change(f"{h}.__name__ = 'other_name'", f"{h}.__doc__ = 'longer text'", f"{h}.__qualname__ = 'a.b.c'")
    p.keep(f"x * len({h}.{p.one_of('__name__', '__name__', '__doc__', '__qualname__')})")


@feature(6)
def cached_function(p: Draft) -> None:
    """functools.lru_cache answers with what it was asked first."""
    h, g = p.name("cached"), p.glob("2", "SCALE")
    p.define(f"@functools.lru_cache({p.one_of('None', '2')})\ndef {h}(k):\n    return k * {g}")
    p.change(f"{g} = 5", f"{h}.cache_clear()", f"{g} = 7")
    p.keep(f"x * {h}(3)")


@feature()
def property_read(p: Draft) -> None:
    c = p.name("Prop")
    p.define(f"class {c}:\n    def __init__(self, k=2):\n        self._k = k\n    @property\n    def k(self):\n        return self._k * 3\n"
             f"    @functools.cached_property\n    def once(self):\n        return self._k + 1\n"
             f"    def __getattr__(self, name):\n        return 4")  # fmt: skip
    o = p.argument(f"{c}()", f"{c}(3)", sort="object" + c)
    p.change(f"{c}.k = property(lambda self: 1)", f"{c}.k = 9", f"{c}.__getattr__ = lambda self, name: 6")
    p.keep(f"x * {o}.{p.one_of('k', 'once', 'free')}")


@feature()
def slots(p: Draft) -> None:
    c = p.name("Slots")
    p.define(f"class {c}:\n    __slots__ = ('k', 'last')\n    def __init__(self, k=2):\n        self.k = k")
    a, b = (p.argument(f"{c}()", f"{c}(3)", sort="object" + c) for _ in range(2))
    p.line(p.one_of(f"{a}.k = 5", f"{a}.last = {p.any()}"))
    p.keep(f"x * {b}.k")


@feature()
def operators_of_a_class(p: Draft) -> None:
    c = p.name("Num")
    p.define(f"class {c}:\n    def __init__(self, k=2):\n        self.k = k\n    def __add__(self, o):\n        return {c}(self.k + o)\n"
             f"    def __eq__(self, o):\n        return isinstance(o, {c}) and o.k == self.k\n    def __hash__(self):\n        return self.k\n"
             f"    def __bool__(self):\n        return self.k > 2\n    def __len__(self):\n        return self.k\n"
             f"    def __call__(self, x):\n        return x * self.k")  # fmt: skip
    o = p.argument(f"{c}()", f"{c}(3)", sort="object" + c)
    p.keep(p.one_of(f"x * ({o} + 1).k", f"x * (2 if {o} else 3)", f"{o}(x)", f"x * len({o})", f"{o} == {c}(2)"))


@feature()
def dataclass_made(p: Draft) -> None:
    c = p.name("Data")
    p.define(
        f"@dataclasses.dataclass{p.one_of('', '(frozen=True)', '(slots=True)')}\nclass {c}:\n    t: object\n    k: int = 2"
    )
    o = p.argument(f"{c}(1)", f"{c}(x)", f"{c}(1, 3)", sort="object" + c)
    p.keep(p.one_of(f"{c}({p.any()}, {o}.k)", f"dataclasses.replace({o}, k=5)", f"x * {o}.k"))


@feature()
def enums(p: Draft) -> None:
    c = p.name("Colour")
    p.define(f"class {c}({p.one_of('enum.Enum', 'enum.IntEnum')}):\n    RED = 1\n    BLUE = 2")
    a = p.argument(f"{c}.RED", f"{c}.BLUE", "1", sort="enum")
    p.keep(f"x * (2 if {a} is {c}.RED else 3)")
    p.keep(f"{a} == 1")


@feature()
def super_called(p: Draft) -> None:
    c = p.name("Base")
    p.define(
        f"class {c}:\n    def run(self, x):\n        return x * 2\nclass {c}Sub({c}):\n    def run(self, x):\n        return super().run(x) + 1"
    )
    o = p.argument(f"{c}Sub()", f"{c}()", sort="object" + c)
    p.change(f"{c}.run = lambda self, x: x * 5", f"{c}Sub.run = lambda self, x: x * 6")
    p.keep(f"{o}.run(x)")
