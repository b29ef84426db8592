"""Runs a launch of the simulated driver with Triton's interpreter, from nothing but its CUBIN and its raw parameters.

Whoever launched, and however (the stock launcher, cuda-python, native code), the numerics are those of the launched
binary: its CUBIN names the kernel that it was compiled from (`remember`), its signature tells how to read the bytes.

Triton's interpreter is made to run whole grids from Python arguments and leaves traces (it patches `triton.language`
on every nested call and never restores it, and adds names to the globals of the kernel's module). Only its builder and
its patches are used here; they are in force while a launch runs and gone after, and module globals are never touched.
"""

from __future__ import annotations

import ast
import builtins
import functools
import gc
import inspect
import os
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import bfloat16, bounds, kernel_source, libdevice
from ._simlib import Launch, TensorMap, image_digest

#: Held while `triton.language` is patched, and while Triton turns Python into IR: the two must not overlap.
language_lock = threading.RLock()


def _after_fork_in_child() -> None:
    global language_lock
    language_lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)

_kernels: dict[str, Any] = {}  # digest of the CUBIN -> CompiledKernel


class UnknownKernelError(LookupError):
    """A CUBIN was launched that this process never compiled (or never loaded from Triton's cache)."""


class KernelError(RuntimeError):
    """A kernel failed in the interpreter."""


def remember(compiled: Any) -> None:
    """Makes a CompiledKernel known, so that launches of its CUBIN can be run."""
    binary = compiled.asm.get("cubin")
    if isinstance(binary, bytes):
        _kernels[image_digest(binary)] = compiled


def _search(digest: str) -> Any:
    """A kernel that was compiled while nobody was watching, if it is still alive."""
    from triton.compiler.compiler import CompiledKernel

    for it in gc.get_objects():
        if type(it) is CompiledKernel:
            remember(it)
    return _kernels.get(digest)


