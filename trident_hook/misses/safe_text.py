"""Short texts of values that a program passed: what a person needs to see why a call missed. Writing one runs no code of the
program (no repr, no property, no `__getattr__`), costs microseconds however large the value is, and keeps nothing alive."""

from __future__ import annotations

import enum
import functools
import itertools
import math
import struct
import types
from typing import Any

from .. import _rt

_MEMBERS, _DEPTH, _CHARACTERS, _BITS = 8, 2, 60, 256

_mro = type.__dict__["__mro__"].__get__  # a metaclass can answer for a class, but not here
_space = type.__dict__["__dict__"].__get__
_qualname = type.__dict__["__qualname__"].__get__


class Absent:
    """What stands for a value that is not there, or that cannot be read without running the program's code."""

    def __init__(self, text: str) -> None:
        self.text = text


MISSING = Absent("<missing>")
UNREAD = Absent("<computed by the program>")


def show(value: Any, depth: int = _DEPTH) -> str:
    """`value` in at most a few hundred characters."""
    kind = type(value)
    writer = _WRITERS.get(kind)
    if writer is not None:
        found: str = writer(value, depth)
        return found
    if kind is Absent:
        found = value.text
        return found
    if kind in _torch_constants():
        return repr(value)
    line = _mro(kind)
    if type in line:
        return f"<class {_qualname(value)}>"
    if types.ModuleType in line:
        name = _rt.dict_of(value).get("__name__")
        return f"<module {name}>" if type(name) is str else "<module>"
    if enum.Enum in line:
        name = _rt.dict_of(value).get("_name_")
        return f"{_qualname(kind)}.{name}" if type(name) is str else f"<{_qualname(kind)} object>"
    if _is_tensor_class(line):
        return show_tensor(kind, _rt.tensor_read(value))
    if kind is _size_class():
        return f"torch.Size({_items(list(value), '[{}]', depth)})"
    return f"<{_qualname(kind)} object>"


def show_tensor(kind: type, read: dict[Any, Any] | None) -> str:
    """`read`: what `_rt.tensor_read` gave for it; as a guard's TensorFacts are written."""
    if read is None:
        return f"{_qualname(kind)} without plain sizes and strides"
    types_, dtypes = names_of_numbers()
    device = types_.get(read["device_type"], f"device type {read['device_type']}")
    device += "" if read["device_index"] < 0 else f":{read['device_index']}"
    sizes, strides = (", ".join(map(str, read[name])) for name in ("sizes", "strides"))
    grad = ", requires_grad" if read["requires_grad"] else ""
    dtype = dtypes.get(read["dtype"], f"dtype {read['dtype']}")
    return f"{_qualname(kind)}({dtype}, {device}, size=({sizes}), stride=({strides}){grad})"


def attribute(value: Any, name: str) -> Any:
    """The attribute where it can be had without running the program's code: MISSING or UNREAD elsewhere."""
    kind = type(value)
    line = _mro(kind)
    if type in line:
        return _in_classes(_mro(value), name)
    space = _rt.dict_of(value)
    if types.ModuleType in line:
        return space.get(name, MISSING)
    found = _in_classes(line, name)
    if isinstance(found, types.MemberDescriptorType):
        try:
            return found.__get__(value)
        except AttributeError:
            return MISSING
    if isinstance(found, types.GetSetDescriptorType) and kind in _plain_tensors():
        return found.__get__(value)
    if found is not MISSING and _in_classes(_mro(type(found)), "__set__") is not MISSING:
        return UNREAD
    if space is not None and name in space:
        return space[name]
    if found is MISSING and _in_classes(line, "__getattr__") is not MISSING:
        return UNREAD
    return found


@functools.lru_cache(maxsize=64)
def key_names(keys: int) -> frozenset[str]:
    """Names of the dispatch keys in a raw set, without those that stand for several."""
    import torch

    found = torch._C.DispatchKeySet.from_raw_repr(keys)
    return frozenset(name for name, key in _dispatch_keys() if found.has(key))


def _in_classes(line: tuple[Any, ...], name: str) -> Any:
    for base in line:
        space = _space(base)
        if name in space:
            return space[name]
    return MISSING


# -- one kind of value each ----------------------------------------------------------------------------------------------


def _int(value: int, depth: int) -> str:
    bits = value.bit_length()
    return repr(value) if bits <= _BITS else f"<int of {bits} bits>"


