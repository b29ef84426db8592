"""Records all that can be reached from some roots: contents, classes, who holds whom. A record stays true when the objects change.

Objects are known by identity, and kept alive by the record, so that two records of the same world, or of two worlds, can be
laid side by side. What belongs to Python, PyTorch or Triton itself is a leaf."""

from __future__ import annotations

import collections
import enum
import functools
import struct
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch

from . import tensors

#: Roots of modules whose functions, classes and objects are not the program's.
_NOT_OURS = sys.stdlib_module_names - {"__main__"} | {"torch", "triton", "numpy", "trident_hook", "Cython", "tvm_ffi"}
_PLAIN = (type(None), bool, int, str, bytes, type(Ellipsis), type(NotImplemented), range, torch.dtype, torch.device,
          torch.layout, torch.memory_format)  # fmt: skip
_LEAVES = (types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.FrameType, types.GeneratorType,
           types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)  # fmt: skip
_NOT_OF_A_CLASS = {"__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__", "__abstractmethods__",
                   "_abc_impl", "__firstlineno__", "__static_attributes__", "__parameters__", "__match_args__",
                   "__dataclass_fields__", "__dataclass_params__", "__orig_bases__", "__annotate__",
                   "_backward_cls"}  # fmt: skip
_MARKS = "_dynamo_"  # Dynamo's notes on tensors and modules
_HIDDEN = {"__builtins__", "__warningregistry__", "__annotations__"}


MISSING = object()


class TooMuch(Exception):
    """More objects can be reached than are to be recorded."""


class Node:
    """One object at the time of the record. `facts` are compared as they are, `parts` are objects of the record, each with the
    words that lead to it; `kept` is what restoring needs."""

    __slots__ = ("facts", "kept", "kind", "parts", "value")

    def __init__(self, value: Any, kind: str, facts: tuple = (), parts: tuple = (), kept: Any = None) -> None:
        self.value, self.kind, self.facts, self.parts, self.kept = value, kind, facts, parts, kept


class Snapshot:
    """The nodes of all that `roots` (name -> object) reach, by the id of the object."""

    def __init__(self, roots: dict[str, Any], most: int = 200_000, contents: bool = False) -> None:
        self.roots = dict(roots)
        self.nodes: dict[int, Node] = {}
        self._contents = contents  # whole storages are copied as well, for `restore`
        self._storages: dict[int, tensors.Storage] = {}
        todo = list(self.roots.values())
        while todo:
            value = todo.pop()
            if id(value) in self.nodes or is_plain(value):
                continue
            if len(self.nodes) >= most:
                raise TooMuch(f"more than {most} objects")
            node = self.nodes[id(value)] = self._node(value)
            todo += [part for _, part in node.parts]

    def node(self, value: Any) -> Node | None:
        """None for what is compared by its value alone."""
        return self.nodes.get(id(value))

    def _node(self, value: Any) -> Node:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, tensors.Storage):
            return Node(value, "storage", (value.size,))
        for kinds, opener in _OPENERS:
            if isinstance(value, kinds):
                return opener(value)
        return _instance(value)

    def _tensor(self, value: torch.Tensor) -> Node:
        facts, storage = tensors.facts(value), None
        parts: list[tuple[str, Any]] = [(".__class__", type(value))]
        key = tensors.storage_key(value)
        if key is not None:
            storage = self._storages.get(key)
            if storage is None:
                storage = self._storages[key] = tensors.Storage(value, self._contents)
            parts.append((".untyped_storage()", storage))
        if value.is_leaf or value.retains_grad:
            parts.append((".grad", value.grad))
        if not value.is_inference() and value._is_view():
            parts.append(("._base", value._base))
        attributes = {name: part for name, part in vars(value).items() if not name.startswith(_MARKS)}
        parts += [(f".{name}", part) for name, part in attributes.items()]
        kept = (attributes, value.grad if value.is_leaf else None, value.grad_fn)
        return Node(value, "tensor", facts, tuple(parts), kept)


def is_plain(value: Any) -> bool:
    """Known by its value alone, never by its identity."""
    return type(value) in _PLAIN or type(value) in (float, complex, frozenset) or value is type


