"""Why a call missed: of each specialization the check that failed first, with what it expected and what was there.

Looked at while the call waits (`_core.missed_call()`), and turned into text at once: nothing of the program is kept, none of
its code runs. What reading would run code for is said to be so. Values are read again here, not taken from the guards, so
another thread may have changed one meanwhile; a text is never more than help."""

from __future__ import annotations

import ast
import enum
import functools
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .. import _rt
from ..ir import recipe as r
from ..ir.guard import Guard
from ..ir.kinds import CheckKind, GuardKind, RootKind, StepKind
from ..ir.source import Source
from .safe_text import MISSING, UNREAD, Absent, attribute, key_names, show, show_tensor
from .state_text import differences

_LONG = 40  # what is expected is not written twice when it is longer
_PLAIN_KEYS = (str, bytes, int, bool, float)  # comparing one with a key of a dict runs no code of the program
_DEVICE_TYPES = {_rt.DEVICE_CPU: "cpu", _rt.DEVICE_CUDA: "cuda"}
_FIELDS = {"size": "sizes", "stride": "strides", "storage_offset": "storage_offset"}
_CONSTANTS = {
    GuardKind.NONE: "None",
    GuardKind.NOT_NONE: "anything but None",
    GuardKind.TRUE: "True",
    GuardKind.FALSE: "False",
    GuardKind.FINITE: "a finite float",
}


@dataclass(frozen=True)
class FailedGuard:
    """The failed check of one specialization. `expected` and `seen` are empty where there is nothing to say."""

    specialization: int
    text: str
    expected: str = ""
    seen: str = ""

    def __str__(self) -> str:
        is_told = len(self.expected) > _LONG and self.text.endswith(self.expected)
        values = [f"expected {self.expected}"] if self.expected and not is_told else []
        values += [f"seen {self.seen}"] if self.seen else []
        return f"specialization {self.specialization}: {self.text}" + (f" ({', '.join(values)})" if values else "")


class _View(enum.Enum):
    """How a value is seen that several guards may ask for."""

    WHOLE = enum.auto()
    TYPE = enum.auto()
    LENGTH = enum.auto()


#: Kinds whose expectation is fixed, and which all show the same thing of one source: how it is seen. None: looked at each time.
VIEWS: dict[GuardKind, _View | None] = {
    GuardKind.TENSOR: _View.WHOLE,
    GuardKind.TYPE: _View.TYPE,
    GuardKind.ID: _View.WHOLE,
    GuardKind.EQUALS: _View.WHOLE,
    GuardKind.MEMBERS: _View.WHOLE,
    GuardKind.NONE: _View.WHOLE,
    GuardKind.NOT_NONE: _View.WHOLE,
    GuardKind.TRUE: _View.WHOLE,
    GuardKind.FALSE: _View.WHOLE,
    GuardKind.FINITE: _View.WHOLE,
    GuardKind.NAN: _View.WHOLE,
    GuardKind.LENGTH: _View.LENGTH,
    GuardKind.DICT_LENGTH: _View.LENGTH,
    GuardKind.DICT_CONTAINS: None,
    GuardKind.NO_ATTR: None,
    GuardKind.DISTINCT: None,
    GuardKind.ENV_DISTINCT: None,
    GuardKind.NOT_OF_ENV: None,
    GuardKind.SAME: None,
    GuardKind.SHAPE: None,
    GuardKind.CLASS_FACTS: None,
    GuardKind.PLAIN_CONTEXT: None,
    GuardKind.DEFAULT_DEVICE: None,
    GuardKind.RESIDUAL: None,
}