def run(launch: Launch, check_bounds: bool = True) -> None:
    """Runs every program of the launch, in order, on the calling thread."""
    compiled = _kernels.get(launch.image) or _search(launch.image)
    if compiled is None:
        raise UnknownKernelError(f"No source is known for the CUBIN {launch.image[:12]} of kernel {launch.name!r}.")
    grid = (launch.grid[0] // compiled.metadata.num_ctas, launch.grid[1], launch.grid[2])
    with language_lock, _language.patched(), np.errstate(all="ignore"):
        function = _rewritten(compiled.src.fn)
        memory = bounds.Memory() if check_bounds else None
        arguments = _read_arguments(compiled, launch.params, memory)
        outer = bounds.begin(memory)
        try:
            _run_programs(function, arguments, grid, launch.name)
        finally:
            bounds.begin(outer)


def _run_programs(function: Any, arguments: dict[str, Any], grid: tuple[int, ...], name: str) -> None:
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    builder.set_grid_dim(*grid)
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                builder.set_grid_idx(x, y, z)
                try:
                    function(**arguments)
                except Exception as error:
                    where = f"kernel {name!r}, program {(x, y, z)} of {grid}"
                    raise KernelError(f"{where}: {error!r}") from error


# ---- parameters ----


def _read_arguments(compiled: Any, params: tuple[bytes, ...], memory: bounds.Memory | None) -> dict[str, Any]:
    """The kernel's arguments by name. The launch's parameters are the flattened signature without constants, then two
    scratch pointers that the interpreter does not need."""
    reader = _ParameterReader(compiled, iter(params), memory)
    source = compiled.src
    arguments = {name: reader.read(name, ty, (i,)) for i, (name, ty) in enumerate(source.signature.items())}
    left = sum(1 for _ in reader.raw)
    if left < 2:
        raise ValueError(f"{len(params)} parameters do not fit the signature {source.signature}")
    return arguments


@dataclass
class _ParameterReader:
    compiled: Any
    raw: Iterator[bytes]
    memory: bounds.Memory | None

    def __post_init__(self) -> None:
        self._descriptors = iter(self.compiled.metadata.tensordesc_meta or [])
        declared = self.compiled.src.fn.params
        self._declared_constexpr = {p.num for p in declared if p.is_constexpr}

    def read(self, name: str, ty: Any, path: tuple[int, ...]) -> Any:
        if isinstance(ty, tuple):
            values = [self.read(f"{name}[{i}]", inner, (*path, i)) for i, inner in enumerate(ty)]
            return type(ty)(*values) if hasattr(ty, "_fields") else tuple(values)
        if ty == "constexpr":
            return self._constant(path)
        if ty.startswith("tensordesc"):
            return self._descriptor(name, ty)
        return self._argument(name, self._scalar(ty))

    def _argument(self, name: str, value: Any) -> Any:
        if self.memory is not None and value.dtype.is_ptr():
            self.memory.argument(name, value.handle)
        return value

    def _constant(self, path: tuple[int, ...]) -> Any:
        """A declared constexpr is a plain value; an argument that was merely specialized (1) behaves like a tensor."""
        from triton.language import constexpr
        from triton.runtime.interpreter import _implicit_cvt

        value = self.compiled.src.constants.get(path)
        if isinstance(value, constexpr):
            value = value.value
        if path[0] not in self._declared_constexpr and type(value) is int:
            return _implicit_cvt(value)
        return value

    def _scalar(self, ty: str) -> Any:
        import triton.language as tl
        from triton.runtime import interpreter

        raw, dtype = next(self.raw), tl.str_to_ty(ty, None)
        np_dtype = np.dtype(interpreter._get_np_dtype(dtype))
        if len(raw) < np_dtype.itemsize:
            raise ValueError(f"a parameter of type {ty} has only {len(raw)} bytes")
        value = np.frombuffer(raw, np.uint8 if np_dtype == np.bool_ else np_dtype, 1)
        return tl.tensor(interpreter.TensorHandle(value.astype(np_dtype), dtype), dtype)

    def _integers(self, ty: str, count: int) -> list[Any]:
        return [self._scalar(ty) for _ in range(count)]

    def _descriptor(self, name: str, ty: str) -> Any:
        """Host-side descriptors arrive as a tensor map, or (no TMA) as pointer, shape, strides and flags; both are
        followed by the shape and strides once more."""
        import triton.language as tl
        from triton.runtime import interpreter

        dtype, shape = ty.removeprefix("tensordesc<").split("]")[0].split("[")
        block = [int(size) for size in shape.split(",")]
        rank = len(block)
        if next(self._descriptors, None) is not None:
            tensor_map = TensorMap.decode(next(self.raw))
            pointer = tl.str_to_ty("*" + dtype, None)
            address = np.array([tensor_map.address], np.uint64)
            base = tl.tensor(interpreter.TensorHandle(address, pointer), pointer)
            fill_nan = bool(tensor_map.oob_fill)
        else:
            base = self._scalar("*" + dtype)
            self._integers("i64", 2 * rank)
            fill_nan = bool(next(self.raw)[0])
            if self._has_tf32_flag():
                next(self.raw)
        sizes, strides = self._integers("i32", rank), self._integers("i64", rank)
        return interpreter.interpreter_semantic.make_tensor_descriptor(
            base=self._argument(name, base),
            shape=sizes,
            strides=[*strides[:-1], tl.constexpr(1)],
            block_shape=[tl.constexpr(size) for size in block],
            padding_option="nan" if fill_nan else "zero",
        )

    @staticmethod
    def _has_tf32_flag() -> bool:
        import triton

        return tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 7)


# ---- kernels as plain Python functions ----


class _KernelGlobals(dict):
    """The globals of a rewritten kernel: the kernel's own module and closure, read live, plus helpers of what was
    rewritten. A dict subclass, because the bytecode of a function with an exact dict never asks `__missing__`."""

    def __init__(self, fn: Any, helper: Any) -> None:
        super().__init__(interpreter_semantic=helper, __builtins__=builtins, **kernel_source.helpers())
        self._module = fn.__globals__
        self._functions = kernel_source.functions()
        code = fn.__code__
        self._cells = dict(zip(code.co_freevars, fn.__closure__ or (), strict=True))

    def __missing__(self, name: str) -> Any:
        if name in self._cells:
            return libdevice.stand_in(self._cells[name].cell_contents)
        if name in self._functions and name not in self._module:
            return self._functions[name]
        return libdevice.stand_in(self._module[name])


_rewritten_cache: dict[Any, types.FunctionType] = {}


