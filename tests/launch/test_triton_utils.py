"""Every kernel that PyTorch ships for its own tests of user-defined kernels: launched natively, or refused and why."""

from __future__ import annotations

import collections
import importlib
import sys
import types

import pytest
import torch
import triton

from . import compare, corpus

N = 256
A, B = torch.arange(float(N)), torch.ones(N)
OUT, WORKSPACE = torch.empty(N), torch.zeros(1024, dtype=torch.int8)
SQUARE, SQUARE_B, SQUARE_OUT = torch.ones(32, 32), torch.ones(32, 32), torch.empty(32, 32)
INTS, INTS_OUT = torch.arange(N, dtype=torch.int32), torch.empty(N, dtype=torch.int32)
HALF = torch.ones(16, 16).half()
M = torch.tensor([16], dtype=torch.int32)


def triton_utils():
    """The module, without the imports it makes only to decide which of PyTorch's tests are skipped (they need more than
    the wheel brings)."""
    name = "torch.testing._internal.inductor_utils"
    present = sys.modules.get(name)
    if present is None:
        sys.modules[name] = types.ModuleType(name)
        for flag in ("HAS_CUDA_AND_TRITON", "HAS_GPU", "HAS_XPU_AND_TRITON"):
            setattr(sys.modules[name], flag, False)
    try:
        return importlib.import_module("torch.testing._internal.triton_utils")
    finally:
        if present is None:
            del sys.modules[name]


def cdiv(n, name="BLOCK_SIZE"):
    return lambda meta: (triton.cdiv(n, meta[name]),)


def kernels() -> dict:
    """Kernel name -> a function of the module that launches it, as PyTorch's tests do."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    square = (SQUARE, SQUARE_B, SQUARE_OUT, 32, 32, WORKSPACE)
    three = ((A, B, OUT, N), {"BLOCK_SIZE": 64}, (4,))
    tuned = ((A, B, OUT, N), {}, cdiv(N))
    table = {
        "add_kernel": three,
        "sub_kernel": three,
        "add_kernel_with_optional_param": ((A, None, OUT, N), {"ARGS_PASSED": "one", "BLOCK_SIZE": 64}, (4,)),
        "add_kernel_with_none_param_and_equal_to_1_arg": ((A, None, OUT, N, 1),
                                                          {"ARGS_PASSED": "one", "BLOCK_SIZE": 64}, (4,)),
        "add_kernel_autotuned": tuned,
        "sub_kernel_autotuned": tuned,
        "add_kernel_autotuned_weird_param_order": ((A, B, N), {"out_ptr": OUT}, cdiv(N)),
        "add_kernel_2d_autotuned": ((SQUARE, SQUARE_B, SQUARE_OUT, 32, 32), {}, lambda meta: (
            triton.cdiv(32, meta["BLOCK_SIZE_X"]), triton.cdiv(32, meta["BLOCK_SIZE_Y"]))),
        "add_kernel_autotuned_with_unsupported_args": tuned,
        "add_kernel_with_scaling": ((A, B, OUT, N, 2.5), {"BLOCK_SIZE": 64}, (4,)),
        "add_kernel_on_device_tma_old_api": (square, {"BLOCK_SIZE": 16}, (2, 2)),
        "add_kernel_on_device_tma_new_api": (square, {"BLOCK_SIZE": 16}, (2, 2)),
        "mul2_kernel": ((A, OUT, N), {"BLOCK_SIZE": 64}, (4,)),
        "mul2_inplace_kernel": ((OUT, N), {"BLOCK_SIZE": 64}, (4,)),
        "indirection_kernel": ((A, OUT, N), {"BLOCK_SIZE": 64, "ACTIVATION": "add_kernel"}, (4,)),
        "double_strided_kernel": ((SQUARE, SQUARE_OUT, 32, 32), {"X_BLOCK_SIZE": 16, "Y_BLOCK_SIZE": 16}, (2, 2)),
        "inline_asm_kernel_is_pure_true": ((INTS, INTS, INTS_OUT, 3), {"BLOCK": 64}, (1,)),
        "inline_asm_kernel_is_pure_false": ((INTS, INTS, INTS_OUT, 3), {"BLOCK": 64}, (1,)),
        "add_kernel_with_block_ptr": three,
        "kernel_with_block_ptr_2d": ((A, OUT, N), {"BLOCK_SIZE": 64}, (4,)),
        "add_kernel_with_import": three,
        "cond_op_kernel": three,
        "atomic_add_kernel": three,
        "add_4_times_kernel": three,
        "add_kernel_out_of_order_fn2": ((A, B, N, OUT), {"BLOCK_SIZE": 64}, (4,)),
        "strange_config_matmul_kernel": ((HALF, HALF, HALF.clone(), M, 16, 16), {}, (1,)),
        "kernel_with_docstring_double_quotes": ((OUT, N), {"BLOCK_SIZE": 64}, (4,)),
        "kernel_with_docstring_single_quotes": ((OUT, N), {"BLOCK_SIZE": 64}, (4,)),
        "add_kernel_with_boolean_param": ((A, B, OUT, N, True), {"BLOCK_SIZE": 64}, (4,)),
    }  # fmt: skip
    for name in ("kernel_inline_asm_double_quotes", "kernel_inline_asm_single_quotes"):
        table[name] = ((A, OUT, N), {"BLOCK_SIZE": 64}, (4,))
    calls = {name: _launcher(name, *entry) for name, entry in table.items()}

    def descriptors(name, block, grid, tensors):
        kernel = getattr(triton_utils(), name)

        def launch(*tensors):
            kernel[grid](*(TensorDescriptor.from_tensor(t, block) for t in tensors), *block)

        return launch, tensors

    flat, matrices = (A, B, OUT), (SQUARE, SQUARE_B, SQUARE_OUT)
    for age in ("old", "new"):
        for rank, block, grid, tensors in ((1, [64], (4,), flat), (2, [16, 16], (2, 2), matrices)):
            name = f"add_kernel_with_tma_{rank}d_{age}_api"
            calls[name] = descriptors(name, block, grid, tensors)
    return calls


def _launcher(name: str, args: tuple, kwargs: dict, grid):
    """The tensors are the function's arguments, everything else is written into it."""
    kernel = getattr(triton_utils(), name)
    positions = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
    names = [key for key, value in kwargs.items() if isinstance(value, torch.Tensor)]

    def launch(*tensors):
        full, named = list(args), dict(kwargs)
        for i, position in enumerate(positions):
            full[position] = tensors[i]
        for i, key in enumerate(names):
            named[key] = tensors[len(positions) + i]
        kernel[grid](*full, **named)

    return launch, tuple(args[i] for i in positions) + tuple(kwargs[key] for key in names)