class MissInspector:
    """Of one module: its specializations and, for each, what every guard number is about.

    A function at its limit looks at every call that is turned away, so looking costs little: what was expected is written
    once, and what is seen once a call, however many specializations ask for it."""

    def __init__(self, specializations: list[Any], checks: list[Any], texts: list[Any]) -> None:
        self._specializations, self._checks, self._texts = specializations, checks, texts
        self._questions: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._slots: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def look(self, failed: Any, call: Any) -> tuple[tuple[Any, ...], ...]:
        """The arguments of a FailedGuard for each specialization. `failed`: per specialization the number of its failed guard;
        `call`: (function, arguments), or None."""
        eyes = None if call is None else _Eyes(*call)
        questions = self._questions
        found: list[tuple[Any, ...]] = []
        for pair in enumerate(failed):
            question = questions.get(pair)
            if question is None:
                question = questions[pair] = self._question(*pair)
            index, text, about, expected, slot = question
            if eyes is None or about is None:
                found.append((index, text))
            elif slot is None:
                found.append((index, text, *eyes.look(self._specializations[index], about)))
            else:
                seen = eyes.seen.get(id(slot))  # one slot object per view and source
                if seen is None:
                    seen = eyes.seen[id(slot)] = eyes.see(slot)
                # Texts may be the same where the values are not; an expected tensor may have sizes that do not matter.
                if seen == expected or (about.kind is GuardKind.TENSOR and "?" in expected):
                    expected, seen = eyes.look(None, about)
                found.append((index, text, expected, seen))
        return tuple(found)

    def is_about(self, failed: tuple[int, int], kind: CheckKind) -> bool:
        """Whether the check (specialization, number) is one of this kind; for what is not a guard."""
        index, number = failed
        checks = self._checks[index] if index < len(self._checks) else ()
        about = checks[number] if 0 <= number < len(checks) else None
        return isinstance(about, tuple) and about[:1] == (kind,)

    def _question(self, index: int, number: int) -> tuple[Any, ...]:
        """(specialization, text of the guard, what it is about, what it expects, what to look at)."""
        texts = self._texts[index] if index < len(self._texts) else ()
        if not 0 <= number < len(texts):
            return index, f"guard {number}", None, "", None
        about = self._checks[index][number]
        view = VIEWS[about.kind] if isinstance(about, Guard) else None
        if view is None:
            return index, texts[number], about, "", None
        slot = (view, about.source)
        slot = self._slots.setdefault((view, about.source.key), slot)
        try:
            expected = _expected(about)
        except Exception as error:
            expected = _trouble(error)
        return index, texts[number], about, expected, slot


def _expected(guard: Guard) -> str:
    kind, arg = guard.kind, guard.arg
    if kind in _CONSTANTS:
        return _CONSTANTS[kind]
    if kind is GuardKind.TENSOR:
        return str(arg)
    return f"length {arg}" if VIEWS[kind] is _View.LENGTH else show(arg.value)


