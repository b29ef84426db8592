"""Every access of an interpreted kernel lies in the memory of the argument that its pointer comes from.

A pointer carries the arguments that it was made of, through arithmetic, broadcasts and block pointers. The memory of an
argument is the storage that its address lies in: PyTorch's allocator is asked, then the tensors that Python knows. A
pointer that the kernel made of an integer may go to any tensor's memory. Memory that nobody knows is not checked.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any, cast

import numpy as np

_ORIGIN = "trident_hook.arguments"  # in a handle's attributes: the names of the arguments that a pointer comes from

Range = tuple[int, int]


class OutOfBoundsError(IndexError):
    """A kernel accesses memory outside of the tensor that it was given."""


class Memory:
    """The memory of one launch's pointer arguments."""

    def __init__(self) -> None:
        self._of_argument: dict[str, Range | None] = {}

    def argument(self, name: str, handle: Any) -> None:
        """Marks a pointer as that argument's."""
        address = int(handle.data.reshape(-1)[0])
        # An empty tensor has no address, and no element that may be accessed.
        self._of_argument[name] = range_of(address) if address else (0, 0)
        handle.attr[_ORIGIN] = frozenset({name})

    def check(self, pointers: Any, mask: Any, what: str) -> None:
        """Raises OutOfBoundsError for the first element that an access must not touch."""
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        addresses = np.asarray(pointers.data, np.uint64)
        if mask is not None:
            addresses = addresses[np.broadcast_to(np.asarray(mask, bool), addresses.shape)]
        if addresses.size == 0:
            return
        names = pointers.attr.get(_ORIGIN)
        if names is None:
            self._check_made(addresses, size, what)
            return
        ranges = [self._of_argument.get(name) for name in sorted(names)]
        known = [it for it in ranges if it is not None]
        if len(known) < len(ranges):
            return
        inside = np.zeros(addresses.shape, bool)
        for start, end in known:
            inside |= (addresses >= start) & (addresses + np.uint64(size) <= end)
        if not inside.all():
            raise OutOfBoundsError(_sentence(what, sorted(names), known, int(addresses[~inside].flat[0]), size))

    @staticmethod
    def _check_made(addresses: Any, size: int, what: str) -> None:
        """A pointer that was made of an integer may go to any tensor's memory. An access that is partly there and
        partly nowhere runs out of it; one that is in memory that nobody knows is let go."""
        left, known = addresses.reshape(-1), list[Range]()
        while left.size:
            lowest = int(left.min())
            where = noted(lowest) or (range_of(lowest) if known else None)
            if where is None and not known:
                return
            if where is None or lowest + size > where[1]:
                raise OutOfBoundsError(_sentence(what, [], known[-1:] or [cast(Range, where)], lowest, size))
            known.append(where)
            left = left[left > np.uint64(where[1] - size)]


def _sentence(what: str, names: list[str], known: list[Range], address: int, size: int) -> str:
    start, end = known[0]
    argument = " or ".join(f"argument {name!r}" for name in names) or "a pointer made of an integer"
    place = (
        f"{address - start} bytes from its start" if address >= start else f"{start - address} bytes before its start"
    )
    if (start, end) == (0, 0):
        return f"{what} of {size} bytes through {argument}, which is an empty tensor"
    return f"{what} of {size} bytes through {argument} at {place}, of {end - start} bytes that its storage has"


# ---- where tensors lie ----

_elsewhere: dict[int, weakref.ref[Any] | None] = {}  # addresses that the allocator does not know


def range_of(address: int) -> Range | None:
    """The storage that an address lies in, if it is known."""
    return noted(address) or _found(address)


def noted(address: int) -> Range | None:
    """The same, if PyTorch's allocator gave it out while the simulation was on."""
    try:
        from trident_hook import _rt
    except ImportError:
        return None
    return _rt.noted_memory(address)


def _found(address: int) -> Range | None:
    """Among the tensors that Python knows: older than the simulation, or of memory that is not PyTorch's."""
    if address in _elsewhere:
        known = _elsewhere[address]
        found = known() if known is not None else None
        return _lies_in(found, address) if found is not None else None
    import torch

    plain = (torch.Tensor, torch.nn.Parameter)  # others may have no memory, and say so with a warning
    for it in gc.get_objects():
        if type(it) in plain and (where := _lies_in(it, address)) is not None:
            _elsewhere[address] = weakref.ref(it)
            return where
    if len(_elsewhere) > 4096:
        _elsewhere.clear()
    _elsewhere[address] = None
    return None


