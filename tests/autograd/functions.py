"""`torch.autograd.Function`s around Triton kernels, written as operator libraries write them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable

BLOCK = 64


@triton.jit
def _silu_forward(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    value = tl.load(x + offsets, mask=inside, other=0.0)
    tl.store(y + offsets, value / (1 + tl.exp(-value)), mask=inside)


@triton.jit
def _silu_backward(x, grad, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    value = tl.load(x + offsets, mask=inside, other=0.0)
    sigmoid = 1 / (1 + tl.exp(-value))
    slope = sigmoid * (1 + value * (1 - sigmoid))
    tl.store(out + offsets, tl.load(grad + offsets, mask=inside, other=0.0) * slope, mask=inside)


class Silu(torch.autograd.Function):
    """x * sigmoid(x)."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        _silu_forward[(triton.cdiv(n, BLOCK),)](x, y, n, BLOCK=BLOCK)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        grad = grad.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        _silu_backward[(triton.cdiv(n, BLOCK),)](x, grad, out, n, BLOCK=BLOCK)
        return out


def silu(x):
    return Silu.apply(x)


@triton.jit
def _rms_forward(x, weight, y, inverse, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    value = tl.load(x + row * N + cols, mask=inside, other=0.0)
    scale = 1 / tl.sqrt(tl.sum(value * value, axis=0) / N + eps)
    tl.store(inverse + row, scale)
    tl.store(y + row * N + cols, value * scale * tl.load(weight + cols, mask=inside, other=0.0), mask=inside)


@triton.jit
def _rms_backward(x, weight, inverse, grad, out, partial, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    value = tl.load(x + row * N + cols, mask=inside, other=0.0)
    above = tl.load(grad + row * N + cols, mask=inside, other=0.0)
    scale = tl.load(inverse + row)
    tl.store(partial + row * N + cols, above * value * scale, mask=inside)
    weighted = above * tl.load(weight + cols, mask=inside, other=0.0)
    mean = tl.sum(weighted * value, axis=0) / N
    tl.store(out + row * N + cols, scale * (weighted - value * scale * scale * mean), mask=inside)


class RmsNorm(torch.autograd.Function):
    """x / rms(x) * weight over the last dimension. Keeps numbers on ctx beside the saved tensors."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        rows, N = x.shape
        y = torch.empty_like(x)
        inverse = torch.empty(rows, dtype=x.dtype, device=x.device)
        block = triton.next_power_of_2(N)
        _rms_forward[(rows,)](x, weight, y, inverse, N, eps, BLOCK=block)
        ctx.save_for_backward(x, weight, inverse)
        ctx.block, ctx.rows = block, rows
        return y

    @staticmethod
    def backward(ctx, grad):
        x, weight, inverse = ctx.saved_tensors
        out, partial = torch.empty_like(x), torch.empty_like(x)
        _rms_backward[(ctx.rows,)](x, weight, inverse, grad.contiguous(), out, partial, x.shape[1], BLOCK=ctx.block)
        return out, partial.sum(0), None


def rms_norm(x, weight, eps=1e-5):
    return RmsNorm.apply(x, weight, eps)


@triton.jit
def _mul_add(a, b, c, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    product = tl.load(a + offsets, mask=inside) * tl.load(b + offsets, mask=inside)
    tl.store(out + offsets, product + tl.load(c + offsets, mask=inside), mask=inside)


@triton.jit
def _mul(a, b, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out + offsets, tl.load(a + offsets, mask=inside) * tl.load(b + offsets, mask=inside), mask=inside)


class MulAdd(torch.autograd.Function):
    """a * b + c, dense and of one shape. Computes the gradients that are asked for."""

    @staticmethod
    def forward(ctx, a, b, c):
        out = torch.empty_like(a)
        n = a.numel()
        _mul_add[(triton.cdiv(n, BLOCK),)](a, b, c, out, n, BLOCK=BLOCK)
        ctx.save_for_backward(a, b)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        grad = grad.contiguous()
        n = a.numel()
        of_a = of_b = None
        if ctx.needs_input_grad[0]:
            of_a = torch.empty_like(a)
            _mul[(triton.cdiv(n, BLOCK),)](grad, b, of_a, n, BLOCK=BLOCK)
        if ctx.needs_input_grad[1]:
            of_b = torch.empty_like(b)
            _mul[(triton.cdiv(n, BLOCK),)](grad, a, of_b, n, BLOCK=BLOCK)
        return of_a, of_b, grad if ctx.needs_input_grad[2] else None


def mul_add(a, b, c):
    return MulAdd.apply(a, b, c)


class CastMul(torch.autograd.Function):
    """a * b in float32 whatever autocast says."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, a, b):
        out = torch.empty_like(a)
        n = a.numel()
        _mul[(triton.cdiv(n, BLOCK),)](a, b, out, n, BLOCK=BLOCK)
        ctx.save_for_backward(a, b)
        return out

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        n = a.numel()
        of_a, of_b = torch.empty_like(a), torch.empty_like(b)
        _mul[(triton.cdiv(n, BLOCK),)](grad.contiguous(), b, of_a, n, BLOCK=BLOCK)
        _mul[(triton.cdiv(n, BLOCK),)](grad.contiguous(), a, of_b, n, BLOCK=BLOCK)
        return of_a, of_b


class SetUp(torch.autograd.Function):
    """The form with setup_context: forward knows no ctx."""

    @staticmethod
    def forward(a, b):
        out = torch.empty_like(a)
        n = a.numel()
        _mul[(triton.cdiv(n, BLOCK),)](a, b, out, n, BLOCK=BLOCK)
        return out

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        n = a.numel()
        of_a, of_b = torch.empty_like(a), torch.empty_like(b)
        _mul[(triton.cdiv(n, BLOCK),)](grad.contiguous(), b, of_a, n, BLOCK=BLOCK)
        _mul[(triton.cdiv(n, BLOCK),)](grad.contiguous(), a, of_b, n, BLOCK=BLOCK)
        return of_a, of_b


class Doubling(torch.autograd.Function):
    """backward is made of differentiable operators: a second derivative exists."""

    @staticmethod
    def forward(ctx, a):
        out = torch.empty_like(a)
        n = a.numel()
        _mul[(triton.cdiv(n, BLOCK),)](a, a, out, n, BLOCK=BLOCK)
        ctx.save_for_backward(a)
        return out

    @staticmethod
    def backward(ctx, grad):
        (a,) = ctx.saved_tensors
        return SetUp.apply(grad, a) * 2


class InPlace(torch.autograd.Function):
    """a *= b. Announces that a has changed."""

    @staticmethod
    def forward(ctx, a, b):
        n = a.numel()
        _mul[(triton.cdiv(n, BLOCK),)](a, b, a, n, BLOCK=BLOCK)
        ctx.mark_dirty(a)
        ctx.save_for_backward(b)
        return a

    @staticmethod
    def backward(ctx, grad):
        (b,) = ctx.saved_tensors
        out = torch.empty_like(b)
        n = b.numel()
        _mul[(triton.cdiv(n, BLOCK),)](grad.contiguous(), b, out, n, BLOCK=BLOCK)
        return out, None


class WithoutSecond(torch.autograd.Function):
    """Two results, the second of which takes no gradient."""

    @staticmethod
    def forward(ctx, a, b):
        out, other = torch.empty_like(a), torch.empty_like(a)
        n = a.numel()
        _mul[(triton.cdiv(n, BLOCK),)](a, b, out, n, BLOCK=BLOCK)
        _mul[(triton.cdiv(n, BLOCK),)](a, a, other, n, BLOCK=BLOCK)
        ctx.mark_non_differentiable(other)
        ctx.save_for_backward(a, b)
        return out, other

    @staticmethod
    def backward(ctx, grad, _):
        a, b = ctx.saved_tensors
        n = a.numel()
        of_a, of_b = torch.empty_like(a), torch.empty_like(b)
        _mul[(triton.cdiv(n, BLOCK),)](grad.contiguous(), b, of_a, n, BLOCK=BLOCK)
        _mul[(triton.cdiv(n, BLOCK),)](grad.contiguous(), a, of_b, n, BLOCK=BLOCK)
        return of_a, of_b


class Sparse(torch.autograd.Function):
    """Wants to know which of its results took part: no zeros are made for the others."""

    @staticmethod
    def forward(ctx, a, b):
        out, other = torch.empty_like(a), torch.empty_like(a)
        n = a.numel()
        _mul[(triton.cdiv(n, BLOCK),)](a, b, out, n, BLOCK=BLOCK)
        _mul[(triton.cdiv(n, BLOCK),)](b, b, other, n, BLOCK=BLOCK)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, b)
        return out, other

    @staticmethod
    def backward(ctx, grad, other):
        a, b = ctx.saved_tensors
        n = a.numel()
        of_a = of_b = None
        if grad is not None:
            of_a, of_b = torch.empty_like(a), torch.empty_like(b)
            _mul[(triton.cdiv(n, BLOCK),)](grad.contiguous(), b, of_a, n, BLOCK=BLOCK)
            _mul[(triton.cdiv(n, BLOCK),)](grad.contiguous(), a, of_b, n, BLOCK=BLOCK)
        if other is not None:
            twice = other * b * 2
            of_b = twice if of_b is None else of_b + twice
        return of_a, of_b
