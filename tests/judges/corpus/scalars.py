"""Functions of numbers, strings and other constants."""

from __future__ import annotations

import math

import torch

from ..places import argument, constants, subject
from ..values import Colour, Number, Str, layouts, one_of, ramp, scalar, tensor

X = argument("x", *layouts(4, 6)[:6])


@subject(X, scalar("a"))
def plus_int(x, a):
    return x + a


@subject(X, scalar("a", 4), dynamic=True)
def plus_symbol(x, a):
    return x + a, a


@subject(X, scalar("a", 4), scalar("b", 7), dynamic=True)
def int_arithmetic(x, a, b):
    if a // b > 2 or a % 5 == 3:
        return x * (a // 2) + b % 3
    return x - a * b


@subject(X, scalar("a", 8), dynamic=True)
def floor_of_negatives(x, a):
    return x + (a - 10) // 3, (a - 10) % 3, -a // 4


@subject(
    X, one_of("a", 4, 3, 0, 1, 2, 17, True, False, 4.0, -1, 4 + 0j, 2**63, "4", None, (4,), Number.THREE), dynamic=True
)
def sized_by(x, a):
    return x.new_zeros(a, 2) + 1


@subject(X, scalar("a", 2.5))
def times_float(x, a):
    return x * a


@subject(X, scalar("a", 0.0))
def sign_of_zero(x, a):
    return x + 1, math.copysign(1.0, a)


@subject(X, scalar("a", math.nan))
def not_a_number(x, a):
    return x * a, a


@subject(X, scalar("a", True))
def flag(x, a):
    return x * 2 if a else x * 3


@subject(X, scalar("a", True))
def flag_returned(x, a):
    return x * 2, a


@subject(X, scalar("a", 3 + 0j))
def times_complex(x, a):
    return x * a


@subject(X, scalar("a", None))
def none_or_number(x, a):
    return x * 2 if a is None else x + a


@subject(X, one_of("mode", "add", "sub", "ADD", "", Str("add"), b"add", None, 3, "ad" + "d", "додати"))
def mode(x, mode):
    return x + 1 if mode == "add" else x - 1


@subject(X, one_of("mode", b"add", b"sub", "add", b"", bytearray(b"add"), None))
def mode_in_bytes(x, mode):
    return x + 1 if mode == b"add" else x - 1


@subject(X, one_of("colour", Colour.RED, Colour.BLUE, 1, None, Number.ONE, "RED"))
def coloured(x, colour):
    return x + 1 if colour is Colour.RED else x - 1


@subject(X, one_of("n", Number.THREE, Number.ONE, 3, 1, True, Colour.RED))
def int_enum(x, n):
    return x + n, n


@subject(
    X,
    one_of(
        "dtype", torch.float32, torch.float64, torch.int32, torch.bool, None, "float32", float, int, torch.complex64
    ),
)
def made_of_dtype(x, dtype):
    return torch.ones(2, 3, dtype=dtype) + 1, x.to(dtype)


@subject(
    X,
    argument(
        "device", *constants(torch.device("cpu"), torch.device("meta"), "cpu", None, torch.device("cpu", 0), "meta")
    ),
)
def made_on_device(x, device):
    return torch.ones(2, 3, device=device) + 1, x * 2


@subject(
    X, argument("layout", *constants(torch.contiguous_format, torch.channels_last, torch.preserve_format, None, 0))
)
def in_memory_format(x, layout):
    return (x + 1).contiguous(memory_format=layout)


@subject(
    X,
    argument(
        "s", *constants(slice(1, 3), slice(0, 3), slice(1, 3, 1), slice(None), slice(True, 3), 1, (1, 2), None, ...)
    ),
)
def sliced(x, s):
    return x[s] + 1


@subject(
    X, argument("r", *constants(range(3), range(3), range(4), range(0, 3, 2), range(1, 4), (0, 1, 2), [0, 1, 2], 3))
)
def over_a_range(x, r):
    for i in r:
        x = x + i
    return x


@subject(X, argument("kind", *constants(int, float, bool, str, None, Number)))
def of_a_class(x, kind):
    return x + kind(1)


@subject(X, argument("f", *constants(torch.relu, torch.sigmoid, torch.abs, len, None, torch.Tensor.relu, math.sin)))
def applied(x, f):
    return f(x) + 1


@subject(X, scalar("a", 3), scalar("b", 3))
def two_numbers(x, a, b):
    return x + 1 if a is b else x + 2


@subject(
    X,
    argument(
        "size",
        *constants(torch.Size([2, 3]), torch.Size([3, 2]), (2, 3), [2, 3], (2, True), (2.0, 3), torch.Size([2, 3, 1])),
    ),
)
def of_size(x, size):
    return torch.zeros(size) + 1, size


@subject(argument("x", lambda: ramp(4, 6)), argument("a", *constants("x", "y")), tensor("y"))
def formatted(x, a, y):
    return {f"{a}_sum": x.sum(), f"{a}_mean": y * 2}
