"""The host program of a specialization: what is done between the guards and the return recipe, in order.

Integers are Python ints, or sympy expressions over the symbols of the capture (`Symbols`). Tensors are named by the
node of the normalised graph that made them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

#: Sets the grad mode as `torch.set_grad_enabled` does: (enabled, what it was when the program began); returns nothing.
GRAD_MODE = ("trident_hook::set_grad_enabled", "")


@dataclass(frozen=True)
class TensorMeta:
    """What is known of a tensor when the program is built. Sizes and strides are ints or sympy expressions."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: Any
    device_type: str
    device_index: int | None
    requires_grad: bool = False


@dataclass(frozen=True)
class Alloc:
    """A plain allocation with known sizes and strides."""

    out: str
    meta: TensorMeta
    text: str
    may_leave: bool = False  # nothing was changed before it: where it fails, the plain function runs

    def reads(self) -> tuple[str, ...]:
        return ()

    def writes(self) -> tuple[str, ...]:
        return (self.out,)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TensorArg:
    name: str


@dataclass(frozen=True)
class IntArg:
    """An int argument: a Python int or a sympy expression."""

    value: Any


@dataclass(frozen=True)
class IntListArg:
    values: tuple[Any, ...]


@dataclass(frozen=True)
class TensorListArg:
    names: tuple[Any, ...]  # of str or None


@dataclass(frozen=True)
class ConstArg:
    value: Any


@dataclass(frozen=True)
class NumberArg:
    """A float or bool that an earlier operation returned, or a float argument; `kind`: "float" or "bool"."""

    symbol: Any
    kind: str

    def __str__(self) -> str:
        return str(self.symbol)


@dataclass(frozen=True)
class Bound:
    """A sympy symbol whose value an operation gives. `kind`: "int", "float", "bool" (its only number result), or "size":
    of dimension `dim` of its tensor result number `index`."""

    symbol: Any
    kind: str
    index: int = 0
    dim: int = 0


@dataclass(frozen=True)
class OpCall:
    """A call of a registered operator through PyTorch's dispatcher. `args` has one entry per schema argument;
    `outs` one per tensor result, None for one that is not used and undefined."""

    op: str  # "aten::add"
    overload: str  # "Tensor", "" for the default
    args: tuple[Any, ...]
    outs: tuple[Any, ...]
    number_outs: tuple[
        Any, ...
    ] = ()  # types of the results that are no tensors, none of which is read but through `binds`
    text: str = ""
    binds: tuple[Bound, ...] = ()
    may_leave: bool = False  # as of an Alloc; and it changes nothing itself

    def reads(self) -> tuple[str, ...]:
        names = []
        for arg in self.args:
            if isinstance(arg, TensorArg):
                names.append(arg.name)
            elif isinstance(arg, TensorListArg):
                names.extend(n for n in arg.names if n is not None)
        return tuple(names)

    def writes(self) -> tuple[str, ...]:
        return tuple(out for out in self.outs if out is not None)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Check:
    """A condition on what the program itself has computed, before its first effect. Where it does not hold, what was
    computed is dropped and the call is the plain function's."""

    condition: Any  # sympy relation over the symbols
    text: str

    def reads(self) -> tuple[str, ...]:
        return ()

    def writes(self) -> tuple[str, ...]:
        return ()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TensorMap:
    """What the driver encodes for a tensor descriptor. Sizes and strides (in elements) are int expressions, outermost
    dimension first; `data_type` and `swizzle` are the driver's numbers."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    box: tuple[int, ...]
    data_type: int
    swizzle: int
    element_size: int
    nan_fill: bool


@dataclass(frozen=True)
class Param:
    """One parameter of a kernel as it is passed. `value`: a tensor name, an int expression, a float, a bool, a NumberArg of
    a float, or None for a null pointer.

    `divisible` is Triton's divisibility-by-16 class of a pointer or int ("D"), None where Triton has none.
    `declared`: the type is the parameter's annotation, so it does not follow the value."""

    name: str
    type: str  # Triton's signature type: "*fp32", "i32", "i64", "u64", "fp32", "u1", ...
    value: Any
    divisible: bool | None = None
    tensor: bool = False
    declared: bool = False
    map: TensorMap | None = None  # `value` is described by a tensor map, which is what the kernel gets

    def __str__(self) -> str:
        return f"{self.name}: {self.type} = {self.value}"


