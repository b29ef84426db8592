"""The operators, shapes and dtypes that FlagGems is measured at: 21 operators, five shapes each, bf16 and fp32.

Shapes are those of language models: tokens times hidden, intermediate, head and vocabulary sizes of Qwen3-8B (4096,
12288, 128, 151936) and DeepSeek-V2-Lite (2048, 10944, 1408, 102400), one token to a short prompt. `SMALL` has the same
ranks, remainders and order of magnitude between each other, for interpreted kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


@dataclass(frozen=True)
class Dimensions:
    rows: tuple  # (tokens, features), five
    matmul: tuple  # (M, K, N), five
    heads: tuple  # (batch, M, K, N), five
    images: tuple  # (batch, channels, size, filters), five
    vocabulary: int


FULL = Dimensions(
    rows=((1, 4096), (1, 12288), (16, 4096), (128, 2048), (512, 4096)),
    matmul=((1, 4096, 4096), (1, 4096, 1024), (16, 4096, 4096), (128, 2048, 2048), (512, 2048, 1408)),
    heads=((32, 1, 128, 64), (32, 16, 128, 128), (32, 128, 128, 128), (16, 64, 192, 64), (16, 256, 128, 256)),
    images=((1, 16, 32, 16), (1, 32, 64, 32), (4, 16, 32, 32), (8, 16, 16, 16), (1, 64, 28, 64)),
    vocabulary=102400,
)
SMALL = Dimensions(
    rows=((1, 128), (1, 384), (4, 128), (8, 64), (16, 128)),
    matmul=((1, 64, 64), (1, 64, 16), (16, 64, 64), (32, 32, 32), (48, 32, 24)),
    heads=((2, 1, 16, 16), (2, 16, 16, 16), (2, 32, 16, 16), (3, 16, 32, 16), (1, 32, 16, 32)),
    images=((1, 4, 8, 4), (1, 4, 6, 8), (2, 4, 8, 4), (2, 2, 4, 4), (1, 8, 5, 8)),
    vocabulary=640,
)


@dataclass(frozen=True)
class Operator:
    """`function` of flag_gems; `arguments(dims, index, make)` for the index-th shape, with what they look like. `called`:
    PyTorch's own call with the same arguments, where the dispatcher passes them on unchanged."""

    name: str
    function: str
    arguments: Callable
    called: Callable | None = None


@dataclass(frozen=True)
class Case:
    operator: Operator
    shape: str
    dtype: str
    args: tuple


class Maker:
    """Tensors of one dtype on one device, the same values in every process."""

    def __init__(self, dtype: torch.dtype, device: str, seed: int) -> None:
        self.dtype, self.device = dtype, device
        self.random = torch.Generator(device).manual_seed(seed)

    def tensor(self, *shape: int) -> torch.Tensor:
        values = torch.randn(*shape, generator=self.random, device=self.device, dtype=torch.float32)
        return values.to(self.dtype)

    def mask(self, *shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=self.random, device=self.device) > 0.5

    def tokens(self, count: int, vocabulary: int) -> torch.Tensor:
        return torch.randint(0, vocabulary, (count,), generator=self.random, device=self.device)


def _rows(build: Callable) -> Callable:
    return lambda dims, index, make: (build(make, *dims.rows[index]), "x".join(map(str, dims.rows[index])))


def _cat(make, rows, columns):
    return [make.tensor(rows, columns), make.tensor(rows, columns)], 0


def _embedding(dims, index, make):
    rows, columns = dims.rows[index]
    table = make.tensor(dims.vocabulary if columns <= 4096 else 1000, columns)
    return (table, make.tokens(rows, table.shape[0])), f"{rows} of {table.shape[0]}x{columns}"


def _mm(dims, index, make):
    M, K, N = dims.matmul[index]
    return (make.tensor(M, K), make.tensor(K, N)), f"{M}x{K}x{N}"


def _addmm(dims, index, make):
    (a, b), shape = _mm(dims, index, make)
    return (make.tensor(b.shape[1]), a, b), shape


def _bmm(dims, index, make):
    batch, M, K, N = dims.heads[index]
    return (make.tensor(batch, M, K), make.tensor(batch, K, N)), f"{batch}x{M}x{K}x{N}"


def _conv2d(dims, index, make):
    batch, channels, size, filters = dims.images[index]
    image, weight = make.tensor(batch, channels, size, size), make.tensor(filters, channels, 3, 3)
    return (image, weight, None, 1, 1), f"{batch}x{channels}x{size}x{size}, {filters} 3x3"


_F = torch.nn.functional
OPERATORS = (
    Operator("rms_norm", "rms_norm_forward", _rows(lambda m, r, c: (m.tensor(r, c), (c,), m.tensor(c), 1e-6))),
    Operator("embedding", "embedding", _embedding, lambda table, tokens: _F.embedding(tokens, table)),
    Operator("silu", "silu", _rows(lambda m, r, c: (m.tensor(r, c),)), _F.silu),
    Operator("add", "add", _rows(lambda m, r, c: (m.tensor(r, c), m.tensor(r, c))), torch.add),
    Operator("mul", "mul", _rows(lambda m, r, c: (m.tensor(r, c), m.tensor(r, c))), torch.mul),
    Operator("neg", "neg", _rows(lambda m, r, c: (m.tensor(r, c),)), torch.neg),
    Operator("gelu", "gelu", _rows(lambda m, r, c: (m.tensor(r, c),)), _F.gelu),
    Operator("pow", "pow_tensor_scalar", _rows(lambda m, r, c: (m.tensor(r, c), 2)), torch.pow),
    Operator("lt", "lt", _rows(lambda m, r, c: (m.tensor(r, c), m.tensor(r, c))), torch.lt),
    Operator("where", "where_self", _rows(lambda m, r, c: (m.mask(r, c), m.tensor(r, c), m.tensor(r, c))), torch.where),
    Operator("masked_fill", "masked_fill", _rows(lambda m, r, c: (m.tensor(r, c), m.mask(r, c), 0.0)),
             torch.masked_fill),
    Operator("softmax", "softmax", _rows(lambda m, r, c: (m.tensor(r, c), -1))),
    Operator("layer_norm", "layer_norm", _rows(lambda m, r, c: (m.tensor(r, c), (c,), m.tensor(c), m.tensor(c)))),
    Operator("sum_dim", "sum_dim", _rows(lambda m, r, c: (m.tensor(r, c), [1])), torch.sum),
    Operator("cumsum", "cumsum", _rows(lambda m, r, c: (m.tensor(r, c), 1)), torch.cumsum),
    Operator("cat", "cat", _rows(_cat), torch.cat),
    Operator("sort", "sort", _rows(lambda m, r, c: (m.tensor(r, c),)), torch.sort),
    Operator("conv2d", "conv2d", _conv2d),
    Operator("addmm", "addmm", _addmm, torch.addmm),
    Operator("bmm", "bmm", _bmm, torch.bmm),
    Operator("mm", "mm", _mm, torch.mm),
)  # fmt: skip
SHAPES = 5


def cases(operator: Operator, dtype: str, device: str, dims: Dimensions = FULL, shapes: int = SHAPES) -> Iterator[Case]:
    for index in range(shapes):
        args, shape = operator.arguments(dims, index, Maker(DTYPES[dtype], device, seed=index))
        yield Case(operator, shape, dtype, args)
