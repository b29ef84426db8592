"""Functions of one element, launched by wrappers that are made for each rank at first use."""

from __future__ import annotations

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from . import runtime
from .buffers import Strided


class Pointwise:
    def __init__(self, kernel, n_inputs: int) -> None:
        self.kernel, self.n_inputs = kernel, n_inputs
        self.scope = kernel.jit_function.fn.__globals__
        self.overloads = {}

    def __call__(self, *args):
        ndim, args, outs = self.prepare(*args)
        return self.instantiate(ndim)(*args, **outs).unwrap()

    def prepare(self, *args):
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        promoted = (arg for arg in args)
        _, dtype = elementwise_dtypes(*promoted, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
        first = tensors[0]
        if not all(t.is_contiguous() for t in tensors) and not torch.ops.aten.is_non_overlapping_and_dense(first):
            args = tuple(arg.contiguous() for arg in args)
        out = torch.empty_like(first, dtype=dtype)
        flat = (first.numel(),)
        return 1, tuple(Strided(arg, flat, (1,)) for arg in args), {"out": Strided(out, flat, (1,))}

    def instantiate(self, ndim: int):
        key = f"{ndim}_flat"
        if key in self.overloads:
            return self.overloads[key]
        space = {"kernel": self.kernel, "runtime": runtime}
        names = ", ".join(f"in{i}" for i in range(self.n_inputs))
        exec(  # as libraries write such wrappers: text, to a file or not
            f"def wrapper({names}, *, out):\n"
            f"    n = out.numel()\n"
            f"    block = 64\n"
            f"    with runtime.device(in0.device.index):\n"
            f"        kernel[((n + block - 1) // block,)]({names}, out, n, BLOCK=block, num_warps=2)\n"
            f"    return out\n",
            space,
        )
        space.update(self.scope)  # the kernel's own globals, __name__ among them
        self.overloads[key] = space["wrapper"]
        return self.overloads[key]
