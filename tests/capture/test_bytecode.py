"""Return recipes of code that Dynamo really generated: every recipe is run by the reference interpreter and compared
with eager, values and object identity alike, with and without Dynamo's own bookkeeping in the code."""

from __future__ import annotations

import collections
import dataclasses
import functools
import types
import typing

import pytest
import recipe_reference as reference
import torch
import torch._dynamo
from torch._C._dynamo.eval_frame import set_eval_frame
from torch._dynamo import convert_frame
from torch._dynamo.hooks import Hooks

from trident_hook.capture.return_recipe import analyse
from trident_hook.errors import Unsupported
from trident_hook.ir import recipe as r

# --- capture ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Captured:
    globals: dict
    code: types.CodeType | None = None
    graph: torch.fx.GraphModule | None = None
    graph_name: str | None = None

    def recipe(self) -> r.ReturnRecipe:
        return analyse(self.code, self.graph_name, self.globals)


class Recorder:
    """Given to set_eval_frame: lets Dynamo work and keeps what it made of each frame."""

    def __init__(self) -> None:
        self.frames: list[Captured] = []
        self._torchdynamo_orig_backend = convert_frame.catch_errors_wrapper(
            convert_frame.convert_frame(self._backend, Hooks()), Hooks()
        )

    def _backend(self, graph, example_inputs):
        self.frames[-1].graph, self.frames[-1].graph_name = graph, graph.meta["backend_id"]
        return graph.forward

    def __call__(self, frame, cache_entry, frame_state):
        self.frames.append(Captured(frame.f_globals))
        result = self._torchdynamo_orig_backend(frame, cache_entry, frame_state)
        if result.guarded_code is not None:
            self.frames[-1].code = result.guarded_code.code
        return result


def capture(function, *calls: tuple[tuple, dict]) -> list[Captured]:
    """Everything that Dynamo compiled while `function` was called with each of `calls`."""
    torch._dynamo.reset()
    recorder = Recorder()
    old = set_eval_frame(recorder)
    try:
        for args, kwargs in calls:
            function(*args, **kwargs)
    finally:
        set_eval_frame(old)
    return [frame for frame in recorder.frames if frame.code is not None]


@pytest.fixture(params=[True, False], ids=["recorded", "plain"], autouse=True)
def runtime_overhead(request):
    with torch._dynamo.config.patch(record_runtime_overhead=request.param):
        yield
    torch._dynamo.reset()


# --- comparison ------------------------------------------------------------------------------------------------------


class Same:
    """Compares two worlds: equal values, and objects that are one object here are one object there."""

    def __init__(self) -> None:
        self.partner: dict[int, object] = {}
        self.back: dict[int, object] = {}

    def check(self, a, b, where: str = "") -> None:
        assert type(a) is type(b), f"{where}: {type(a)} is not {type(b)}"
        if a is None or isinstance(a, (int, float, str, torch.dtype, torch.device, type)):
            assert a == b, where
            return
        if isinstance(a, types.FunctionType):
            assert a is b, where
            return
        if id(a) in self.partner or id(b) in self.back:
            assert self.partner.get(id(a)) is b, f"{where}: another object"
            assert self.back.get(id(b)) is a, f"{where}: another object"
            return
        self.partner[id(a)], self.back[id(b)] = b, a
        if isinstance(a, torch.Tensor):
            assert torch.equal(a, b), where
            assert a.stride() == b.stride(), where
        elif isinstance(a, dict):
            assert list(a) == list(b), where
            for key in a:
                self.check(a[key], b[key], f"{where}[{key!r}]")
        elif isinstance(a, (tuple, list)):
            assert len(a) == len(b), where
            for index, (x, y) in enumerate(zip(a, b)):
                self.check(x, y, f"{where}[{index}]")
        elif isinstance(a, (set, slice, range)):
            assert a == b, where
        elif isinstance(a, functools.partial):
            self.check((a.func, a.args, a.keywords), (b.func, b.args, b.keywords), f"{where}.partial")
        elif hasattr(a, "__next__"):
            self.check(list(a), list(b), f"{where}.items")
        else:
            self.check(vars(a), vars(b), f"{where}.__dict__")


def check(function, make_call, *, earlier=()) -> r.ReturnRecipe:
    """Capture `function`, run its last recipe on fresh arguments and compare with eager on equal ones."""
    frames = []
    recipe: r.ReturnRecipe | None = None

    def world(run):
        """Everything that a call leaves behind, starting from the same globals each time."""
        state = {"count": 0, "REGISTRY": {"n": 0}}
        function.__globals__.update(state)
        args, kwargs = make_call()
        result = run(args, kwargs)
        return {
            "args": args,
            "kwargs": kwargs,
            "result": result,
            **{name: function.__globals__[name] for name in state},
        }

    def dynamo(args, kwargs):
        frames.extend(capture(function, *(call() for call in earlier), (args, kwargs)))

    def eager(args, kwargs):
        return function(*args, **kwargs)

    def ours(args, kwargs):
        arguments = reference.bind(function, args, kwargs)
        return reference.run(recipe, frames[-1].graph.forward, arguments, function.__globals__, function)

    world(dynamo)
    recipe = frames[-1].recipe()
    Same().check(world(eager), world(ours))
    return recipe