def _float(value: float, depth: int) -> str:
    return repr(value) if not math.isnan(value) else f"nan (bits {struct.unpack('<Q', struct.pack('<d', value))[0]:#x})"


def _complex(value: complex, depth: int) -> str:
    return f"complex({_float(value.real, depth)}, {_float(value.imag, depth)})"


def _text(value: str | bytes, depth: int) -> str:
    more = "" if len(value) <= _CHARACTERS else f"... ({len(value)} long)"
    return repr(value[:_CHARACTERS]) + more


def _items(values: Any, form: str, depth: int) -> str:
    texts = [show(value, depth - 1) for value in itertools.islice(values, _MEMBERS)]
    more = [f"... ({len(values)} in all)"] if len(values) > _MEMBERS else []
    comma = "," if len(values) == 1 and type(values) is tuple else ""
    return form.format(", ".join(texts + more) + comma)


def _container(form: str) -> Any:
    def write(value: Any, depth: int) -> str:
        return _items(value, form, depth) if depth > 0 else f"<{_qualname(type(value))} of {len(value)}>"

    return write


def _dict(value: dict[Any, Any], depth: int) -> str:
    if depth <= 0:
        return f"<dict of {len(value)}>"
    pairs = [f"{show(k, 0)}: {show(v, depth - 1)}" for k, v in itertools.islice(value.items(), _MEMBERS)]
    more = [f"... ({len(value)} in all)"] if len(value) > _MEMBERS else []
    return "{" + ", ".join(pairs + more) + "}"


_WRITERS = {
    int: _int,
    bool: lambda value, depth: repr(value),
    type(None): lambda value, depth: "None",
    type(...): lambda value, depth: "...",
    float: _float,
    complex: _complex,
    str: _text,
    bytes: _text,
    tuple: _container("({})"),
    list: _container("[{}]"),
    set: _container("{{{}}}"),
    frozenset: _container("frozenset({{{}}})"),
    dict: _dict,
    range: lambda value, depth: f"range({', '.join(_int(n, 0) for n in (value.start, value.stop, value.step))})",
    slice: lambda value, depth: f"slice({', '.join(show(v, 0) for v in (value.start, value.stop, value.step))})",
    types.FunctionType: lambda value, depth: f"<function {value.__qualname__}>",
    types.BuiltinFunctionType: lambda value, depth: f"<built-in {value.__name__}>",
    types.MethodDescriptorType: lambda value, depth: f"<method {value.__name__}>",
    types.MethodType: lambda value, depth: f"<method {show(value.__func__, 0)}>",
    types.CodeType: lambda value, depth: f"<code {value.co_qualname}>",
}


# -- what of PyTorch is needed, found when it is first asked for ----------------------------------------------------------


@functools.cache
def _torch_constants() -> frozenset[Any]:
    import torch

    return frozenset((torch.dtype, torch.device, torch.layout, torch.memory_format))


@functools.cache
def _plain_tensors() -> tuple[Any, ...]:
    import torch

    return torch.Tensor, torch.nn.Parameter


@functools.cache
def _size_class() -> type:
    import torch

    return torch.Size


def _is_tensor_class(line: tuple[Any, ...]) -> bool:
    return _plain_tensors()[0] in line


@functools.cache
def names_of_numbers() -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Of device types and dtypes, as the C ABI numbers them."""
    import torch

    numbers = {8: "torch.complex32"}  # making a tensor of it warns
    for dtype in {v for v in vars(torch).values() if isinstance(v, torch.dtype)} - {torch.complex32}:
        read = _rt.tensor_read(torch.empty(0, dtype=dtype, device="meta"))
        if read is not None:
            numbers[read["dtype"]] = str(dtype)
    meta = _rt.tensor_read(torch.empty(0, device="meta"))
    assert meta is not None, "a plain tensor"
    return {_rt.DEVICE_CPU: "cpu", _rt.DEVICE_CUDA: "cuda", meta["device_type"]: "meta"}, numbers


@functools.cache
def _dispatch_keys() -> tuple[Any, ...]:
    import torch

    keys = torch._C.DispatchKey.__members__.items()
    none = torch._C.DispatchKeySet.from_raw_repr(0)
    return tuple((n, k) for n, k in keys if n != "Undefined" and not n.startswith("Composite") and not none.has(k))