class _Eyes:
    """One missed call: values by source, read once."""

    def __init__(self, function: Any, arguments: tuple[Any, ...]) -> None:
        self.function = function
        code = function.__code__
        self.locals = dict(zip(code.co_varnames, arguments, strict=False))
        self.free = dict(zip(code.co_freevars, function.__closure__ or (), strict=False))
        self.values: dict[Any, Any] = {}
        self.seen: dict[int, str] = {}  # by the identity of a slot

    def see(self, slot: tuple[Any, ...]) -> str:
        """`slot`: how to look, and the source to look at."""
        view, source = slot
        try:
            return _SEEN[view](self.value(source))
        except Exception as error:
            return _trouble(error)

    def look(self, spec: Any, about: Any) -> tuple[str, str]:
        """(expected, seen) of anything. What is said about a miss must not become an error of the program's."""
        try:
            if isinstance(about, Guard):
                return GUARDS[about.kind](self, about)
            return CHECKS[about[0]](self, spec, *about[1:])
        except Exception as error:
            return "", _trouble(error)

    # -- values --------------------------------------------------------------------------------------------------------
    def value(self, source: Source) -> Any:
        """What stands at a source; MISSING, or UNREAD where the program's code would run."""
        key = source.key
        if key not in self.values:
            self.values[key] = self._read(source)
        return self.values[key]

    def _read(self, source: Source) -> Any:
        if source.steps:
            base = self.value(Source(source.root, source.steps[:-1]))
            step, key = source.steps[-1]
            return base if isinstance(base, Absent) else STEPS[step](base, step, key)
        kind = source.root[0]
        if kind == RootKind.GLOBAL:
            return self.function.__globals__
        if kind == RootKind.OBJECT:
            return source.root[1].value
        if kind == RootKind.LOCAL:
            return self._local(source.root[1])
        return MISSING

    def _local(self, name: str) -> Any:
        if name in self.locals:
            return self.locals[name]
        try:
            return self.free[name].cell_contents
        except (KeyError, ValueError):
            return MISSING

    # -- guards, by kind -----------------------------------------------------------------------------------------------
    def _by_view(self, guard: Guard) -> tuple[str, str]:
        view = VIEWS[guard.kind]
        expected, seen = _expected(guard), self.see((view, guard.source))
        return expected, seen if seen != expected else f"another {seen}"

    def _value_alone(self, guard: Guard) -> tuple[str, str]:
        return "", show(self.value(guard.source))

    def _guard_tensor(self, guard: Guard) -> tuple[str, str]:
        value, facts = self.value(guard.source), guard.arg
        return self._keys(value, facts.keys) if _looks_like(value, facts) else (str(facts), show(value))

    def _keys(self, value: Any, expected: int) -> tuple[str, str]:
        """Of a tensor that looks as it should: it is conjugate, negative, or was made in inference mode."""
        words = _rt.state_read()[1]
        read = _rt.tensor_read(value)
        if read is None:
            return "", show(value)
        now, then = key_names(_rt.keys_apply(read["keys"], words)), key_names(expected)
        texts = [", ".join(sorted(names)) or "none" for names in (then - now, now - then)]
        return f"dispatch keys {texts[0]}", f"dispatch keys {texts[1]}"

    def _guard_equals(self, guard: Guard) -> tuple[str, str]:
        return _two(guard.arg.value, self.value(guard.source))

    def _guard_default_device(self, guard: Guard) -> tuple[str, str]:
        import torch.utils._device as device

        return _two(guard.arg.value, device.CURRENT_DEVICE)

    def _guard_dict_contains(self, guard: Guard) -> tuple[str, str]:
        wanted, key = guard.arg
        space = self.value(guard.source)
        if isinstance(space, Absent) or not issubclass(type(space), dict):
            return "a dict", show(space)
        found = dict.get(space, key, MISSING) if type(key) in _PLAIN_KEYS else UNREAD
        return ("a value" if wanted else MISSING.text), show(found)

    def _guard_no_attr(self, guard: Guard) -> tuple[str, str]:
        value = self.value(guard.source)
        return MISSING.text, show(value if isinstance(value, Absent) else attribute(value, guard.arg))

    def _guard_distinct(self, guard: Guard) -> tuple[str, str]:
        first: dict[int, Source] = {}
        for source in guard.arg:
            other = first.setdefault(id(self.value(source)), source)
            if other.key != source.key:
                return "", f"{other} is {source}"
        return "", ""

    def _guard_not_of_env(self, guard: Guard) -> tuple[str, str]:
        return "", ", ".join(f"{source} is {show(self.value(source))}" for source in guard.arg)

    def _guard_same(self, guard: Guard) -> tuple[str, str]:
        return "one object", " and ".join(show(self.value(source)) for source in guard.sources)

    def _guard_class_facts(self, guard: Guard) -> tuple[str, str]:
        kind = self.value(guard.source)
        change = guard.arg.value.change(kind)
        if change is None:
            return "", ""
        name, then, now = change
        expected, seen = _two(then, now)
        return f"{name}: {expected}", f"{name}: {seen}"

    def _guard_shape(self, guard: Guard) -> tuple[str, str]:
        numbers = _numbers_of(guard.arg.text, guard.arg.sources)
        return "", ", ".join(f"{text} = {show(self._number(*how))}" for text, how in numbers.items())

    def _number(self, source: Source, field: str | None, index: int | None) -> Any:
        value = self.value(source)
        return value if field is None else _field(value, field, index)

    # -- what is not a guard ---------------------------------------------------------------------------------------------
    def _of_state(self, spec: Any) -> tuple[str, str]:
        found = differences(spec.state, _rt.state_read()[1])
        return (", ".join(f"{name} {then}" for name, then, _ in found),
                ", ".join(f"{name} {now}" for name, _, now in found))  # fmt: skip

    def _of_globals(self, spec: Any) -> tuple[str, str]:
        names = [space.get("__name__") for space in (spec.globals_.value, self.function.__globals__)]
        expected, seen = (f"those of {show(name)}" for name in names)
        return expected, seen

    def _of_argument(self, spec: Any, name: str) -> tuple[str, str]:
        return "", show(self._local(name))

    def _of_symbols(self, spec: Any) -> tuple[str, str]:
        """An input that is not what the graph takes, or a number that 64 bits do not hold."""
        places = dict.fromkeys(spec.program.inputs[place[1]].expr for place in spec.program.symbols.values())
        seen = [f"{expr} = {show(self._evaluate(expr))}" for expr in places]
        return "numbers of 64 bits" if seen else "", ", ".join(seen)

    def _of_device(self, spec: Any) -> tuple[str, str]:
        device, _, kind = _rt.launch_env()
        return "", f"{_DEVICE_TYPES.get(kind, kind)} device {device}"

    def _of_hooks(self, spec: Any, hooks: Any) -> tuple[str, str]:
        return "", f"{list.__len__(hooks.value)} hook(s)"

    def _of_pointer(self, spec: Any, param: Any) -> tuple[str, str]:
        item = next(item for item in spec.program.inputs if item.name == param.value)
        address = _rt.data_ptr(self._evaluate(item.expr))
        return "", f"an address with remainder {address % 16}"

    def _of_int(self, spec: Any, expr: Any) -> tuple[str, str]:
        symbols = [expr] if expr.is_Symbol else sorted(expr.free_symbols, key=str)
        return "", ", ".join(f"{symbol} = {show(self._symbol(spec, symbol))}" for symbol in symbols)

    def _of_key(self, spec: Any, keys: tuple[Any, ...]) -> tuple[str, str]:
        symbols = dict.fromkeys(s for expr in keys for s in sorted(getattr(expr, "free_symbols", ()), key=str))
        return "", ", ".join(f"{symbol} = {show(self._symbol(spec, symbol))}" for symbol in symbols)

    def _symbol(self, spec: Any, symbol: Any) -> Any:
        kind, index, *dim = spec.program.symbols[symbol]
        value = self._evaluate(spec.program.inputs[index].expr)
        return value if kind == "input" else _field(value, f"{kind}s", dim[0])

    def _evaluate(self, expr: Any) -> Any:
        """A recipe expression that reads an argument."""
        if isinstance(expr, r.Arg):
            return self._local(expr.name)
        if isinstance(expr, r.Const):
            return expr.value
        if isinstance(expr, r.Global):
            return self.function.__globals__.get(expr.name, MISSING)
        if isinstance(expr, (r.SizeOf, r.StrideOf)):
            return _field(self._evaluate(expr.tensor), "sizes" if isinstance(expr, r.SizeOf) else "strides", expr.dim)
        if isinstance(expr, r.OffsetOf):
            return _field(self._evaluate(expr.tensor), "storage_offset", None)
        if isinstance(expr, r.Attr):
            owner = self._evaluate(expr.owner)
            return owner if isinstance(owner, Absent) else attribute(owner, expr.name)
        if isinstance(expr, r.Item) and isinstance(expr.key, r.Const):
            owner = self._evaluate(expr.container)
            return owner if isinstance(owner, Absent) else _item(owner, expr.key.value)
        return UNREAD