# --- functions -------------------------------------------------------------------------------------------------------

Point = collections.namedtuple("Point", "a b")
count = 0
REGISTRY = {"n": 0}


class Typed(typing.NamedTuple):
    a: torch.Tensor
    b: int


@dataclasses.dataclass
class Data:
    a: torch.Tensor
    b: int


class Holder:
    scale = 2

    def __init__(self, **attributes) -> None:
        self.__dict__.update(attributes)

    def method(self, x):
        return self.w * x, self

    @classmethod
    def made(cls, x):
        return x * cls.scale, cls.scale

    @staticmethod
    def still(x):
        return [x - 1]

    def __call__(self, x):
        self.seen = x + 1
        return self.seen, x


def single(x):
    return x + 1


def pair(x):
    y = x + 1
    return y, y * 2


def in_list(x):
    return [x + 1, x * 2]


def in_dict(x):
    return {"a": x + 1, "b": [x * 2, 3]}


def input_and_output(x):
    return x, x + 1


def constants(x, n=3):
    return x * n, n + 1, "text", None, 2.5, True, 1, 1.0


def shape(x):
    return x * 2, x.shape[0], x.shape


def number(x):
    return x.view(-1), x.numel() // 2


def point(x):
    return Point(x + 1, 3)


def typed(x):
    return Typed(x + 1, 3)


def data(x):
    return Data(x + 1, 3)


def a_slice(x):
    return slice(0, 3), x + 1


def a_set(x):
    return {1, 2}, x + 1


def nothing(x):
    x.add_(1)


def change_list(x, items):
    items.append(x + 1)
    return x * 2


def change_list_return_old(x, items):
    old = items[0]
    items[0] = x + 1
    return old, items, items[0]


def change_dict(x, d):
    d["new"] = x + 1
    d.pop("old")
    return x * 2


def change_attribute(x, o):
    o.z = x + 1
    return x * 2


def swap_attributes(x, o):
    o.a, o.b = o.b, o.a
    return x + o.a, o.b


def change_global(x):
    global count
    count = count + 1
    return x + count


def change_global_dict(x):
    REGISTRY["n"] += 1
    return x * 2


def in_place(x):
    x.mul_(2)
    return x


def in_place_and_more(x):
    y = x.mul_(2)
    return y, x, x + 1


def views(x):
    return x[0], x.t(), x.view(-1)


def duplicates(x):
    y = x + 1
    return y, y, [y]


def shared_list(x):
    y = [x + 1]
    return y, y, {"y": y}


def nested(x):
    return (x + 1, (x * 2, {"k": (x - 1,)}))


def optional(x, flag=True):
    return (x + 1) if flag else x


def iterator(x):
    return iter((x + 1, x))


def a_range(x):
    return range(3), x + 1


def dtype(x):
    return x.dtype, x.device, x + 1


def item(x):
    return x.sum().item()


def starred(*args, **kw):
    return args[0] + kw["k"], args, kw


def keyword_only(x, *, k, other=None):
    return x + k, k, other


def a_partial(x):
    return functools.partial(single, x + 1)


def an_object(x):
    o = Holder.__new__(Holder)
    o.v = x + 1
    return o


def handled(x):
    try:
        raise ValueError
    except ValueError:
        return x + 1


def inlined_closure(x):
    y = x * 2

    def inner(z):
        return z + y + x

    return inner(x), y


def through_containers(x, items):
    return items["a"][0] + x, items["a"]


def calls_methods(x, o):
    first, same = o.method(x)
    return first, same, Holder.made(x), Holder.still(x)


def no_graph_at_all(x):
    return x


def returned_closure(x):
    y = x + 1

    def inner():
        return y

    return inner


def breaking(x):
    y = x + 1
    print(end="")
    return y * 2


def make_free(scale, offset):
    def free(x):
        return x * scale + offset, offset

    def counting(x):
        nonlocal offset
        offset = offset + 1
        return x + offset

    return free, counting


def tensor(rows: int = 3):
    return torch.arange(rows * rows, dtype=torch.float32).reshape(rows, rows)


CALLS = {
    None: lambda: ((tensor(),), {}),
    change_list: lambda: ((tensor(), [1]), {}),
    change_list_return_old: lambda: ((tensor(), [tensor(), 2]), {}),
    change_dict: lambda: ((tensor(), {"old": 1, "kept": tensor()}), {}),
    change_attribute: lambda: ((tensor(), Holder()), {}),
    swap_attributes: lambda: ((tensor(), Holder(a=tensor(), b=tensor() + 5)), {}),
    starred: lambda: ((tensor(), 2), {"k": tensor(), "l": [1]}),
    keyword_only: lambda: ((tensor(),), {"k": tensor() + 1}),
    through_containers: lambda: ((tensor(), {"a": [tensor(), 1]}), {}),
    calls_methods: lambda: ((tensor(), Holder(w=tensor() + 1)), {}),
}