def _lies_in(tensor: Any, address: int) -> Range | None:
    try:
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        end = start + storage.nbytes()
    except Exception:  # a tensor without memory: fake, meta, sparse
        return None
    return (start, end) if start <= address < end else None


def note_memory(on: bool) -> None:
    """Lets PyTorch's allocator be known. Without the native part, Python's tensors are looked through."""
    try:
        from trident_hook import _rt
    except ImportError:
        return
    _rt.note_memory(on)


# ---- the interpreter's builder, taught to pass on where a pointer comes from ----

#: Methods whose result is a pointer where an operand is one.
_PASSING = (
    "create_addptr", "create_splat", "create_unsplat", "create_broadcast", "create_expand_dims", "create_reshape",
    "create_trans", "create_select", "create_cat", "create_join", "create_split", "create_gather", "create_bitcast",
)  # fmt: skip

_now: Memory | None = None  # of the launch that runs; under the lock of the language


def begin(memory: Memory | None) -> Memory | None:
    """Makes these the tensors that a kernel may access. Returns those that were, for when it is through."""
    global _now
    before, _now = _now, memory
    return before


def replacements(others: list[tuple[Any, str, Any]]) -> list[tuple[Any, str, Any]]:
    """(class, name, value): methods of the interpreter that keep track of pointers, and that check each access. They
    stand before `others`, which replace methods too."""
    from triton.runtime.interpreter import BlockPointerHandle, InterpreterBuilder, TensorDescHandle

    replaced = {name: value for owner, name, value in others if owner is InterpreterBuilder}

    def plain(name: str) -> Any:
        return replaced.get(name) or getattr(InterpreterBuilder, name)

    passing = [(InterpreterBuilder, name, _passing(plain(name))) for name in _PASSING]
    with_base = (BlockPointerHandle, TensorDescHandle)
    handles = [(it, "materialize_pointers", _of_base(it.materialize_pointers)) for it in with_base]
    accesses = [
        ("create_masked_load", 0, 1, "a load"),
        ("create_masked_store", 0, 2, "a store"),
        ("create_atomic_cas", 0, None, "a compare and swap"),
        ("create_atomic_rmw", 1, 3, "an atomic operation"),
    ]
    checked = [(InterpreterBuilder, it[0], _checked(plain(it[0]), *it[1:])) for it in accesses]
    return [*passing, *handles, *checked]


def _origin(value: Any) -> Any:
    attributes = getattr(value, "attr", None)
    return attributes.get(_ORIGIN) if attributes else None


def _passing(plain: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        result = plain(self, *args)
        origins = [origin for origin in map(_origin, args) if origin is not None]
        if not origins:
            return result
        if any(_points(arg) and _origin(arg) is None for arg in args):
            return result  # partly from somewhere: from anywhere
        for handle in result if isinstance(result, tuple) else (result,):
            handle.attr[_ORIGIN] = frozenset().union(*origins)
        return result

    return method


def _points(value: Any) -> bool:
    import triton.language as tl

    return isinstance(getattr(getattr(value, "dtype", None), "scalar", None), tl.pointer_type)


def _of_base(plain: Callable[..., Any]) -> Callable[..., Any]:
    def materialize_pointers(self: Any, *args: Any) -> Any:
        pointers, masks = plain(self, *args)
        if (origin := _origin(self.base)) is not None:
            pointers.attr[_ORIGIN] = origin
        return pointers, masks

    return materialize_pointers


def _checked(plain: Callable[..., Any], pointers_at: int, mask_at: int | None, what: str) -> Callable[..., Any]:
    """Masks come as a handle, or (of block pointers) as an array."""

    def access(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _now is not None:
            mask = None if mask_at is None else args[mask_at]
            _now.check(args[pointers_at], mask if isinstance(mask, np.ndarray | None) else mask.data, what)
        return plain(self, *args, **kwargs)

    return access
