"""Values that arguments may have instead of the one that was captured: each is near enough to be mistaken for it."""

from __future__ import annotations

import collections
import dataclasses
import decimal
import enum
import math

import numpy
import torch

from .places import Slot, argument, constants


class Plain(torch.Tensor):
    """A subclass without behaviour of its own."""


class Loud(torch.Tensor):
    """A subclass that sees its operators called."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Number(enum.IntEnum):
    ONE = 1
    THREE = 3


class Int(int):
    pass


class Str(str):
    __slots__ = ()


class Float(float):
    pass


class Tuple(tuple):
    __slots__ = ()


class List(list):
    pass


class Dict(dict):
    pass


Pair = collections.namedtuple("Pair", "left right")
Twin = collections.namedtuple("Twin", "left right")


@dataclasses.dataclass
class Settings:
    scale: float = 2.0
    shift: int = 3
    name: str = "plain"


@dataclasses.dataclass
class OtherSettings(Settings):
    pass


@dataclasses.dataclass(frozen=True)
class Frozen:
    scale: float = 2.0
    shift: int = 3


def ramp(*shape, dtype=torch.float32, start=0.0) -> torch.Tensor:
    n = math.prod(shape)
    return (torch.arange(n, dtype=torch.float32) * 0.37 + start - n / 7).reshape(shape).to(dtype)


def _in_inference_mode(*shape):
    with torch.inference_mode():
        return ramp(*shape)


def _marked(*shape):
    x = ramp(*shape)
    torch._dynamo.mark_dynamic(x, 0)
    return x


def _tagged(*shape):
    x = ramp(*shape)
    x.tag = 3
    return x


def _with_grad(*shape):
    x = ramp(*shape).requires_grad_()
    x.grad = torch.ones(*shape)
    return x


def layouts(a: int, b: int) -> list:
    """Tensors of another layout, offset or size than an (a, b) one."""
    return [
        lambda: ramp(a, b),
        lambda: ramp(a, b, start=5.0),
        lambda: ramp(a + 1, b),
        lambda: ramp(a, b + 1),
        lambda: ramp(b, a),
        lambda: ramp(b, a).t(),
        lambda: ramp(a * 2, b)[::2],
        lambda: ramp(a, b * 2)[:, ::2],
        lambda: ramp(a, b * 2)[:, 1::2],
        lambda: ramp(a * b + 1)[1:].view(a, b),
        lambda: ramp(a * b + 4)[4:].view(a, b),
        lambda: ramp(a, 1).expand(a, b),
        lambda: ramp(1, b).expand(a, b),
        lambda: ramp(1, b),
        lambda: ramp(a, 1),
        lambda: ramp(0, b),
        lambda: ramp(a, 0),
        lambda: ramp(a * b),
        lambda: ramp(a, b, 1),
        lambda: ramp(1, a, b),
        lambda: ramp(2, a, b),
        lambda: torch.tensor(2.5),
        lambda: ramp(2 * a, b),
        lambda: ramp(a, 2 * b),
        lambda: ramp(a + 4, b + 4)[2 : a + 2, 3 : b + 3],
        lambda: ramp(a, b).flip(0),
    ]


def kinds(a: int, b: int) -> list:
    """Tensors of another dtype, class or autograd state."""
    dtypes = (
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int32,
        torch.int64,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.complex64,
        torch.complex128,
    )
    return [
        *(lambda dtype=dtype: ramp(a, b).to(dtype) for dtype in dtypes),
        lambda: ramp(a, b).requires_grad_(),
        lambda: ramp(a, b).requires_grad_() * 1,
        lambda: torch.nn.Parameter(ramp(a, b)),
        lambda: torch.nn.Parameter(ramp(a, b), requires_grad=False),
        lambda: torch.nn.Buffer(ramp(a, b)),
        lambda: ramp(a, b).as_subclass(Plain),
        lambda: ramp(a, b).as_subclass(Loud),
        lambda: ramp(a, b).to(torch.complex64).conj(),
        lambda: ramp(a, b).to(torch.complex64).conj().imag,
        lambda: ramp(a, b)._neg_view(),
        lambda: _in_inference_mode(a, b),
        lambda: _marked(a, b),
        lambda: _tagged(a, b),
        lambda: _with_grad(a, b),
        lambda: ramp(a, b).to_sparse(),
        lambda: torch.empty(a, b, device="meta"),
        lambda: ramp(a, b).requires_grad_().detach(),
        lambda: ramp(a, b).requires_grad_().view(a, b),
        lambda: ramp(a, b).numpy(),
        lambda: ramp(a, b).tolist(),
        lambda: None,
        lambda: 1.5,
    ]


def tensor(name: str, a: int = 4, b: int = 6, *more) -> Slot:
    return argument(name, *layouts(a, b), *kinds(a, b), *more)


def same_as(other: str) -> list:
    """The object of another slot, or a view of its memory."""
    return [
        lambda made: made[other],
        lambda made: made[other].view(made[other].shape),
        lambda made: made[other].detach(),
        lambda made: made[other].flip(0),
        lambda made: made[other].reshape(-1)[:0],
    ]


SCALARS = (
    3,
    0,
    1,
    -1,
    2,
    4,
    7,
    16,
    -3,
    -7,
    True,
    False,
    3.0,
    0.0,
    -0.0,
    1.0,
    2.5,
    math.nan,
    -math.nan,
    math.inf,
    -math.inf,
    5e-324,
    2**31 - 1,
    2**31,
    2**32 + 3,
    -(2**31) - 1,
    2**62,
    2**63 - 1,
    2**63,
    -(2**63),
    -(2**63) - 1,
    2**64,
    2**64 + 3,
    10**30,
    3 + 0j,
    0j,
    complex(0.0, -0.0),
    complex(-0.0, 0.0),
    complex(math.nan, 0),
    "3",
    "",
    b"3",
    None,
    (),
    [],
    Int(3),
    Float(3.0),
    Number.THREE,
    Number.ONE,
    Colour.RED,
    numpy.int64(3),
    numpy.float32(3.0),
    numpy.float64(3.0),
    decimal.Decimal(3),
    torch.float32,
    torch.Size([3]),
    slice(3),
    range(3),
    int,
    float,
)


def scalar(name: str, first=3) -> Slot:
    return argument(name, *constants(first, *SCALARS), lambda: torch.tensor(3), lambda: torch.tensor(3.0))


def one_of(name: str, *values) -> Slot:
    return argument(name, *constants(*values))