GOOD = [single, pair, in_list, in_dict, input_and_output, constants, shape, number, point, typed, data, a_slice, a_set]
GOOD += [nothing, change_list, change_list_return_old, change_dict, change_attribute, swap_attributes, change_global]
GOOD += [change_global_dict, in_place, in_place_and_more, views, duplicates, shared_list, nested, optional, iterator]
GOOD += [a_range, dtype, item, starred, keyword_only, a_partial, an_object, handled, inlined_closure]
GOOD += [through_containers, calls_methods]


# --- tests -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", GOOD, ids=lambda function: function.__name__)
def test_recipe_does_what_eager_does(function):
    check(function, CALLS.get(function, CALLS[None]))


@pytest.mark.parametrize("function", [pair, constants, shape, number, views], ids=lambda function: function.__name__)
def test_dynamic_shapes(function):
    def sized(rows):
        return lambda: ((tensor(rows),), {})

    recipe = check(function, sized(5), earlier=[sized(3), sized(4)])
    assert any(isinstance(arg, r.SizeOf) for arg in recipe.graph_args)


def test_dynamic_int_argument():
    def call(rows, n):
        return lambda: ((tensor(rows), n), {})

    recipe = check(constants, call(3, 7), earlier=[call(3, 5), call(3, 6)])
    assert any(isinstance(arg, r.Arg) and arg.name == "n" for arg in recipe.graph_args)


def test_dynamic_float_argument():
    def call(n):
        return lambda: ((tensor(), n), {})

    def scaled(x, n):
        return x * n

    recipe = check(scaled, call(3.5), earlier=[call(1.5), call(2.5)])
    assert "_as_tensor_fullprec" in str(recipe)
    assert not recipe.effects


def test_free_variables():
    for scale in (2, tensor() + 1):
        free, _ = make_free(scale, 3)
        check(free, CALLS[None])


def test_nonlocal_store():
    _, counting = make_free(1, 3)
    (frame,) = capture(counting, CALLS[None]())
    recipe = frame.recipe()  # captured with offset == 3
    assert [str(effect) for effect in recipe.effects] == ["nonlocal offset = 4"]
    _, fresh = make_free(1, 3)
    arguments = reference.bind(fresh, (tensor(),), {})
    result = reference.run(recipe, frame.graph.forward, arguments, globals(), fresh)
    assert torch.equal(result, tensor() + 4)
    assert reference.bind(fresh, (tensor(),), {})["offset"] == 4


def test_bound_method():
    holder = Holder(w=tensor() + 1)
    (frame,) = capture(holder.method, CALLS[None]())
    arguments = {"self": holder, "x": tensor()}
    result = reference.run(frame.recipe(), frame.graph.forward, arguments, globals())
    assert torch.equal(result[0], holder.w * tensor())
    assert result[1] is holder


def test_attribute_stored_by_a_method():
    check(Holder.__call__, lambda: ((Holder(), tensor()), {}))


@pytest.mark.parametrize(("function", "slug"), [(returned_closure, "closure"), (breaking, "graph-break")])
def test_refused(function, slug):
    with pytest.raises(Unsupported) as refusal:
        capture(function, CALLS[None]())[0].recipe()
    assert refusal.value.slug == slug
    assert refusal.value.detail


def test_code_behind_a_graph_break_is_ordinary():
    frames = capture(breaking, CALLS[None]())
    assert len(frames) == 2
    assert str(frames[1].recipe()) == "out = graph(y)\nreturn out[0]"


def test_no_graph_no_code():
    assert capture(no_graph_at_all, CALLS[None]()) == []


def test_recipes_outlive_dynamos_globals():
    """Dynamo deletes the globals of a code object with its cache entry; a recipe must not look for them."""
    (frame,) = capture(a_range, CALLS[None]())
    recipe = frame.recipe()
    torch._dynamo.reset()
    names = [node.name for node in r.walk(*recipe.effects, recipe.result) if isinstance(node, r.Global)]
    assert names == []


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (duplicates, "out = graph(x)\nreturn (out[0], out[0], [out[0]])"),
        (shared_list, "out = graph(x)\nt0 = [out[0]]\nreturn (t0, t0, {'y': t0})"),
        (change_attribute, "out = graph(x)\no.z = out[1]\nreturn out[0]"),
        (
            data,
            "out = graph(x)\nt0 = global Data\nt1 = t0.__new__(t0, out[0], 3)\nt1.a = out[0]\nt1.b = 3\nreturn t1",
        ),
    ],
)
def test_printed_recipe(function, text):
    frame = capture(function, CALLS.get(function, CALLS[None])())[-1]
    assert str(frame.recipe()) == text


def test_identity_of_nodes():
    recipe = capture(duplicates, CALLS[None]())[0].recipe()
    first, second, (third,) = recipe.result.items[0], recipe.result.items[1], recipe.result.items[2].items
    assert first is second is third