#: What is said of a guard of each kind: (expected, seen).
GUARDS: dict[GuardKind, Callable[[_Eyes, Guard], tuple[str, str]]] = {
    GuardKind.TENSOR: _Eyes._guard_tensor,
    GuardKind.TYPE: _Eyes._by_view,
    GuardKind.ID: _Eyes._guard_equals,
    GuardKind.EQUALS: _Eyes._guard_equals,
    GuardKind.MEMBERS: _Eyes._guard_equals,
    GuardKind.NONE: _Eyes._by_view,
    GuardKind.NOT_NONE: _Eyes._by_view,
    GuardKind.TRUE: _Eyes._by_view,
    GuardKind.FALSE: _Eyes._by_view,
    GuardKind.FINITE: _Eyes._by_view,
    GuardKind.NAN: _Eyes._guard_equals,
    GuardKind.LENGTH: _Eyes._by_view,
    GuardKind.DICT_LENGTH: _Eyes._by_view,
    GuardKind.DICT_CONTAINS: _Eyes._guard_dict_contains,
    GuardKind.NO_ATTR: _Eyes._guard_no_attr,
    GuardKind.DISTINCT: _Eyes._guard_distinct,
    GuardKind.ENV_DISTINCT: _Eyes._guard_distinct,
    GuardKind.NOT_OF_ENV: _Eyes._guard_not_of_env,
    GuardKind.SAME: _Eyes._guard_same,
    GuardKind.SHAPE: _Eyes._guard_shape,
    GuardKind.CLASS_FACTS: _Eyes._guard_class_facts,
    GuardKind.PLAIN_CONTEXT: _Eyes._value_alone,
    GuardKind.DEFAULT_DEVICE: _Eyes._guard_default_device,
    GuardKind.RESIDUAL: _Eyes._value_alone,
}
#: The same of what is no guard; behind the specialization comes what the check says of itself.
CHECKS: dict[CheckKind, Callable[..., tuple[str, str]]] = {
    CheckKind.STATE: _Eyes._of_state,
    CheckKind.GLOBALS: _Eyes._of_globals,
    CheckKind.SYMBOLS: _Eyes._of_symbols,
    CheckKind.DEVICE: _Eyes._of_device,
    CheckKind.ARGUMENT: _Eyes._of_argument,
    CheckKind.HOOKS: _Eyes._of_hooks,
    CheckKind.POINTER: _Eyes._of_pointer,
    CheckKind.INT: _Eyes._of_int,
    CheckKind.KEY: _Eyes._of_key,
}