def _rewritten(kernel: Any) -> types.FunctionType:
    """The kernel (a JITFunction) as a function that does in Python what the compiler reads in it."""
    source, fn = kernel.src, kernel.fn  # never hash a JITFunction here: that compiles its dependencies' sources
    cached = _rewritten_cache.get(fn)
    if cached is not None and cached.__kernel_source__ == source:  # type: ignore[attr-defined]
        return cached
    from triton.runtime import interpreter

    tree = kernel_source.rewritten(source)
    ast.increment_lineno(tree, fn.__code__.co_firstlineno - 1)
    namespace: dict[str, Any] = {}
    exec(compile(tree, inspect.getsourcefile(fn) or "<kernel>", "exec"), namespace)
    names = _KernelGlobals(fn, interpreter.interpreter_semantic)
    result = types.FunctionType(namespace[fn.__name__].__code__, names, fn.__name__, fn.__defaults__)
    result.__kwdefaults__ = fn.__kwdefaults__
    result.__kernel_source__ = source  # type: ignore[attr-defined]
    _rewritten_cache[fn] = result
    return result


def calls_of_kernels(plain: Callable[..., Any]) -> Callable[..., Any]:
    """`JITFunction.__call__` while the simulation is installed: of nested kernels, among them tl.sum, tl.max and friends. It is the
    same in and between launches: guards on the class are asked by other threads meanwhile."""

    @functools.wraps(plain)
    def call(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        if not language_lock._is_owned():  # type: ignore[attr-defined]
            return plain(kernel, *args, **kwargs)
        kwargs.pop("_semantic", None)
        return _rewritten(kernel)(*args, **kwargs)

    return call


def _combining() -> list[tuple[Any, str, Any]]:
    """(class, name, value): reductions and scans call the function that combines as it was rewritten."""
    from triton.runtime.interpreter import ReduceOps, ScanOps

    def rewriting(plain: Any) -> Any:
        def method(self: Any, input: Any) -> Any:
            combine, self.combine_fn = self.combine_fn, types.SimpleNamespace(fn=_rewritten(self.combine_fn))
            try:
                return plain(self, input)
            finally:
                self.combine_fn = combine

        return method

    methods = ((ReduceOps, "generic_reduce"), (ScanOps, "generic_scan"))
    return [(owner, name, rewriting(getattr(owner, name))) for owner, name in methods]


# ---- triton.language, patched for the length of a launch ----


class _Language:
    """Applies the interpreter's patches of `triton.language` and takes them all back."""

    def __init__(self) -> None:
        self._depth = 0
        self._replacements: list[tuple[Any, str, Any]] | None = None
        self._originals: list[tuple[Any, str, Any]] = []

    def patched(self) -> _Language:
        return self

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        if self._replacements is None:
            self._replacements = self._learn()
        for owner, name, value in self._replacements:
            self._originals.append((owner, name, vars(owner).get(name, _ABSENT)))
            setattr(owner, name, value)

    def __exit__(self, *exc: object) -> None:
        self._depth -= 1
        if self._depth > 0:
            return
        while self._originals:
            owner, name, value = self._originals.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)

    @staticmethod
    def _learn() -> list[tuple[Any, str, Any]]:
        """Lets the interpreter patch everything once, notes the final values, and undoes it. Costs milliseconds."""
        import triton.language as tl
        from triton.runtime import interpreter

        everything = types.SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
        with_originals: dict[tuple[int, str], tuple[Any, Any]] = {}
        set_attr = interpreter._LangPatchScope.set_attr

        def noting_set_attr(scope: Any, owner: Any, name: str, value: Any) -> None:
            with_originals.setdefault((id(owner), name), (owner, vars(owner).get(name, _ABSENT)))
            setattr(owner, name, value)

        interpreter._LangPatchScope.set_attr = noting_set_attr
        try:
            interpreter._patch_lang(everything)
            learned = [(owner, name, vars(owner)[name]) for (_, name), (owner, _) in with_originals.items()]
        finally:
            interpreter._LangPatchScope.set_attr = set_attr
            for (_, name), (owner, value) in with_originals.items():
                if value is _ABSENT:
                    delattr(owner, name)
                else:
                    setattr(owner, name, value)
        # NumPy 2.5 no longer turns an array of one element into an int, which Triton's own patch relies on.
        learned.append((tl.tensor, "__index__", lambda self: int(self.handle.data.item())))
        learned += [(module, "range", kernel_source.tensor_range) for module in (tl, tl.core)]
        of_bf16 = bfloat16.replacements()
        learned += [*libdevice.attributes(), *of_bf16, *bounds.replacements(of_bf16), *_combining()]
        return learned


_ABSENT = object()
_language = _Language()
