"""The launches of the launcher test: every way of passing something to a kernel, as users write it.

`CASES` has one entry per launch. One that is not served says why in `refused`; docs/launches.md lists those."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from triton.runtime._allocation import NullAllocator

from trident_hook.testing import simdriver

from . import kernels as k

X = torch.arange(96, dtype=torch.float32)
Y = torch.empty(96)
WIDE = torch.arange(400, dtype=torch.float32)
SQUARE = torch.ones(64, 64).half()
SQUARE_OUT = torch.empty(64, 64).half()


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    fn: Callable
    args: tuple
    before: tuple = ()  # argument tuples of earlier calls: they make a number symbolic
    around: Callable = contextlib.nullcontext  # what is set while the call is made, e.g. a stream
    on_gpu: Callable = contextlib.nullcontext  # the same on a real GPU, see on_gpu.py
    refused: str | None = None


class NotHere(Exception):
    """Says what a case needs that this machine does not have."""


CASES: list[Case] = []


def case(name: str, fn, *args, **options) -> None:
    assert all(known.name != name for known in CASES), name
    CASES.append(Case(name, fn, args, **options))


def launcher(kernel):
    """A function that passes one number to a kernel."""

    def launch(x, y, a):
        kernel[(triton.cdiv(x.numel(), 64),)](x, y, a, x.numel(), BLOCK=64)

    return launch


# -- ints by value

with_number = launcher(k.plain)
INTS = {"0": 0, "1": 1, "2": 2, "16": 16, "17": 17, "-1": -1, "-16": -16, "2^31-1": 2**31 - 1, "2^31": 2**31,
        "2^31+1": 2**31 + 1, "-2^31": -(2**31), "-2^31-1": -(2**31) - 1, "2^40": 2**40, "2^63-1": 2**63 - 1,
        "-2^63": -(2**63), "2^63": 2**63, "2^64-1": 2**64 - 1}  # fmt: skip
for text, value in INTS.items():
    case(f"int {text}", with_number, X, Y, value)
for text in ("2", "16", "17", "2^31", "2^63-1"):
    case(f"symbolic int {text}", with_number, X, Y, INTS[text], before=((X, Y, 5), (X, Y, 7), (X, Y, INTS[text])))

unspecialized, unaligned = launcher(k.not_specialized), launcher(k.not_aligned)
for text in ("1", "16", "17", "2^31"):
    case(f"do_not_specialize int {text}", unspecialized, X, Y, INTS[text])
    case(f"do_not_specialize_on_alignment int {text}", unaligned, X, Y, INTS[text])
case("do_not_specialize symbolic", unspecialized, X, Y, 16, before=((X, Y, 5), (X, Y, 7), (X, Y, 1)))
case("do_not_specialize_on_alignment symbolic", unaligned, X, Y, 16, before=((X, Y, 5), (X, Y, 7)))
case("do_not_specialize an unaligned pointer", unspecialized, X[1:], Y, 3)
case("do_not_specialize_on_alignment an unaligned pointer", unaligned, X[1:], Y, 3)

# -- annotated parameters

ANNOTATED = {"as_i8": (3, 1, 16), "as_i16": (300, -300), "as_i32": (3, 1, 16, -5), "as_i64": (3, 1, 16, 2**40, -7),
             "as_u8": (3, 255), "as_u32": (3, 2**32 - 1), "as_u64": (3, 2**40, 2**64 - 1), "as_u1": (True, False),
             "as_fp16": (1.5, 0.1, 65504.0, 3), "as_bf16": (1.5, 0.1, 1.005859375, 3), "as_fp32": (1.5, 0.1, 1e300, 3),
             "as_fp64": (1.5, 0.1, 1e300, 3)}  # fmt: skip
for name, values in ANNOTATED.items():
    through = launcher(getattr(k, name))
    for value in values:
        case(f"{name} {value}", through, X, Y, value)
for name in ("as_i8", "as_i16", "as_i32", "as_i64", "as_u8", "as_u32", "as_u64", "as_fp32", "as_fp64"):
    case(f"{name} symbolic", launcher(getattr(k, name)), X, Y, 48, before=((X, Y, 5), (X, Y, 7), (X, Y, 32)))
for name in ("as_fp16", "as_bf16"):
    # An int that has changed has no half yet that is bit for bit Triton's: each value is captured by itself, a call later.
    case(f"{name} value by value", launcher(getattr(k, name)), X, Y, 48,
         before=((X, Y, 5), (X, Y, 7), (X, Y, 32), (X, Y, 48)))  # fmt: skip

# -- floats, bools, None

FLOATS = {"0.0": 0.0, "-0.0": -0.0, "1.0": 1.0, "0.1": 0.1, "1e300": 1e300, "-1e39": -1e39, "inf": float("inf"),
          "nan": float("nan")}  # fmt: skip
for text, value in FLOATS.items():
    case(f"float {text}", with_number, X, Y, value)
for value in (True, False):
    case(f"bool {value}", with_number, X, Y, value)


def with_bias(x, bias, y):
    k.with_none[(2,)](x, bias, y, x.numel(), BLOCK=64)


case("None for a pointer", with_bias, X, None, Y)
case("a tensor where None may be", with_bias, X, X, Y)


def null_pointer(y):
    k.as_pointer[(2,)](None, y, y.numel(), BLOCK=64)


def annotated_pointer(x, y):
    k.as_pointer[(2,)](x, y, y.numel(), BLOCK=64)


def constant_pointer(x, y):
    k.as_constant_pointer[(2,)](x, y, x.numel(), BLOCK=64)


case("None for an annotated pointer", null_pointer, Y)
case("an annotated pointer", annotated_pointer, X, Y)
case("a half tensor for an annotated pointer to floats", annotated_pointer, X.half(), Y)
case("tl.const pointer", constant_pointer, X, Y)


def defaults(x, y):
    k.with_defaults[(2,)](x, y, x.numel())


def some_defaults(x, y, b):
    k.with_defaults[(2,)](x, y, x.numel(), b=b, BLOCK=32)


case("defaults", defaults, X, Y)
case("a default in the middle", some_defaults, X, Y, 2)

# -- constexprs


def constant(x, y, value):
    k.with_constants[(2,)](x, y, x.numel(), KIND=value, BLOCK=64)


for value in ("double", 3, 2.5, True, None, (1, 2)):
    case(f"constexpr {value!r}", constant, X, Y, value)


def constant_dtype(x, y):
    k.with_constants[(2,)](x, y, x.numel(), KIND=torch.float16, BLOCK=64)


def triton_dtype(x, y):
    k.cast_to[(2,)](x, y, x.numel(), TYPE=tl.float16, BLOCK=64)


def first_constants(x, y):
    k.constants_first[(2,)](64, x, 2, y, x.numel())


def computed_constant(x, y):
    k.copy[(1,)](x, y, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))


case("constexpr torch dtype", constant_dtype, X, Y)
case("constexpr triton dtype", triton_dtype, X, Y)
case("constexprs between the arguments", first_constants, X, Y)
case("a constexpr computed from a size", computed_constant, X, Y)
case(
    "a constexpr from a size that was symbolic", computed_constant, X, Y, before=((X[:40], Y), (X[:48], Y), (X[:90], Y))
)

# -- dtypes, views, alignment


def copy(x, y):
    k.copy[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)


for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32,
              torch.int64, torch.uint8, torch.bool, torch.float8_e5m2, torch.float8_e4m3fn):  # fmt: skip
    case(f"{str(dtype)[6:]} pointers", copy, torch.zeros(96).to(dtype), torch.zeros(96).to(dtype))
for dtype in (torch.uint16, torch.uint32, torch.uint64):
    case(f"{str(dtype)[6:]} pointers", copy, torch.zeros(96, dtype=dtype), torch.zeros(96, dtype=dtype))
case("an unaligned pointer", copy, X[1:], Y)
case("a view with an aligned offset", copy, X[4:], Y)
case("aligned after unaligned", copy, X[:80], Y, before=((X[1:81], Y), (X[:80], Y)))
case("a size that is 1", copy, X[:1], Y)
case("a symbolic size", copy, X[:90], Y, before=((X[:40], Y), (X[:50], Y), (X[:66], Y)))
case("a symbolic size divisible by 16", copy, X[:80], Y, before=((X[:40], Y), (X[:50], Y), (X[:48], Y)))
case("a tensor without elements", copy, X[:0], Y)
case("the same tensor twice", copy, X, X)
case("a transposed tensor", copy, SQUARE.t(), SQUARE_OUT)
case("a tensor of no dimensions", copy, torch.tensor(3.0), Y)
case("a parameter", copy, torch.nn.Parameter(X, requires_grad=False), Y)


def view_inside(x, y):
    k.copy[(1,)](x[1:], y[4:], 32, BLOCK=64)


def symbolic_view(x, y, start):
    k.copy[(1,)](x[start:], y, 32, BLOCK=64)


def through_intermediate(x):
    h = torch.empty_like(x)
    y = torch.empty_like(x, dtype=torch.float16)
    n = x.numel()
    k.copy[(triton.cdiv(n, 64),)](x, h, n, BLOCK=64)
    k.copy[(triton.cdiv(n, 64),)](h, y, n, BLOCK=64)
    return h, y


def through_operator(x):
    h = x + 1
    y = torch.empty(x.shape[0] * 2, dtype=x.dtype)
    k.copy[(2,)](h, y, x.shape[0], BLOCK=64)
    k.copy[(2,)](h, y[x.shape[0] :], x.shape[0], BLOCK=64)
    return h, y


def unaligned_intermediate(x):
    h = torch.empty_like(x)
    k.copy[(2,)](x[1:], h[1:], x.numel() - 1, BLOCK=64)
    return h[1:]


def strides(x, y):
    k.unused[(2,)](x, y, x.stride(0), x.size(0), x.size(1), BLOCK=64)


case("a view made inside", view_inside, X, Y)
case("a view with a symbolic offset", symbolic_view, X, Y, 8, before=((X, Y, 5), (X, Y, 4), (X, Y, 12)))
case("results as pointers", through_intermediate, X)
case("results as pointers, symbolic", through_intermediate, X[:70], before=((X[:40],), (X[:50],), (X[:64],)))
case("an operator's result as pointer", through_operator, X)
case("an unaligned view of a result", unaligned_intermediate, X)
case("strides and sizes as numbers", strides, SQUARE, Y)
case("unused parameters", lambda x, y: k.unused[(2,)](x, y, 96, True, None, BLOCK=64), X, Y)
case("a kernel without parameters", lambda x: k.nothing[(1,)](), X)

# -- options


def with_options(**options):
    def launch(x, y):
        k.copy[(2,)](x, y, x.numel(), BLOCK=64, **options)

    return launch


OPTIONS = [{"num_warps": 1}, {"num_warps": 8}, {"num_stages": 1}, {"num_warps": 2, "num_stages": 5}, {"maxnreg": 64},
           {"launch_pdl": True}, {"launch_cooperative_grid": True},
           {"launch_pdl": True, "launch_cooperative_grid": True},
           {"enable_fp_fusion": False}, {"sanitize_overflow": True}, {"debug": True}, {"num_warps": 4, "maxnreg": 128},
           {"maxnreg": None}, {"launch_pdl": False}]  # fmt: skip
for options in OPTIONS:
    case("options " + ", ".join(f"{name}={value}" for name, value in options.items()), with_options(**options), X, Y)
case("num_ctas as an option", with_options(num_ctas=2), X, Y)
case("num_ctas and num_warps as options", with_options(num_ctas=2, num_warps=8), X, Y)
case("num_ctas in a config", lambda x, y: k.clustered[(2,)](x, y, 96), X, Y)
case("num_ctas of 16 in a config", lambda x, y: k.clustered_16[(2,)](x, y, 96), X, Y)
case("num_ctas and a grid of three", lambda x, y: k.clustered[(2, 3, 4)](x, y, 96), X, Y)
case("num_ctas with PDL", lambda x, y: k.clustered[(2,)](x, y, 96, launch_pdl=True), X, Y)
case("a parameter named num_warps", lambda x, y: k.with_warps_parameter[(2,)](x, y, 96, num_warps=2, BLOCK=64), X, Y)
case("more than 48 KB of shared memory", lambda a, c: k.dot[(1,)](a, a, c, N=64), SQUARE, SQUARE_OUT)
case("shared memory below 48 KB", lambda a, c: k.dot[(1,)](a, a, c, N=16), SQUARE, SQUARE_OUT)
case("a kernel made with debug", lambda x, y: k.debugging[(2,)](x, y, 96, BLOCK=64), X, Y)
case("a helper with a global", lambda x, y: k.with_helper[(2,)](x, y, 96, BLOCK=64), X, Y)
case("a global of the kernel", lambda x, y: k.with_global[(2,)](x, y, 96, BLOCK=64), X, Y)


@contextlib.contextmanager
def allocator():
    """Gives the same memory every time, so that stock and native launches can be compared byte for byte. The kernels
    leave in it what they made of their own arguments."""
    device = "cpu" if simdriver.is_active() else "cuda"
    memory = torch.empty((1 << 16) + 128, dtype=torch.int8, device=device)
    memory = memory[-memory.data_ptr() % 128 :]

    def allocate(size, alignment, stream):
        assert 0 <= size <= memory.numel()
        assert memory.data_ptr() % alignment == 0
        return memory if size else None

    triton.set_allocator(allocate)
    try:
        yield
    finally:
        triton.set_allocator(NullAllocator())


for dims in ((1,), (3,), (2, 3), (2, 2, 2), (0,)):
    case(f"scratch memory, grid {dims}" + " of zero" * (0 in dims),
         lambda x, y, dims=dims: k.scratch[dims](x, y, 64, 64, BLOCK=32), SQUARE, SQUARE_OUT,
         around=allocator, on_gpu=allocator)  # fmt: skip


def scratch_between(x, y):
    """The second launch reads what the first has made, and the third wants no memory."""
    h, z = torch.zeros_like(x), torch.zeros_like(x)  # the kernels write parts
    k.scratch[(1,)](x, h, 64, 64, BLOCK=32)
    k.scratch[(2,)](h, y, 64, 64, BLOCK=16)
    k.copy[(2,)](y, z, 64, BLOCK=64)
    return h, z


def scratch_of_sizes(x, y):
    k.scratch[(triton.cdiv(x.shape[0], 16),)](x, y, x.shape[0], x.shape[1], BLOCK=16)


case("scratch memory in several launches", scratch_between, SQUARE, SQUARE_OUT, around=allocator, on_gpu=allocator)
case("scratch memory for a symbolic grid", scratch_of_sizes, SQUARE, SQUARE_OUT, around=allocator, on_gpu=allocator,
     before=((SQUARE[:32], SQUARE_OUT), (SQUARE[:48], SQUARE_OUT), (SQUARE[:16], SQUARE_OUT)))  # fmt: skip


def with_descriptors(x, y):
    from triton.tools.tensor_descriptor import TensorDescriptor

    source, result = TensorDescriptor.from_tensor(x, [16, 32]), TensorDescriptor.from_tensor(y, [16, 32])
    k.through_descriptor[(1,)](source, result, BLOCK=16)


case("tensor descriptors", with_descriptors, SQUARE, SQUARE_OUT)

# -- grids


def grid(dims):
    def launch(x, y):
        k.copy_3d[dims](x, y, x.numel(), BLOCK=32)

    return launch


for dims in ((1,), (3,), (3, 2), (3, 2, 4), (1, 1, 1), (0,), (3, 0), (2, 2, 0), (65535, 1), (1, 65535, 1)):
    case(f"grid {dims}", grid(dims), X, Y)
case("a grid function", grid(lambda meta: (triton.cdiv(96, meta["BLOCK"]), 2)), X, Y)
case("a grid function that reads an argument", grid(lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)), X, Y)
case("a grid as a list", grid([3, 2]), X, Y)
case("a grid of four", grid((1, 2, 3, 4)), X, Y)
case("a grid function that returns a list", grid(lambda meta: [triton.cdiv(96, meta["BLOCK"]), 2, 1, 7]), X, Y)


def symbolic_grid(x, y, a, b):
    k.copy_3d[(a, triton.cdiv(b, 3), b)](x, y, 32, BLOCK=32)


def grid_of_a_size(x, y):
    k.copy_3d[(triton.cdiv(x.shape[0], 32), min(x.shape[0], 7))](x, y, x.shape[0], BLOCK=32)


EARLIER = ((X, Y, 2, 3), (X, Y, 4, 5), (X, Y, 6, 7))
case("a symbolic grid", symbolic_grid, X, Y, 7, 8, before=EARLIER)
case("a symbolic grid of zero", symbolic_grid, X, Y, 0, 8, before=(*EARLIER, (X, Y, 0, 8)))
case("a symbolic grid with a one", symbolic_grid, X, Y, 1, 8, before=(*EARLIER, (X, Y, 1, 8)))
case("a grid from a size", grid_of_a_size, X[:77], Y, before=((X[:40], Y), (X[:50], Y), (X[:70], Y)))
case("a large symbolic grid", symbolic_grid, X, Y, 2**20, 8, before=EARLIER)
case("run with a grid", lambda x, y: k.copy.run(x, y, 96, BLOCK=64, grid=(2,), warmup=False), X, Y)

# -- autotuned and heuristic


def tuned(kernel):
    def launch(x, y):
        kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())

    return launch


for name in ("tuned_single", "tuned", "tuned_by_n", "tuned_with_reset", "tuned_with_restore", "tuned_and_pruned",
             "tuned_by_model"):  # fmt: skip
    case(name, tuned(getattr(k, name)), X, Y)
case("tuned with hook in a config", tuned(k.tuned_with_hook), X, Y)
case("tuned with a hook that writes", tuned(k.tuned_with_effect), X, Y)
case("tuned with a hook that writes, symbolic", tuned(k.tuned_with_effect), X[:70], Y,
     before=((X[:40], Y), (X[:50], Y), (X[:70], Y)))  # fmt: skip
case("tuned with a hook that keeps account", tuned(k.tuned_with_account), X, Y, refused="pre_hook")


def with_tuned_descriptors(x, y):
    from triton.tools.tensor_descriptor import TensorDescriptor

    source, result = (TensorDescriptor.from_tensor(tensor, [1, 32]) for tensor in (x, y))
    k.tuned_through_descriptor[lambda meta: (64 // meta["BLOCK"],)](source, result)


case("tuned with a hook that sets blocks", with_tuned_descriptors, SQUARE, SQUARE_OUT)
case("tuned, options", lambda x, y: k.tuned_by_options[(2,)](x, y, x.numel(), "a"), X, Y)
case("tuned, another dtype", tuned(k.tuned), X.half(), Y.half(), before=((X, Y),))
case("tuned, symbolic", tuned(k.tuned), X[:70], Y, before=((X[:40], Y), (X[:50], Y), (X[:66], Y)))
case("tuned by n, symbolic", tuned(k.tuned_by_n), X[:70], Y, before=((X[:40], Y), (X[:50], Y), (X[:70], Y)))
case("tuned, a fixed grid", lambda x, y: k.tuned[(2,)](x, y, x.numel()), X, Y)
case("tuned, an unaligned pointer", tuned(k.tuned), X[1:], Y, before=((X[:95], Y),))
case("heuristic", lambda x, y: k.heuristic[(3,)](x, y, x.numel(), BLOCK=32), X, Y)
case("heuristic, the other value", lambda x, y: k.heuristic[(3,)](x, y, x.numel(), BLOCK=64), X, Y)
case("heuristics stacked", lambda x, y: k.heuristic_twice[(1,)](x, y, x.numel()), X, Y)
case("heuristic on a tensor", lambda x, y: k.heuristic_on_a_tensor[(2,)](x, y, x.numel(), BLOCK=64), X, Y)
case("autotune over heuristics", tuned(k.tuned_heuristic), X, Y)
case("heuristics over autotune", tuned(k.heuristic_tuned), X, Y)
case("heuristic, symbolic", lambda x, y: k.heuristic[(3,)](x, y, x.numel(), BLOCK=32), X[:64], Y,
     before=((X[:40], Y), (X[:50], Y), (X[:64], Y)))  # fmt: skip

# -- several launches


def twice(x, y):
    k.copy[(2,)](x, y, x.numel(), BLOCK=64)
    k.copy[(2,)](x, y, x.numel(), BLOCK=64)


def twice_differently(x, y):
    k.copy[(2,)](x, y, x.numel(), BLOCK=64)
    k.copy[(1,)](x[1:], y, 17, BLOCK=32, num_warps=1)
    k.plain[(2,)](x, y, 1, x.numel(), BLOCK=64)
    k.plain[(2,)](x, y, 2.5, x.numel(), BLOCK=64)


def in_a_loop(x, y):
    for i in range(4):
        k.plain[(2,)](x, y, i, x.numel(), BLOCK=64)


case("a kernel twice", twice, X, Y)
case("kernels twice with different binaries", twice_differently, X, Y)
case("a loop over launches", in_a_loop, X, Y)

# -- streams and devices


@contextlib.contextmanager
def real_stream():
    with torch.cuda.stream(torch.cuda.Stream()):
        yield


@contextlib.contextmanager
def stream_of_the_other_device():
    with simdriver.device(1), simdriver.stream(99):
        yield


@contextlib.contextmanager
def other_device(stream: bool = False):
    """The tensors stay where they are. A copy in each direction lets each device read the other's memory."""
    if torch.cuda.device_count() < 2:
        raise NotHere("one GPU only")
    if not (torch.cuda.can_device_access_peer(0, 1) and torch.cuda.can_device_access_peer(1, 0)):
        raise NotHere("the GPUs cannot read each other's memory")
    for one, other in ((0, 1), (1, 0)):
        torch.ones(1, device=f"cuda:{one}").to(f"cuda:{other}")
    with torch.cuda.device(1), real_stream() if stream else contextlib.nullcontext():
        yield


case("another stream", copy, X, Y, around=lambda: simdriver.stream(4711), on_gpu=real_stream)
case("another device", copy, X, Y, around=lambda: simdriver.device(1), on_gpu=other_device)
case(
    "a stream of another device",
    copy,
    X,
    Y,
    around=stream_of_the_other_device,
    on_gpu=lambda: other_device(stream=True),
)
case(
    "a cluster on a stream",
    lambda x, y: k.clustered[(2,)](x, y, 96),
    X,
    Y,
    around=lambda: simdriver.stream(5),
    on_gpu=real_stream,
)
