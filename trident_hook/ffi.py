"""TVM FFI: PyTorch's operators and specialization cache modules for callers in any language.

    trident_hook.ffi.register_aten()                      # trident.aten.add.Tensor, ... in the global function table
    tvm_ffi.get_global_func("trident.aten.relu")(x)

    call = trident_hook.scm(fn).as_tvm_ffi()              # fn's arguments -> its result, or trident_hook.MISS

Needs apache-tvm-ffi; the rest of the package does not."""

from __future__ import annotations

import ctypes
import functools
import itertools
import sys
from dataclasses import dataclass

import torch

from . import _core
from .errors import UnsupportedEnvironmentError

_numbers = itertools.count()


@dataclass(frozen=True)
class Registered:
    """What `register_aten()` put into the table."""

    names: tuple[str, ...]  # of global functions
    inexpressible: tuple[str, ...]  # operators with an argument or result that TVM FFI has no form for

    @property
    def share_left_out(self) -> float:
        return len(self.inexpressible) / max(1, len(self.names) + len(self.inexpressible))


@functools.cache
def _library():
    """The extension module, with libtvm_ffi in the process."""
    try:
        import tvm_ffi
    except ImportError as error:
        raise UnsupportedEnvironmentError(f"apache-tvm-ffi cannot be imported ({error})", "the package tvm_ffi",
                                          "Install it: pip install apache-tvm-ffi.") from error  # fmt: skip
    try:
        from . import _ffi
    except ImportError as error:
        raise UnsupportedEnvironmentError(
            f"trident_hook._ffi cannot be imported ({error})", "a build that found apache-tvm-ffi's headers",
            "Install apache-tvm-ffi first, then build trident_hook again.",
        ) from error  # fmt: skip

    @tvm_ffi.register_object("trident.Miss")
    class Miss(tvm_ffi.Object):  # equal to MISS from either side
        def __eq__(self, other) -> bool:
            return is_miss(other)

        __hash__ = tvm_ffi.Object.__hash__

    return tvm_ffi, _ffi


@functools.cache
def register_aten() -> Registered:
    """Puts every ATen operator of the dispatcher into TVM FFI's table, as `trident.aten.<name>[.<overload>]`; once.

    A function takes the schema's arguments in order, keyword-only ones too; trailing defaults may be left out. Tensors
    cross without a copy: by DLPack (then they carry no autograd history), or as opaque handles, and then results are
    owned handles too, to be given to `trident.handle.release`. Errors carry PyTorch's message."""
    _, library = _library()
    names, inexpressible = [], []
    for name, overload in _operators("aten::"):
        text = name.removeprefix("aten::") + (f".{overload}" if overload else "")
        done = library.register(name, overload, f"trident.aten.{text}")
        (names.append(f"trident.aten.{text}") if done else inexpressible.append(text))
    return Registered(tuple(names), tuple(inexpressible))


def handle_of(tensor: torch.Tensor) -> ctypes.c_void_p:
    """An opaque handle of a tensor, for functions of the table: they get the very tensor, with its autograd history, its
    storage offset and whatever DLPack has no form for. Borrowed: the tensor must outlive the call."""
    return ctypes.c_void_p(_library()[1].handle_of(tensor))


def tensor_of(handle: ctypes.c_void_p) -> torch.Tensor:
    """The tensor behind an owned handle, as functions return them where they were given handles. The handle is spent."""
    return _library()[1].take_handle(handle.value or 0)


def _operators(namespace: str) -> list[tuple[str, str]]:
    known = set(torch._C._dispatch_get_all_op_names())
    found = {(s.name, s.overload_name) for s in torch._C._jit_get_all_schemas() if s.name.startswith(namespace)}
    return sorted(key for key in found if ".".join(filter(None, key)) in known)


class Scm:
    """A function's specialization cache module: whatever it holds at the moment of a call."""

    def __init__(self, fn) -> None:
        from .api import find_record

        self.function = getattr(fn, "__wrapped__", fn)
        self._record = find_record(fn)
        if self._record is None:
            raise UnsupportedEnvironmentError(f"{fn!r} is not served"[:200], "a function under jit() or enable()",
                                              "Pass what trident_hook.jit returned.")  # fmt: skip

    def __call__(self, *args):
        """The result, or MISS; the program's own error is raised. Nothing is captured, and no Python of fn runs."""
        hit, result = self._ask(args)
        return result if hit else MISS

    def as_tvm_ffi(self):
        """A `tvm_ffi.Function` of fn's positional arguments. It returns the result; or, on a miss, the one object of
        type key "trident.Miss", which `trident.miss()` returns and which equals `trident_hook.MISS`; or raises."""
        tvm_ffi, library = _library()
        name = f"trident.scm.{next(_numbers)}"
        library.scm_function(self._ask, name)
        function = tvm_ffi.get_global_func(name)
        tvm_ffi.remove_global_func(name)  # the function lives as long as somebody holds it
        return function

    def _ask(self, args: tuple) -> tuple:
        return _core.scm_ask(self.function, args)


def scm(fn) -> Scm:
    """The specialization cache module of a function that is served."""
    return Scm(fn)


class _Miss:
    """What a call of a module answers when none of its specializations holds. One object; equal to its TVM FFI form."""

    def __eq__(self, other) -> bool:
        return self is other or is_miss(other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "trident_hook.MISS"


def is_miss(value) -> bool:
    """Whether a value is MISS, as Python or as TVM FFI sees it."""
    tvm_ffi = sys.modules.get("tvm_ffi")
    if value is MISS or tvm_ffi is None or not isinstance(value, tvm_ffi.Object):
        return value is MISS
    miss = tvm_ffi.get_global_func("trident.miss", allow_missing=True)
    return miss is not None and value.same_as(miss())


MISS = _Miss()
