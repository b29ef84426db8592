"""Functions of users' own objects: slots, properties, fallbacks, callables, partials, iterators, context managers."""

from __future__ import annotations

import abc
import collections
import functools
import types
import weakref

import numpy
import torch

from .. import elsewhere
from ..places import MISSING, Attribute, Entry, Slot, argument, constants, subject
from ..values import layouts, ramp

X = argument("x", *layouts(4, 6)[:6])


class Slotted:
    __slots__ = ("extra", "gain")

    def __init__(self, gain=2):
        self.gain = gain


SLOTTED = Slotted()


@subject(
    X,
    argument("s", Slotted, lambda: Slotted(3), lambda: Slotted(2.0), lambda: Slotted(True), lambda: None),
    Slot("gain", Attribute(SLOTTED, "gain"), constants(2, 5, 2.0, MISSING)),
    Slot("extra", Attribute(SLOTTED, "extra"), constants(MISSING, 1)),
)
def slots_read(x, s):
    return x * s.gain + SLOTTED.gain


class Guarded:
    def __init__(self, level=2):
        self._level = level

    @property
    def level(self):
        return self._level * 3

    @functools.cached_property
    def once(self):
        return self._level + 1

    def __getattr__(self, name):
        if name.startswith("free"):
            return 7
        raise AttributeError(name)


GUARDED = Guarded()
LEVEL = Guarded.__dict__["level"]


@subject(
    X,
    argument("g", Guarded, lambda: Guarded(5), lambda: Guarded(2.0), lambda: None),
    Slot("_level", Attribute(GUARDED, "_level"), constants(2, 4, 2.0)),
    Slot("own free", Attribute(GUARDED, "free"), constants(MISSING, 1)),
    Slot("level", Attribute(Guarded, "level"), constants(LEVEL, property(lambda self: 1), 9)),
    Slot(
        "fget", Attribute(lambda fn: LEVEL.fget, "__code__"), constants(LEVEL.fget.__code__, (lambda self: 4).__code__)
    ),
    Slot("fallback", Attribute(Guarded, "__getattr__"), constants(Guarded.__getattr__, lambda self, name: 3)),
)
def properties_read(x, g):
    return x * g.level + GUARDED.level + GUARDED.free


@subject(X, argument("g", Guarded, lambda: Guarded(5), lambda: (lambda g: (g.once, g)[1])(Guarded())))
def cached_property_read(x, g):
    return x * g.once


class Callable:
    def __init__(self, a=2):
        self.a = a

    def __call__(self, x):
        return x * self.a


def add_three(x, a=3):
    return x + a


def take_three(x, a=3):
    return x - a


CALLABLE = Callable()
CALL = Callable.__call__


@subject(
    X,
    argument(
        "f",
        lambda: add_three,
        lambda: take_three,
        Callable,
        lambda: Callable(4),
        lambda: functools.partial(add_three, a=5),
        lambda: CALLABLE.__call__,
        lambda: torch.relu,
        lambda: lambda x: x * 11,
        lambda: None,
    ),
    Slot("__call__", Attribute(Callable, "__call__"), constants(CALL, lambda self, x: x)),
    Slot("code", Attribute(lambda fn: add_three, "__code__"), constants(add_three.__code__, take_three.__code__)),
)
def function_given(x, f):
    return f(x) + 1


@subject(
    X,
    argument("f", Callable, lambda: Callable(4), lambda: Callable(2.0), lambda: add_three),
    Slot("__call__", Attribute(Callable, "__call__"), constants(CALL, lambda self, x: x)),
    Slot(
        "code",
        Attribute(lambda fn: CALL, "__code__"),
        constants(CALL.__code__, take_three.__code__),
    ),
)
def callable_given(x, f):
    return f(x) + 1


@subject(
    X,
    argument(
        "f", lambda: CALLABLE.__call__, lambda: Callable(3).__call__, lambda: add_three, lambda: Callable().__call__
    ),
    Slot("a", Attribute(CALLABLE, "a"), constants(2, 6, 2.0)),
)
def bound_method_given(x, f):
    return f(x) - 1