# -- how values are seen -------------------------------------------------------------------------------------------------


def _type(value: Any) -> str:
    return show(value if isinstance(value, Absent) else type(value))


def _length(value: Any) -> str:
    for kind in (list, tuple, dict):
        if issubclass(type(value), kind):
            return f"length {kind.__len__(value)}"
    return show(value)


_SEEN = {_View.WHOLE: show, _View.TYPE: _type, _View.LENGTH: _length}


# -- one step of a source, without running the program's code ------------------------------------------------------------


def _attr_step(base: Any, step: StepKind, key: Any) -> Any:
    return attribute(base, key)


def _dict_step(base: Any, step: StepKind, key: Any) -> Any:
    space = _rt.dict_of(base)
    return MISSING if space is None else space


def _item_step(base: Any, step: StepKind, key: Any) -> Any:
    return _item(base, key)


def _type_step(base: Any, step: StepKind, key: Any) -> Any:
    return type(base)


def _mro_step(base: Any, step: StepKind, key: Any) -> Any:
    return type.__dict__["__mro__"].__get__(base) if issubclass(type(base), type) else UNREAD


def _function_step(base: Any, step: StepKind, key: Any) -> Any:
    return getattr(base, f"__{step}__") if type(base) is types.FunctionType else MISSING


def _place_step(base: Any, step: StepKind, key: Any) -> Any:
    if not issubclass(type(base), dict):
        return UNREAD
    items = list(dict.items(base))
    return items[key][step == StepKind.DICT_VALUE_AT] if key < len(items) else MISSING


def _call_step(base: Any, step: StepKind, key: Any) -> Any:
    return base() if type(base) is weakref.ref else UNREAD


def _unread(base: Any, step: StepKind, key: Any) -> Any:
    return UNREAD


