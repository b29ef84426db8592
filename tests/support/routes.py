"""Calls whose route is proven by counts: `routed(fn, x, via="scm")` fails unless a specialization answered that call.

Every call is also made on a twin of the function that no door knows, and the two answers are compared bit for bit."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import types

import torch

import trident_hook
from trident_hook import _compat, _rt

#: CPython 3.11 ignores a function's own vectorcall: there is no call door on plain functions.
DOORS = ("frame", "call", "jit") if _compat.PYTHON >= (3, 12) else ("frame", "jit")


def twin(fn):
    """The same function with a code object of its own: no entry, no Dynamo cache, no call door."""
    if isinstance(fn, types.MethodType):
        return types.MethodType(twin(fn.__func__), fn.__self__)
    fn = getattr(fn, "__wrapped__", fn)
    other = types.FunctionType(fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    other.__kwdefaults__ = fn.__kwdefaults__ and dict(fn.__kwdefaults__)
    other.__qualname__, other.__module__ = fn.__qualname__, fn.__module__
    return other


@contextlib.contextmanager
def doors(name: str, *fns):
    """`door` for several functions at once: a second `enable()` would replace the first."""
    if name == "jit":
        yield tuple(trident_hook.jit(fn) for fn in fns)
        return
    before, trident_hook.config.promote = trident_hook.config.promote, name == "call"
    try:
        with trident_hook.enable(include=list(fns)):
            yield fns
    finally:
        trident_hook.config.promote = before


@contextlib.contextmanager
def door(name: str, fn):
    """Yields the callable whose calls enter through that door: a function that `enable()` serves through the hook
    ("frame") or promoted ("call"), or what `jit` makes ("jit")."""
    with doors(name, fn) as (served,):
        yield served


def counts(fn) -> dict:
    doors = {f"{name}_hits": n for name, n in (trident_hook.explain(fn).doors or {}).items()}
    return {**trident_hook.counts(fn), **doors, **{f"rt_{name}": n for name, n in _rt.counters().items()}}


@contextlib.contextmanager
def counted(fn):
    """Yields a dict that holds, behind the block, what the block added to the counts."""
    before, added = counts(fn), {}
    yield added
    after = counts(fn)
    added.update({name: after[name] - before.get(name, 0) for name in after})


#: via -> what one call adds to hits, misses, errors, bypasses, delegated, python. "python" has three kinds: the record
#: said no ("over"), the state of the thread is not ours to serve ("bypass"), no door asked at all ("alone").
_ROUTES = {
    "scm": [(1, 0, 0, 0, 0, 0)],
    "error": [(0, 0, 1, 0, 0, 0)],
    "dynamo": [(0, 1, 0, 0, 1, 0)],
    "over": [(0, 1, 0, 0, 0, 1)],
    "bypass": [(0, 0, 0, 1, 0, 0)],
    "alone": [(0, 0, 0, 0, 0, 0)],
}
_ROUTES["python"] = [*_ROUTES["over"], *_ROUTES["bypass"], *_ROUTES["alone"]]
_NAMES = ("hits", "misses", "errors", "bypasses", "delegated", "python")


def route_of(added: dict) -> tuple:
    return tuple(added[name] for name in _NAMES)


@dataclasses.dataclass
class Outcome:
    value: object = None
    error: BaseException | None = None

    def __str__(self) -> str:
        return _text(self.value) if self.error is None else f"{type(self.error).__name__}: {self.error}"


def _text(value) -> str:
    if isinstance(value, torch.Tensor):
        first = value.detach().flatten()[:4].tolist() if value.device.type != "meta" else ""
        return f"<{type(value).__name__} {value.dtype} {tuple(value.shape)} by {value.stride()} {first}>"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(_text, value))})"
    return repr(value)


def outcome(fn, args, kwargs) -> Outcome:
    try:
        return Outcome(fn(*args, **kwargs))
    except Exception as error:
        return Outcome(error=error)


def routed(fn, *args, via="scm", reason=None, raises=None, mutates=False, launches=None, **kwargs):
    """Calls `fn`, proves the route, compares with its plain twin, and returns the value (or the error, with `raises`).

    via: "scm", "dynamo", "python" (or one of its kinds, see _ROUTES), "error" (a specialization raised); None where any
        route is right and the test says so.
    reason: text that explain(fn) must name: the guard of the last miss for "dynamo", else anything in it.
    mutates: the twin gets copies of the arguments, which are compared afterwards as well.
    launches: how many native launches the call must make."""
    __tracebackhide__ = True
    twin_args, twin_kwargs = copy.deepcopy((args, kwargs)) if mutates else (args, kwargs)
    expected = outcome(twin(fn), twin_args, twin_kwargs)
    with counted(fn) as added:
        got = outcome(fn, args, kwargs)
    what = _description(fn, added, got, expected)
    assert via is None or route_of(added) in _ROUTES[via], f"not via {via}; {what}"
    if launches is not None:
        assert (added["rt_launch"], added["rt_launch_python"]) == (launches, 0), what
    if raises is not None:
        assert isinstance(expected.error, raises), f"the plain function did not raise {raises}: {expected}"
    assert_same_outcome(got, expected, raises, what)
    if mutates:
        assert same(args, twin_args), f"the arguments differ afterwards; {what}"
        assert same(kwargs, twin_kwargs), f"the arguments differ afterwards; {what}"
    if reason is not None:
        explanation = trident_hook.explain(fn)
        text = explanation.last_miss if via == "dynamo" else str(explanation)
        assert reason in text, f"{reason!r} is not named: {text}"
    return got.error if raises is not None else got.value


def _description(fn, added: dict, got: Outcome, expected: Outcome) -> str:
    explanation = trident_hook.explain(fn)
    return (
        f"{explanation.name}: { ({name: n for name, n in added.items() if n}) }; last miss: {explanation.last_miss}; "
        f"refusals: {explanation.refusals}; {len(explanation.specializations)} specialization(s)\n"
        f"got      {got}\nexpected {expected}"
    )


def assert_same_outcome(got: Outcome, expected: Outcome, raises, what: str) -> None:
    __tracebackhide__ = True
    if raises is None and expected.error is not None:
        raise AssertionError(f"the plain function raised; {what}") from expected.error
    if (got.error is None) != (expected.error is None):
        raise AssertionError(f"only one of them raised; {what}") from (got.error or expected.error)
    if expected.error is None:
        assert same(got.value, expected.value), f"another answer; {what}"
    else:
        assert isinstance(got.error, type(expected.error)), what
        assert str(got.error).splitlines()[0] == str(expected.error).splitlines()[0], what


def warm(fn, *args, **kwargs):
    """Calls until a specialization serves these arguments; that takes two calls with synchronous builds."""
    __tracebackhide__ = True
    routed(fn, *args, via="dynamo", **kwargs)
    return routed(fn, *args, via="scm", **kwargs)


def same(a, b) -> bool:
    """Bit for bit, type for type. Tensors also in layout, dtype, grad and offset."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return _facts(a) == _facts(b) and _bits_equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return a == b or (a != a and b != b)
    if dataclasses.is_dataclass(a):
        return same(vars(a), vars(b))
    return a is b or a == b


def _facts(t: torch.Tensor) -> tuple:
    return (t.shape, t.stride(), t.storage_offset(), t.dtype, t.device, t.requires_grad, t.is_leaf,
            type(t.grad_fn).__name__, t.is_inference(), t.is_conj(), t.is_neg())  # fmt: skip


def _bits_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.device.type == "meta" or a.numel() == 0:
        return True
    a, b = (t.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg().contiguous() for t in (a, b))
    return torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))