PARTIAL = functools.partial(add_three, a=3)


def _partial(*args, f=add_three, **named):
    return lambda: functools.partial(f, *args, **named)


@subject(
    X,
    argument(
        "p", _partial(a=3), _partial(a=4), _partial(a=3.0), _partial(f=take_three, a=3), _partial(), lambda: add_three
    ),
    Slot(
        "PARTIAL",
        Entry(globals(), "PARTIAL"),
        [lambda: PARTIAL, _partial(a=3), _partial(a=9), _partial(f=take_three, a=3), lambda: take_three],
    ),
    Slot("a", Entry(PARTIAL.keywords, "a"), constants(3, 8, 3.0)),
)
def partials(x, p):
    return p(x) + PARTIAL(x)


class Compared:
    def __init__(self, n=2):
        self.n = n

    def __eq__(self, other):
        return self.n == other

    def __len__(self):
        return self.n

    def __bool__(self):
        return self.n > 1

    def __contains__(self, item):
        return item < self.n

    def __getitem__(self, key):
        return self.n + key

    __hash__ = None


@subject(
    X,
    argument("c", Compared, lambda: Compared(3), lambda: Compared(1), lambda: [1, 2], lambda: Compared(2.0)),
    Slot("__len__", Attribute(Compared, "__len__"), constants(Compared.__len__, lambda self: 9)),
    Slot("__eq__", Attribute(Compared, "__eq__"), constants(Compared.__eq__, lambda self, other: False)),
)
def special_methods(x, c):
    y = x + 1 if c == 2 else x - 1
    y = y * 2 if c else y * 3
    return (y + 1 if 1 in c else y - 1) + c[4] + len(c)


class Shape(abc.ABC):
    @abc.abstractmethod
    def scale(self): ...


class Square(Shape):
    def scale(self):
        return 2


class Round(Shape):
    def scale(self):
        return 3


class Unrelated:
    def scale(self):
        return 5


@subject(X, argument("s", Square, Round, Unrelated, lambda: 2))
def abstract_classes(x, s):
    return x * s.scale() if isinstance(s, Shape) else x


class Parent:
    def grow(self, x):
        return x + 1


GROW = Parent.grow


class Child(Parent):
    def grow(self, x):
        return super().grow(x) * 2


@subject(
    X,
    argument("c", Child, Parent),
    Slot("grow", Attribute(Parent, "grow"), constants(GROW, lambda self, x: x - 5)),
    Slot("code", Attribute(lambda fn: GROW, "__code__"), constants(GROW.__code__, take_three.__code__)),
)
def super_called(x, c):
    return c.grow(x)


class Registry:
    known = [1, 2]
    table = {"a": 1}
    members = {1, 2}


@subject(
    X,
    Slot("known[0]", Entry(Registry.known, 0), constants(1, 7, 1.0, True)),
    Slot("table[a]", Entry(Registry.table, "a"), constants(1, 7, 1.0, MISSING)),
    Slot("table[b]", Entry(Registry.table, "b"), constants(MISSING, 2)),
    Slot(
        "known", Attribute(Registry, "known"), [lambda: Registry.known, lambda: [1, 2], lambda: [9, 2], lambda: (1, 2)]
    ),
)
def containers_of_a_class(x):
    return x * Registry.known[0] + Registry.table["a"] + len(Registry.table)


def counting():
    count = 0

    def counts_in_cell(x):
        nonlocal count
        count += 1
        return x + 1

    return counts_in_cell


COUNTING = counting()
subject(
    X,
    Slot("count", Attribute(COUNTING.__closure__[0], "cell_contents"), constants(0, 1, 5, True)),
    effects=lambda: COUNTING.__closure__[0].cell_contents,
    reset=lambda: setattr(COUNTING.__closure__[0], "cell_contents", 0),
)(COUNTING)


@subject(
    X,
    Slot("gain", Attribute(lambda fn: add_three, "gain"), constants(2, 3, 2.0, MISSING)),
)
def attribute_of_a_function(x):
    return x * add_three.gain