STEPS: dict[StepKind, Callable[[Any, StepKind, Any], Any]] = {
    StepKind.ATTR: _attr_step,
    StepKind.GENERIC_DICT: _dict_step,
    StepKind.SPACE: _dict_step,
    StepKind.DICT_ITEM: _item_step,
    StepKind.TUPLE_ITEM: _item_step,
    StepKind.LIST_ITEM: _item_step,
    StepKind.TYPE: _type_step,
    StepKind.TYPE_DICT: _dict_step,
    StepKind.TYPE_MRO: _mro_step,
    StepKind.CODE: _function_step,
    StepKind.CLOSURE: _function_step,
    StepKind.DEFAULTS: _function_step,
    StepKind.KWDEFAULTS: _function_step,
    StepKind.DICT_KEY_AT: _place_step,
    StepKind.DICT_VALUE_AT: _place_step,
    StepKind.ITEM: _item_step,
    StepKind.CALL: _call_step,
    StepKind.APPLY: _unread,
}


def _item(base: Any, key: Any) -> Any:
    kind = type(base)
    if issubclass(kind, dict):
        return dict.get(base, key, MISSING) if type(key) in _PLAIN_KEYS else UNREAD
    for sequence in (tuple, list):
        if issubclass(kind, sequence) and type(key) is int:
            return sequence.__getitem__(base, key) if key < sequence.__len__(base) else MISSING
    return UNREAD


def _field(tensor: Any, field: str, dim: int | None) -> Any:
    read = None if isinstance(tensor, Absent) else _rt.tensor_read(tensor)
    if read is None:
        return UNREAD
    value = read[field]
    return value if dim is None else value[dim] if dim < len(value) else MISSING


def _trouble(error: Exception) -> str:
    return f"<not to be read: {type(error).__name__}>"


def _looks_like(value: Any, facts: Any) -> bool:
    """All that is written of a tensor is as expected."""
    read = None if type(value) is not facts.type_ else _rt.tensor_read(value)
    if read is None or show_tensor(facts.type_, {**read, "sizes": (), "strides": ()}) != str(
        replace(facts, sizes=(), strides=())
    ):
        return False
    pairs = ((read["sizes"], facts.sizes), (read["strides"], facts.strides))
    return all(len(a) == len(b) and all(n in (m, None) for m, n in zip(a, b, strict=True)) for a, b in pairs)


def _two(expected: Any, seen: Any) -> tuple[str, str]:
    """Texts of two values that are not the same, which say how they differ."""
    texts = show(expected), show(seen)
    if texts[0] != texts[1]:
        return texts
    if type(expected) is type(seen) and type(expected) in (tuple, list) and len(expected) == len(seen):
        for index, (one, other) in enumerate(zip(expected, seen, strict=True)):
            inner = _two(one, other)
            if one is not other and (inner[0] != inner[1] and not inner[1].startswith("another ")):
                return f"[{index}] {inner[0]}", f"[{index}] {inner[1]}"
    return texts[0], f"another {texts[1]}"


@functools.lru_cache(maxsize=256)
def _numbers_of(text: str, sources: tuple[Any, ...]) -> dict[str, tuple[Any, ...]]:
    """What a shape expression reads (`L['x'].size()[0]`, `L['n']`) -> source, field of a tensor, index."""
    found: dict[str, tuple[Any, ...]] = {}
    known = dict(sources)

    def source_of(node: ast.AST) -> Source | None:
        return known.get(ast.unparse(node)) or _local_source(node)

    def visit(node: ast.AST) -> None:
        index: Any = None
        call = node
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            index, call = node.slice.value, node.value
        source = source_of(node) if isinstance(node, (ast.Subscript, ast.Attribute, ast.Name)) else None
        field: str | None = None
        if source is None and isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            source, field = source_of(call.func.value), _FIELDS.get(call.func.attr)
        if source is not None:
            found[ast.unparse(node)] = source, field, index if field else None
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(text, mode="eval").body)
    return found


def _local_source(node: ast.AST) -> Source | None:
    """`L['a'].b`, `L['a']` -> Source."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "L":
        return Source((RootKind.LOCAL, ast.literal_eval(node.slice)), ())
    if isinstance(node, ast.Attribute):
        base = _local_source(node.value)
        return base and base.then(StepKind.ATTR, node.attr)
    return None
