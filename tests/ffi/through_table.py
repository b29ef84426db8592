"""Samples of PyTorch's operator database with every ATen call under them made through TVM FFI's table."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import itertools
import warnings
from dataclasses import dataclass, field

import torch
import tvm_ffi
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from trident_hook import ffi
from trident_hook.codegen.numbers import scalar_type

#: Their results hold whatever the memory held: only sizes and dtypes can be compared.
UNINITIALISED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")


class NotCarried(Exception):
    """An argument or result that DLPack has no form for."""


class Passing(TorchDispatchMode):
    """Calls each operator itself. Composite operators of PyTorch look whether any mode is active."""

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        return operator(*args, **(kwargs or {}))


class ThroughTable(TorchDispatchMode):
    """Puts `trident.aten.<name>` in the place of each ATen operator that runs, and remembers which, and how tensors went:
    by DLPack, or as opaque handles. The latter always for operators that change or read what only the very tensor has
    (its own sizes, its place in the storage)."""

    def __init__(self, handles: bool = False) -> None:
        super().__init__()
        self.handles = handles
        self.called: dict[str, set[str]] = {}

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        schema, kwargs = operator._schema, kwargs or {}
        name = schema.name.removeprefix("aten::") + (f".{schema.overload_name}" if schema.overload_name else "")
        function = tvm_ffi.get_global_func(f"trident.aten.{name}", allow_missing=True)
        if not schema.name.startswith("aten::") or function is None:
            return operator(*args, **kwargs)
        values = [
            kwargs[a.name] if a.name in kwargs else args[i] if i < len(args) and not a.kwarg_only else a.default_value
            for i, a in enumerate(schema.arguments)
        ]
        handles = self.handles or torch.Tag.inplace_view in operator.tags or "as_strided" in name
        given = pytree.tree_map(lambda value: _given(value, handles), values)
        try:
            answer = function(*given)
        except (RuntimeError, TypeError) as error:
            if "Can't export tensors" in str(error) or "DLPack" in str(error):
                raise NotCarried(str(error)) from error
            raise
        self.called.setdefault(name, set()).add("handles" if handles else "DLPack")
        return _results(schema, values, answer)


def _given(value, handles: bool):
    if isinstance(value, torch.Tensor):
        if handles:
            return ffi.handle_of(value)
        plain = value.layout is torch.strided and value.device.type == "cpu" and not value.is_quantized
        if not plain or value.is_conj() or value.is_neg() or type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise NotCarried(f"{type(value).__name__} with layout {value.layout}, dtype {value.dtype}")
    if isinstance(value, torch.dtype) and value.is_complex:  # the Python package of TVM FFI has no name for these
        return scalar_type(value)
    return value


def _results(schema, values: list, answer):
    """As the operator itself returns them: what it wrote to is the argument that was given."""
    if not schema.returns:
        return None
    answers = [answer] if len(schema.returns) == 1 else list(answer)
    written = {}
    for argument, value in zip(schema.arguments, values, strict=True):
        if argument.alias_info is not None and argument.alias_info.is_write:
            written.setdefault(frozenset(argument.alias_info.before_set), value)
    results = []
    for declared, value in zip(schema.returns, answers, strict=True):
        alias = declared.alias_info
        given = written.get(frozenset(alias.before_set)) if alias is not None and alias.is_write else None
        results.append(_as_torch(value) if given is None else given)
    return results[0] if len(results) == 1 else tuple(results)


def _as_torch(value):
    if isinstance(value, tvm_ffi.Tensor):
        return torch.from_dlpack(value)
    if isinstance(value, ctypes.c_void_p):
        return ffi.tensor_of(value)
    if isinstance(value, (tvm_ffi.Array, tvm_ffi.List, list, tuple)):
        return [_as_torch(v) for v in value]
    return value


@dataclass
class Verdict:
    """equal: every sample; wrong: one differed; no samples: none that runs ATen operators twice with one answer."""

    name: str
    outcome: str
    detail: str = ""
    samples: int = 0
    called: dict = field(default_factory=dict)  # ATen operators that went through the table -> how their tensors did


def check(op, samples: int = 3) -> Verdict:
    """One OpInfo, with its first samples."""
    dtypes = op.supported_dtypes("cpu")
    if not dtypes:
        return Verdict(op.formatted_name, "no samples", "no dtype on the CPU")
    dtype = torch.float32 if torch.float32 in dtypes else sorted(dtypes, key=str)[0]
    equal_ones, why, called = 0, "", {}
    for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), samples):
        given = (sample.input, sample.args, sample.kwargs)
        expected = run(op, given)
        if isinstance(expected[0], Exception):
            why = f"eager: {expected[0]}"
            continue
        mode = ThroughTable()
        got = run(op, given, mode)
        if isinstance(got[0], NotCarried):
            why = f"by handles: {got[0]}"
            mode = ThroughTable(handles=True)
            got = run(op, given, mode)
        if op.name in UNINITIALISED:
            got, expected = pytree.tree_map_only(torch.Tensor, torch.zeros_like, (got, expected))
        if not equal(got, expected):
            if equal(got, run(op, given, Passing())):
                why = "PyTorch itself answers otherwise under a dispatch mode, and so"
            elif not equal(run(op, given), expected):
                why = "not the same twice in eager"
                continue
            else:
                return Verdict(op.formatted_name, "wrong", _brief(got, expected), equal_ones)
        if not mode.called:
            why = why or "no ATen operator ran"
            continue
        equal_ones += 1
        for name, ways in mode.called.items():
            called.setdefault(name, set()).update(ways)
    if equal_ones:
        return Verdict(
            op.formatted_name, "equal", why[:200], equal_ones, {n: sorted(w) for n, w in sorted(called.items())}
        )
    return Verdict(op.formatted_name, "no samples", why.splitlines()[0][:200] if why else "no samples")


def run(op, given, mode=None) -> tuple:
    """(result or exception, arguments afterwards) from one seed."""
    input, args, kwargs = pytree.tree_map(_copied, given)
    torch.manual_seed(0)
    with warnings.catch_warnings(), torch.no_grad(), mode or contextlib.nullcontext():
        warnings.simplefilter("ignore")
        try:
            result = op.op(input, *args, **kwargs)
        except Exception as error:
            result = error
    return result, (input, args, kwargs)


def _copied(value):
    if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
        return value.clone()  # sparse tensors with rows have no deep copy
    return copy.deepcopy(value)


def equal(a, b) -> bool:
    """Same structure, dtypes, shapes and bits (a NaN equals a NaN). Strides may differ where a dimension has one element."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if (a.dtype, a.shape, a.layout) != (b.dtype, b.shape, b.layout):
            return False
        if a.layout is not torch.strided:
            return torch.equal(a.to_dense(), b.to_dense())
        if a.is_quantized:
            return torch.equal(a.int_repr(), b.int_repr())
        if a.dtype is torch.complex32:
            a, b = torch.view_as_real(a), torch.view_as_real(b)
        return bool(torch.equal(a, b) or torch.allclose(a, b, rtol=0, atol=0, equal_nan=True))
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, Exception) or isinstance(b, Exception):
        return False
    return a == b or (a != a and b != b)


def _brief(got, expected) -> str:
    texts = [str(value[0]).replace("\n", " ")[:150] for value in (got, expected)]
    return f"{type(got[0]).__name__} {texts[0]} for {texts[1]}"


def register() -> ffi.Registered:
    return ffi.register_aten()