class Holder:
    pass


def _held(value):
    holder = Holder()
    holder.value = value
    holder.me = weakref.ref(holder)
    return holder


@subject(X, argument("h", lambda: _held(2), lambda: _held(3), lambda: _held(2.0), lambda: None))
def weak_reference(x, h):
    return x * h.me().value


@subject(
    X,
    argument(
        "m",
        *(
            lambda d=d: types.MappingProxyType(d)
            for d in ({"a": 2, "b": 3}, {"b": 3, "a": 2}, {"a": 2}, {"a": 2, "b": 3.0})
        ),
        lambda: types.MappingProxyType(collections.OrderedDict(a=2, b=3)),
        lambda: {"a": 2, "b": 3},
    ),
)
def mapping_proxy(x, m):
    for n, (key, value) in enumerate(m.items()):
        x = x * value + n + len(key)
    return x, len(m)


@subject(
    X,
    argument(
        "d",
        lambda: collections.defaultdict(int, a=2),
        lambda: collections.defaultdict(int),
        lambda: collections.defaultdict(int, a=2, missing=5),
        lambda: collections.defaultdict(lambda: 4, a=2),
        lambda: collections.defaultdict(float),
        lambda: {"a": 2},
        lambda: collections.Counter(a=2),
        lambda: collections.Counter(),
    ),
)
def default_dict(x, d):
    return x * d["a"] + d["missing"]


@subject(
    X,
    argument(
        "n", lambda: numpy.arange(3.0), lambda: numpy.arange(4.0), lambda: numpy.arange(3), lambda: [0.0, 1.0, 2.0]
    ),
)
def numpy_given(x, n):
    return x + n[1]


@subject(
    argument(
        "pair",
        lambda: zip((1, 2), (3, 4)),
        lambda: zip((1, 2), (3, 5)),
        lambda: zip((1,), (3,)),
        lambda: [(1, 3), (2, 4)],
    ),
    X,
)
def zipped(pair, x):
    for a, b in pair:
        x = x * a + b
    return x


@subject(
    X,
    argument("key", *constants("a", "b", "z", 1, None)),
    argument("d", lambda: {"a": 2, "b": 3}, lambda: {"a": 2}, lambda: {"a": 2.0, "b": 3}, lambda: {"a": 2, "z": 3}),
)
def fallback_by_exception(x, key, d):
    try:
        return x * d[key]
    except KeyError:
        return x - 1


@subject(X, argument("n", *constants(2, 3, 0, -1, True, 2.0)))
def raises(x, n):
    if n < 1:
        raise ValueError(f"n is {n}")
    assert n != 3, "three"
    return x * n


@subject(
    X, argument("a", lambda: Square(), lambda: SQUARE, lambda: Round()), argument("b", lambda made: made["a"], Square)
)
def same_objects(x, a, b):
    return x * 2 if a is b else x * 3


SQUARE = Square()


@subject(X, argument("h", lambda: SQUARE, Square, lambda: 1))
def identity_number(x, h):
    return x + 1 if id(h) == id(SQUARE) else x - 1


LEAVES = {"a": [1, (2, 3)], "b": 4}


@subject(
    argument(
        "tree",
        lambda: {"a": [ramp(4, 6), (ramp(4, 6), 2)], "b": 3},
        lambda: {"b": 3, "a": [ramp(4, 6), (ramp(4, 6), 2)]},
        lambda: {"a": [ramp(4, 6), (ramp(4, 6), 2.0)], "b": 3},
        lambda: {"a": (ramp(4, 6), (ramp(4, 6), 2)), "b": 3},
        lambda: {"a": [ramp(4, 6), [ramp(4, 6), 2]], "b": 3},
        lambda: {"a": [ramp(4, 6), (ramp(4, 1), 2)], "b": 3},
    )
)
def tree_mapped(tree):
    return torch.utils._pytree.tree_map(lambda leaf: leaf * 2, tree)