def plain_fact(value: Any) -> Any:
    """What is compared of a plain value: numbers bit for bit, and True is no 1."""
    if type(value) is float:
        return float, struct.pack("d", value)
    if type(value) is complex:
        return complex, struct.pack("dd", value.real, value.imag)
    if type(value) is frozenset:
        return frozenset, frozenset(value)
    return type(value), value


def is_the_programs(value: Any) -> bool:
    """Whether a function or class was not defined by Python, PyTorch or another library that this is about."""
    module = getattr(value, "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] not in _NOT_OURS


def _leaf(value: Any) -> Node:
    return Node(value, "leaf", (type(value), value))


def _slot(value: types.MemberDescriptorType) -> Node:
    return Node(value, "leaf", (value.__name__,))


def _member(value: enum.Enum) -> Node:
    return Node(value, "member", (value._name_,), _class_of(value))


def _sequence(value: Any) -> Node:
    items = list(tuple.__iter__(value) if isinstance(value, tuple) else iter(value))
    parts = [(f"[{number}]", item) for number, item in enumerate(items)]
    attributes = _attributes(value)
    kept = (items, attributes)
    return Node(value, "sequence", (len(items),), (*_class_of(value), *parts, *_named(attributes)), kept)


def base_of(value: Any) -> Any:
    """The class whose own methods read a mapping: an OrderedDict keeps its order apart, where `dict.items` does not look."""
    return collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict


def _mapping(value: Any) -> Node:
    items = [(key, part) for key, part in base_of(value).items(value) if not (isinstance(key, str) and key in _HIDDEN)]
    parts: list[tuple[str, Any]] = []
    for number, (key, part) in enumerate(items):
        if not is_plain(key):
            parts.append((f" (key {number})", key))
        parts.append((f"[{_short(key)}]", part))
    facts = tuple(plain_fact(key) if is_plain(key) else "object" for key, _ in items)
    attributes = _attributes(value)
    kept = (dict(base_of(value).items(value)), attributes)
    return Node(value, "mapping", facts, (*_class_of(value), *parts, *_named(attributes)), kept)


def _set(value: Any) -> Node:
    plain = frozenset(plain_fact(item) for item in value if is_plain(item))
    return Node(value, "set", (len(value), plain), _class_of(value), (set(value), _attributes(value)))


def _function(value: types.FunctionType) -> Node:
    if not is_the_programs(value):
        return Node(value, "leaf", (value.__module__, value.__qualname__, value.__code__.co_code))
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=False)
    names = names_of(value.__code__)
    variables = {name: value.__globals__[name] for name in sorted(names) if name in value.__globals__}
    inside = [
        (module, name) for module in variables.values() if isinstance(module, types.ModuleType) and is_the_programs_module(module)
        for name in sorted(names) if name in vars(module)
    ]  # fmt: skip
    parts = [
        (".__defaults__", value.__defaults__), (".__kwdefaults__", value.__kwdefaults__),
        *((f" (variable {name})", cell) for name, cell in cells),
        *((f".{name}", part) for name, part in vars(value).items()),
        *((f" (global {name})", part) for name, part in variables.items()),
        *((f" ({module.__name__}.{name})", vars(module)[name]) for module, name in inside),
    ]  # fmt: skip
    places = [(value.__globals__, name, value.__globals__.get(name, MISSING)) for name in names]
    places += [(vars(module), name, vars(module)[name]) for module, name in inside]
    kept = (value.__defaults__, value.__kwdefaults__, value.__code__, dict(vars(value)), places)
    facts = (value.__name__, value.__code__.co_code, tuple(variables))
    return Node(value, "function", facts, tuple(parts), kept)


@functools.lru_cache(maxsize=4096)
def names_of(code: types.CodeType) -> frozenset[str]:
    """All names that the code and what is defined in it look up."""
    inner = (names_of(part) for part in code.co_consts if isinstance(part, types.CodeType))
    return frozenset(code.co_names).union(*inner)


def is_the_programs_module(module: types.ModuleType) -> bool:
    return module.__name__.partition(".")[0] not in _NOT_OURS


def _cell(value: types.CellType) -> Node:
    try:
        return Node(value, "cell", ("full",), (("", value.cell_contents),), (value.cell_contents,))
    except ValueError:
        return Node(value, "cell", ("empty",), (), ())