@dataclass(frozen=True)
class Kernel:
    """A compiled Triton kernel: the CUBIN and what a launch of it needs."""

    name: str
    cubin: bytes = field(repr=False)
    digest: str
    shared: int
    threads: int
    num_ctas: int
    pdl: bool
    cooperative: bool
    #: (bytes for each program, alignment) of the memory that Triton's allocators give: global, profile.
    scratch: tuple[tuple[int, int], tuple[int, int]] = ((0, 1), (0, 1))

    @property
    def wants_scratch(self) -> bool:
        return any(size for size, _ in self.scratch)


class KnownKeys:
    """Keys for which a tuner chose the config of one launch. Compiled modules look into `packed` on every call, and it grows
    while they are in use: a new key needs no build."""

    def __init__(self, key: tuple[int, ...]) -> None:
        self.packed = {struct.pack(f"={len(key)}q", *key)}  # a C array of int64_t

    def adopt(self, other: KnownKeys) -> bool:
        """Whether there was a key that is new here."""
        new = other.packed - self.packed
        self.packed.update(new)
        return bool(new)


@dataclass(frozen=True)
class Launch:
    kernel: Kernel
    grid: tuple[Any, ...]  # three int expressions
    params: tuple[Param, ...]
    fallback: Any  # ObjectKey of the Python launcher, called where a precondition fails after the first effect
    fallback_tensors: tuple[str, ...]
    fallback_ints: tuple[Any, ...]
    equal: tuple[Any, ...] = ()  # (expression, int): ints that are baked into the binary
    unequal: tuple[Any, ...] = ()  # (expression, int): ints that must not have this value
    keys: tuple[
        Any, ...
    ] = ()  # int expressions by which a tuner chooses; `known` has the values for which it chose this config
    known: KnownKeys | None = field(default=None, compare=False)
    hooks: Any = None  # ObjectKey of the kernel's list of pre-run hooks, which must be empty
    may_miss: bool = False  # nothing was changed before it: a call that turns out not to be its binary's is a miss
    text: str = ""

    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*(p.value for p in self.params if p.tensor), *self.fallback_tensors)))

    def writes(self) -> tuple[str, ...]:
        return ()

    def __str__(self) -> str:
        grid = ", ".join(str(g) for g in self.grid)
        return f"launch {self.kernel.name}<<<({grid}), {self.kernel.threads}>>>({', '.join(map(str, self.params))})"


@dataclass(frozen=True)
class Input:
    """A graph input. `expr` (a recipe expression) says how it is taken out of the call."""

    name: str
    expr: Any
    meta: TensorMeta | None  # None for a number
    symbol: Any = None  # the sympy symbol of a number
    kind: str = "int"  # of number: "int" or "float"


@dataclass(frozen=True)
class HostProgram:
    inputs: tuple[Input, ...]
    ops: tuple[Any, ...]
    outputs: tuple[
        Any, ...
    ]  # tensor names, int expressions, NumberArg or ConstArg, in the order of the graph's outputs
    symbols: dict[Any, Any]  # sympy symbol -> ("size"|"stride"|"offset", input index, dim) or ("input", input index)

    @property
    def has_floats(self) -> bool:
        """Whether a float argument is a symbol."""
        return any(item.meta is None and item.kind == "float" for item in self.inputs)

    def __str__(self) -> str:
        lines = [f"input {i.name} = {i.expr}" for i in self.inputs]
        lines += [str(op) for op in self.ops]
        lines.append("return " + ", ".join(map(str, self.outputs)))
        return "\n".join(lines)