@subject(
    X,
    argument(
        "tree", lambda: [2, (3, 4)], lambda: [2, (3, 4.0)], lambda: [2, [3, 4]], lambda: (2, (3, 4)), lambda: {"a": 2}
    ),
)
def tree_flattened(x, tree):
    leaves, _ = torch.utils._pytree.tree_flatten(tree)
    return x * leaves[0] + len(leaves)


KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


@subject(
    X,
    argument(
        "keys",
        lambda: torch._C.DispatchKeySet(torch._C.DispatchKey.CPU),
        lambda: torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA),
        lambda: KEYS | torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU),
        lambda: None,
    ),
)
def dispatch_keys(x, keys):
    return x + 1 if keys.has(torch._C.DispatchKey.CPU) else x - 1


def _marked(*dims):
    def make():
        x = ramp(4, 6)
        for dim in dims:
            torch._dynamo.mark_dynamic(x, dim)
        return x

    return make


@subject(
    argument("x", _marked(0), lambda: ramp(4, 6), _marked(1), _marked(0, 1), lambda: ramp(5, 6), lambda: ramp(4, 7))
)
def marked_dynamic(x):
    return x * x.shape[0]


@subject(X, argument("s", Slotted, lambda: _with_extra(4), lambda: _with_extra(5.0)))
def slot_or_default(x, s):
    try:
        return x * s.extra
    except AttributeError:
        return x - 1


def _with_extra(value):
    slotted = Slotted()
    slotted.extra = value
    return slotted


@subject(X, argument("h", lambda: Holder(), lambda: _held(3), lambda: _held(2.0)))
def attribute_or_default(x, h):
    try:
        return x * h.value
    except AttributeError:
        return x - 1


@subject(X, argument("h", lambda: _held(3), lambda: Holder(), lambda: _held(2.0)))
def asks_attribute(x, h):
    return x * 2 if hasattr(h, "value") else x * getattr(h, "other", 5)


@subject(X, Slot("rate", Attribute(lambda fn: add_three, "rate"), constants(MISSING, 3, 2.0)))
def function_attribute_or_default(x):
    return x * getattr(add_three, "rate", 2)


@subject(X, Slot("share", Attribute(elsewhere, "share"), constants(MISSING, 3, 2.0)))
def module_attribute_or_default(x):
    return x * getattr(elsewhere, "share", 2) if not hasattr(elsewhere, "share") else x - 1


@subject(X, Slot("MAYBE", Entry(globals(), "MAYBE"), constants(MISSING, 3, 2.0)))
def global_or_default(x):
    try:
        return x * MAYBE
    except NameError:
        return x - 1


@subject(X, Slot("MAYBE", Entry(globals(), "MAYBE"), constants(MISSING, 3, 2.0)))
def globals_asked(x):
    return x * globals().get("MAYBE", 5) if "MAYBE" in globals() else x - 1


class Layer(torch.nn.Module):
    pass


def _layer(**attributes):
    def make():
        layer = Layer()
        for name, value in attributes.items():
            setattr(layer, name, value)
        return layer

    return make


@subject(
    X,
    argument(
        "m",
        _layer(),
        _layer(gain=torch.nn.Parameter(ramp(4, 6))),
        _layer(gain=2),
        _layer(gain=torch.nn.Buffer(ramp(4, 6))),
        _layer(other=1),
    ),
)
def module_attribute_of_a_layer(x, m):
    return x * m.gain if hasattr(m, "gain") else x * getattr(m, "other", 3)


@subject(
    X,
    Slot("w", Entry(LEAVES, "w"), [lambda: ramp(4, 6), lambda made: made["x"], lambda: ramp(4, 1), lambda: 2.0]),
)
def global_tensor_in_a_dict(x):
    return x * LEAVES["w"], x is LEAVES["w"]


@subject(argument("xs", lambda: [ramp(4, 6)] * 2, lambda: [ramp(4, 6), ramp(4, 6)], lambda: [ramp(4, 6)]))
def same_tensor_in_a_list(xs):
    xs[0].add_(1)
    return xs[-1] * 2, xs[0] is xs[-1]