def _class(value: type) -> Node:
    if not is_the_programs(value):
        return _leaf(value)
    own = {
        name: part for name, part in vars(value).items() if name not in _NOT_OF_A_CLASS and not name.startswith("_abc")
    }
    parts = [(".__mro__", value.__mro__), *((f".{name}", part) for name, part in own.items())]
    if type(value) is not type:
        parts.append((".__class__", type(value)))
    return Node(value, "class", (value.__name__, tuple(own)), tuple(parts), own)


def _array(value: numpy.ndarray) -> Node:
    facts = (value.dtype.str, value.shape, value.strides, value.tobytes() if not value.dtype.hasobject else None)
    return Node(value, "array", facts, (), value.copy())


def _method(value: types.MethodType) -> Node:
    return Node(value, "method", (), ((".__func__", value.__func__), (".__self__", value.__self__)))


def _wrapped(value: Any) -> Node:
    names = {property: ("fget", "fset", "fdel"), functools.partial: ("func", "args", "keywords")}
    found = next((names[cls] for cls in names if isinstance(value, cls)), ("__func__",))
    return Node(value, "wrapped", (type(value).__name__,), tuple((f".{name}", getattr(value, name)) for name in found))


def _generator(value: torch.Generator) -> Node:
    return Node(value, "generator", (bytes(value.get_state().tolist()),), (), value.get_state())


def _instance(value: Any) -> Node:
    """An object of a class without an opener of its own: its attributes."""
    root = str(getattr(type(value), "__module__", "")).partition(".")[0]
    if root == "triton" or (root == "torch" and not isinstance(value, (torch.nn.Module, torch.optim.Optimizer))):
        return _leaf(value) if root == "triton" else Node(value, "leaf", (type(value).__name__,))
    attributes = _attributes(value)
    if attributes is None:
        return Node(value, "opaque", (type(value).__name__,), _class_of(value))
    facts: tuple = tuple(attributes)
    parts = [*_class_of(value), *_named(attributes)]
    if isinstance(value, (int, float, complex, str, bytes)):
        facts += (plain_fact(_base_value(value)),)
    if isinstance(value, BaseException):
        parts.append((".args", value.args))
    return Node(value, "instance", facts, tuple(parts), attributes)


def _base_value(value: Any) -> Any:
    base = next(base for base in (bool, int, float, complex, str, bytes) if isinstance(value, base))
    return base.__new__(base, value) if base is not complex else complex(value.real, value.imag)  # type: ignore[type-var] # the base is the value's own


def _attributes(value: Any) -> dict | None:
    """Those in `__dict__` and in slots. None where there are neither."""
    found: dict = {}
    has_any = False
    for name in _slots(type(value)):
        has_any = True
        try:
            found[name] = object.__getattribute__(value, name)
        except AttributeError:
            continue
    try:
        own = object.__getattribute__(value, "__dict__")
        found.update({name: part for name, part in own.items() if not str(name).startswith(_MARKS)})
    except (AttributeError, TypeError):
        return found if has_any else None
    return found


def _slots(cls: type) -> Iterator[str]:
    for base in cls.__mro__:
        names = vars(base).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name in ("__dict__", "__weakref__"):
                continue
            yield f"_{base.__name__.lstrip('_')}{name}" if name[:2] == "__" and name[-2:] != "__" else name


def _named(attributes: dict | None) -> list:
    return [(f".{name}", part) for name, part in (attributes or {}).items()]


def _class_of(value: Any) -> tuple:
    return ((".__class__", type(value)),)


def _short(key: Any) -> str:
    return repr(key)[:60] if is_plain(key) else type(key).__name__


_OPENERS: tuple[tuple[Any, Callable[[Any], Node]], ...] = (
    (types.MemberDescriptorType, _slot),
    (enum.Enum, _member),
    (_LEAVES, _leaf),
    (type, _class),
    ((list, tuple, collections.deque), _sequence),
    (dict, _mapping),
    (set, _set),
    (types.FunctionType, _function),
    (types.CellType, _cell),
    (types.MethodType, _method),
    ((property, staticmethod, classmethod, functools.partial), _wrapped),
    (numpy.ndarray, _array),
    (numpy.generic, _leaf),
    (torch.Generator, _generator),
)