#: Not of this Triton or not of this backend: Triton itself cannot compile them, so there is no launch to capture.
NOT_LAUNCHABLE = {
    "add_kernel_with_tma_1d_old_api": "the experimental descriptor API is gone from Triton",
    "add_kernel_with_tma_2d_old_api": "the experimental descriptor API is gone from Triton",
    "add_kernel_on_device_tma_old_api": "the experimental descriptor API is gone from Triton",
    "kernel_inline_asm_rocm_double_quotes": "AMD assembly",
    "kernel_inline_asm_rocm_single_quotes": "AMD assembly",
    "zero_negs": "a helper that other kernels call",
}
#: Compiling AMD assembly for NVIDIA ends the process, inside LLVM.
UNTRIED = {"kernel_inline_asm_rocm_double_quotes", "kernel_inline_asm_rocm_single_quotes", "zero_negs"}
REFUSED = {}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_kernel_of_triton_utils():
    from triton.runtime import Autotuner, JITFunction

    every = {name for name, value in vars(triton_utils()).items() if isinstance(value, (JITFunction, Autotuner))}
    calls = kernels()
    assert every == set(calls) | UNTRIED, "PyTorch ships other kernels than this test knows"
    served, refused, impossible = [], {}, dict.fromkeys(UNTRIED, "not tried")
    with corpus.allocator(), compare.stable_tuning():
        for name, (fn, args) in calls.items():
            try:
                fn(*args)
            except Exception as error:
                impossible[name] = f"{type(error).__name__}"
                continue
            verdict = compare.judge(fn, args)
            if verdict.served:
                served.append(name)
            else:
                refused[name] = verdict.reason
    print(f"\n{len(served)} served, {len(refused)} refused, {len(impossible)} that Triton cannot launch here")
    for reason, count in collections.Counter(refused.values()).items():
        print(f"  {count} x {reason}")
    assert set(impossible) == set(NOT_LAUNCHABLE), impossible
    assert set(refused) == set(REFUSED), refused
    assert all(REFUSED[name] in reason for name, reason in refused.items()), refused
    assert len(served) / (len(served) + len(refused)) >= 0.9
