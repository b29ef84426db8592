"""Kernels of the launcher test: small, each for one way of passing something."""

from __future__ import annotations

import triton
import triton.language as tl

OFFSET = tl.constexpr(2)


@triton.jit
def plain(x, y, a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def copy_3d(x, y, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))
    i = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit(do_not_specialize=["a", "x"])
def not_specialized(x, y, a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit(do_not_specialize_on_alignment=["a", "x"])
def not_aligned(x, y, a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def as_i8(x, y, a: tl.int8, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def as_i16(x, y, a: tl.int16, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def as_i32(x, y, a: tl.int32, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def as_i64(x, y, a: tl.int64, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def as_u8(x, y, a: tl.uint8, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def as_u32(x, y, a: tl.uint32, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def as_u64(x, y, a: tl.uint64, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def as_u1(x, y, a: tl.int1, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def as_fp16(x, y, a: tl.float16, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def as_bf16(x, y, a: tl.bfloat16, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def as_fp32(x, y, a: tl.float32, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def as_fp64(x, y, a: tl.float64, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def as_pointer(x: "*fp32", y, n, BLOCK: tl.constexpr):  # noqa: F722
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, i.to(y.dtype.element_ty), mask=i < n)


@triton.jit
def as_constant_pointer(x: tl.const, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def with_none(x, bias, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    if bias is not None:
        value += tl.load(bias + i, mask=i < n)
    tl.store(y + i, value, mask=i < n)


@triton.jit
def with_defaults(x, y, n, a=3, b=1, BLOCK: tl.constexpr = 64):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, mask=i < n) * b + a).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def with_constants(x, y, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    if KIND == "double":
        value = value * 2
    tl.store(y + i, value, mask=i < n)


@triton.jit
def cast_to(x, y, n, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n).to(TYPE).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def with_warps_parameter(x, y, n, num_warps: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * num_warps, mask=i < n)


@triton.jit
def constants_first(BLOCK: tl.constexpr, x, FACTOR: tl.constexpr, y, n):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * FACTOR, mask=i < n)


@triton.jit
def nothing():
    pass


@triton.jit
def unused(x, y, n, flag, extra, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def helper(value):
    return value * OFFSET


@triton.jit
def with_helper(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, helper(tl.load(x + i, mask=i < n)), mask=i < n)


@triton.jit
def with_global(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + OFFSET, mask=i < n)


@triton.jit(debug=True)
def debugging(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def dot(a, b, c, N: tl.constexpr):
    """More than 48 KB of shared memory with N = 64 and four stages."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    for _ in tl.range(0, 4, num_stages=4):
        tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)).to(tl.float16))


@triton.jit
def scratch(x, y, m, n, BLOCK: tl.constexpr):
    """Builds tensor descriptors on the device, for which Triton allocates memory."""
    source = tl.make_tensor_descriptor(x, shape=[m, n], strides=[n, 1], block_shape=[BLOCK, BLOCK])
    result = tl.make_tensor_descriptor(y, shape=[m, n], strides=[n, 1], block_shape=[BLOCK, BLOCK])
    result.store([0, 0], source.load([0, 0]))


@triton.jit
def through_descriptor(x, y, BLOCK: tl.constexpr):
    y.store([0, 0], x.load([0, 0]))


# -- autotuned and heuristic


def _configs(*blocks, **options):
    return [triton.Config({"BLOCK": block}, num_warps=max(1, block // 32), **options) for block in blocks]


@triton.autotune(configs=_configs(64), key=[])
@triton.jit
def tuned_single(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.autotune(configs=_configs(32, 64, 128, 256), key=[])
@triton.jit
def tuned(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.autotune(configs=_configs(32, 64, 128, 256), key=["n"])
@triton.jit
def tuned_by_n(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 64}, num_warps=8, num_stages=2),
        triton.Config({"BLOCK": 64}, num_warps=2, num_stages=4),
        triton.Config({"BLOCK": 64}, num_warps=1, maxnreg=64),
    ],
    key=["n", "MODE"],
)
@triton.jit
def tuned_by_options(x, y, n, MODE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.autotune(configs=_configs(64, num_ctas=2), key=[])
@triton.jit
def clustered(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.autotune(configs=_configs(256, num_ctas=16), key=[])
@triton.jit
def clustered_16(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.autotune(configs=_configs(32, 64), key=["n"], reset_to_zero=["y"])
@triton.jit
def tuned_with_reset(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.autotune(configs=_configs(32, 64), key=["n"], restore_value=["y"])
@triton.jit
def tuned_with_restore(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(y + i, mask=i < n) + tl.load(x + i, mask=i < n), mask=i < n)


def keep_large(configs, named_args, **kwargs):
    return [config for config in configs if config.kwargs["BLOCK"] > 64]


@triton.autotune(configs=_configs(32, 64, 128, 256), key=["n"], prune_configs_by={"early_config_prune": keep_large})
@triton.jit
def tuned_and_pruned(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def guess(x, y, n, BLOCK, **options):
    return abs(BLOCK - 64)


@triton.autotune(configs=_configs(32, 64, 128), key=["n"], prune_configs_by={"perf_model": guess, "top_k": 1})
@triton.jit
def tuned_by_model(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def note_config(arguments):
    pass


@triton.autotune(configs=_configs(64, pre_hook=note_config), key=[])
@triton.jit
def tuned_with_hook(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def zero_result(arguments):
    arguments["y"].zero_()


@triton.autotune(configs=_configs(32, 64, pre_hook=zero_result), key=["n"])
@triton.jit
def tuned_with_effect(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(y + i, mask=i < n) + tl.load(x + i, mask=i < n), mask=i < n)


configs_used = []


def keep_account(arguments):
    configs_used.append(arguments["BLOCK"])


@triton.autotune(configs=_configs(64, pre_hook=keep_account), key=[])
@triton.jit
def tuned_with_account(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def set_blocks(arguments):
    arguments["source"].block_shape = arguments["result"].block_shape = [arguments["BLOCK"], 32]


@triton.autotune(configs=_configs(16, 32, pre_hook=set_blocks), key=[])
@triton.jit
def tuned_through_descriptor(source, result, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK
    result.store([row, 0], source.load([row, 0]))


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def heuristic(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + i, tl.load(x + i))
    else:
        tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})
@triton.heuristics({"HALF": lambda args: args["BLOCK"] // 2})
@triton.jit
def heuristic_twice(x, y, n, BLOCK: tl.constexpr, HALF: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + HALF, mask=i < n)


@triton.heuristics({"WIDE": lambda args: args["x"].element_size() > 2})
@triton.jit
def heuristic_on_a_tensor(x, y, n, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    if WIDE:
        value += 1
    tl.store(y + i, value, mask=i < n)


@triton.autotune(configs=_configs(32, 64), key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_heuristic(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + i, tl.load(x + i))
    else:
        tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.heuristics({"EVEN": lambda args: args["n"] % 64 == 0})
@triton.autotune(configs=_configs(32, 64), key=["n"])
@triton.jit
def heuristic_tuned(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + i, tl.load(x + i))
    else:
        tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)
