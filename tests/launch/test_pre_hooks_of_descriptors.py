"""Tensor descriptors whose blocks the `pre_hook` of a tuner's config sets, as Triton's own tutorials do: the launch is the
one that Triton makes, byte for byte, and a descriptor that is used again is the one that the hook has left."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from support.routes import routed, twin, warm
from triton.tools.tensor_descriptor import TensorDescriptor

import trident_hook
from trident_hook.testing import simdriver

from . import compare


@pytest.fixture(autouse=True)
def interpreted(clean_slate):
    simdriver.install(n_devices=2, interpret=True)
    with compare.stable_tuning():
        yield


# -- the tutorial of the persistent matrix product -----------------------------------------------------------------------


def set_blocks(nargs) -> None:
    subtile = nargs.get("EPILOGUE_SUBTILE", False)
    block_m, block_n, block_k = nargs["BLOCK_M"], nargs["BLOCK_N"], nargs["BLOCK_K"]
    nargs["a"].block_shape = [block_m, block_k]
    nargs["b"].block_shape = [block_n, block_k]
    nargs["c"].block_shape = [block_m, block_n // 2 if subtile else block_n]


def set_blocks_of_descriptors(nargs) -> None:
    """As the tutorial of attention does, which is given pointers on other GPUs."""
    if not isinstance(nargs["a"], TensorDescriptor):
        return
    set_blocks(nargs)


def configs(hook, *sizes) -> list:
    return [triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "EPILOGUE_SUBTILE": subtile}, pre_hook=hook)
            for m, n, k in sizes for subtile in (True, False)]  # fmt: skip


@triton.jit
def product(a, b, c, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
            EPILOGUE_SUBTILE: tl.constexpr):  # fmt: skip
    at_m, at_n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        total = tl.dot(a.load([at_m, k]), b.load([at_n, k]).T, total)
    if EPILOGUE_SUBTILE:
        halves = tl.permute(tl.reshape(total, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
        first, second = tl.split(halves)
        c.store([at_m, at_n], first.to(tl.float16))
        c.store([at_m, at_n + BLOCK_N // 2], second.to(tl.float16))
    else:
        c.store([at_m, at_n], total.to(tl.float16))


def tuned_product(hook, *sizes):
    return triton.autotune(configs(hook, *sizes), key=["K"])(product)


def multiplying(kernel):
    def matmul(a, b, c):
        M, N, K = a.shape[0], b.shape[0], a.shape[1]
        dummy = [1, 1]  # one list for all three
        a_desc = TensorDescriptor(a, a.shape, a.stride(), dummy)
        b_desc = TensorDescriptor.from_tensor(b, dummy)
        c_desc = TensorDescriptor(c, c.shape, c.stride(), dummy)
        grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))
        kernel[grid](a_desc, b_desc, c_desc, K)
        return c

    return matmul


def operands(m=48, n=32, k=32):
    torch.manual_seed(m + n + k)
    return torch.randn(m, k).half(), torch.randn(n, k).half(), torch.empty(m, n).half()


@pytest.mark.parametrize("hook", [set_blocks, set_blocks_of_descriptors], ids=lambda hook: hook.__name__)
def test_the_tutorials(hook):
    kernel = tuned_product(hook, (16, 16, 16))
    fn = trident_hook.jit(twin(multiplying(kernel)))
    plain, calls = twin(fn), [operands(), operands(k=64)]
    for a, b, c in calls:
        expected = plain(a, b, c).clone()
        torch.testing.assert_close(expected.float(), a.float() @ b.float().T, atol=0.05, rtol=0.01)
        for _ in range(2):
            assert torch.equal(fn(a, b, c.zero_()), expected)
    simdriver.install(n_devices=2, interpret=False)
    for args in calls:
        assert compare.compare_call(plain, fn, args, "product") == 1


def test_the_configs_that_win_have_blocks_of_their_own(monkeypatch):
    """Two keys, two configs, two binaries of the same function: each hit has the blocks of its config."""
    kernel = tuned_product(set_blocks, (16, 16, 16), (32, 32, 16))
    fn = trident_hook.jit(twin(multiplying(kernel)))
    for k, chosen in ((32, kernel.configs[0]), (64, kernel.configs[3])):
        kernel.cache[(k,)] = chosen
        warm(fn, *operands(k=k))
    boxes = []
    for k in (32, 64, 32):
        simdriver.launches.clear()
        routed(fn, *operands(k=k), launches=1)
        boxes.append(simdriver.launches[-1].grid)
    assert boxes[0] == boxes[2] != boxes[1]
    assert len(trident_hook.explain(fn).specializations) == 2


def test_another_hook_is_a_miss():
    def other(nargs) -> None:
        set_blocks(nargs)
        nargs["b"].block_shape = [nargs["BLOCK_N"], nargs["BLOCK_K"]]

    kernel = triton.autotune(configs(set_blocks, (16, 16, 16))[1:], key=[])(product)
    fn = trident_hook.jit(twin(multiplying(kernel)))
    warm(fn, *operands())
    kernel.configs[0].pre_hook = other
    routed(fn, *operands(), via="dynamo")
    routed(fn, *operands(), launches=1)


# -- the tutorial of attention: all heads are the rows of one descriptor ---------------------------------------------------


def set_rows_of_heads(nargs) -> None:
    if isinstance(nargs["q"], TensorDescriptor):
        nargs["q"].block_shape = nargs["o"].block_shape = [nargs["ROWS"], nargs["HEAD_DIM"]]


@triton.autotune([triton.Config({"ROWS": m}, pre_hook=set_rows_of_heads) for m in (8, 16)], key=["N_CTX", "HEAD_DIM"])
@triton.jit
def double_heads(q, o, N_CTX, HEAD_DIM: tl.constexpr, ROWS: tl.constexpr):
    at = tl.program_id(1) * N_CTX + tl.program_id(0) * ROWS
    o.store([at, 0], q.load([at, 0]) * 2)


def doubled(q, o):
    rows, dim = q.shape[0] * q.shape[1] * q.shape[2], q.shape[-1]
    source = TensorDescriptor(q, shape=[rows, dim], strides=[dim, 1], block_shape=[1, 1])
    result = TensorDescriptor(o, shape=[rows, dim], strides=[dim, 1], block_shape=[1, 1])
    grid = lambda meta: (triton.cdiv(q.shape[2], meta["ROWS"]), q.shape[0] * q.shape[1], 1)
    double_heads[grid](source, result, N_CTX=q.shape[2], HEAD_DIM=dim)
    return o


def test_descriptors_of_a_view():
    fn = trident_hook.jit(twin(doubled))
    shapes = ((1, 2, 16, 16), (2, 3, 32, 16), (3, 1, 48, 16))
    for shape in shapes:
        q, o = torch.randn(*shape), torch.zeros(*shape)
        for _ in range(3):
            assert torch.equal(fn(q, o.zero_()), q * 2)
    for shape in shapes:
        args = torch.randn(*shape), torch.zeros(*shape)
        routed(fn, *args, launches=1)
        compare.compare_call(twin(fn), fn, args, "doubled")
    hits = trident_hook.counts(fn)["hits"]
    turned = torch.randn(2, 32, 3, 16).transpose(
        1, 2
    )  # its rows are not those of a view: what is read is the program's affair
    routed(fn, turned, torch.zeros(2, 3, 32, 16), via=None, launches=0)
    routed(fn, torch.randn(2, 3, 32, 16), torch.zeros(2, 3, 48, 16), via=None, launches=0)  # a part of the result
    assert trident_hook.counts(fn)["hits"] == hits


def windows(x, y):
    """Rows that overlap: as many numbers as the tensor has, and yet no view of it."""
    source = TensorDescriptor(x, [x.shape[0], x.shape[1]], [x.shape[1] // 2, 1], [16, 32])
    copy_block[(x.shape[0] // 16,)](source, described(y, [16, 32]), 16)
    return y


def test_rows_that_overlap_are_left_to_triton():
    fn = trident_hook.jit(twin(windows))
    for rows in (32, 32, 64, 96):
        routed(fn, torch.randn(rows, 32), torch.zeros(rows, 32), via=None, launches=0)
    assert trident_hook.counts(fn)["hits"] == 0


# -- descriptors that are used more than once ----------------------------------------------------------------------------


@triton.jit
def copy_block(x, y, N: tl.constexpr):
    at = tl.program_id(0) * N
    y.store([at, 0], x.load([at, 0]))


def set_rows(nargs) -> None:
    nargs["x"].block_shape = nargs["y"].block_shape = [nargs["N"], 32]


def tuned_copy(*rows, hook=set_rows):
    return triton.autotune([triton.Config({"N": n}, pre_hook=hook) for n in rows], key=[])(copy_block)


one_choice, two_choices, no_hook = tuned_copy(16), tuned_copy(8, 16), tuned_copy(16, hook=None)


def described(x, block):
    return TensorDescriptor.from_tensor(x, block)


def both_ways(x, y, z):
    """A plain launch uses the blocks that the hook has set; there is one config."""
    source, result, last = described(x, [1, 32]), described(y, [1, 32]), described(z, [1, 32])
    one_choice[(2,)](source, result)
    one_choice[(1,)](result, last)
    copy_block[(1,)](source, last, 16)
    no_hook[(2,)](result, last)
    return y, z


def in_a_loop(x, y, z):
    source, result = described(x, [1, 32]), described(y, [1, 32])
    for _ in range(3):
        two_choices[lambda meta: (32 // meta["N"],)](source, result)
        source, result = result, source
    return x, y


def onto_itself(x, y, z):
    """The hook sets the block of one object, twice."""
    both = described(x, [1, 32])
    one_choice[(2,)](both, both)
    return x


def by_the_program(x, y, z):
    source, result = described(x, [1, 32]), described(y, [1, 32])
    source.block_shape = [16, 32]
    setattr(result, "block_shape", source.block_shape)  # noqa: B010
    copy_block[(2,)](source, result, 16)
    return y, isinstance(source, TensorDescriptor), type(source) is TensorDescriptor


@pytest.mark.parametrize(("fn", "launches"), [(both_ways, 4), (in_a_loop, 3), (onto_itself, 1), (by_the_program, 1)])
def test_used_again(fn, launches):
    fn, tensors = trident_hook.jit(twin(fn)), [torch.randn(32, 32) for _ in range(3)]
    warm(fn, *tensors)
    routed(fn, *tensors, launches=launches)
    compare.compare_call(twin(fn), fn, tuple(tensors), fn.__name__)


def last_one_wins(nargs) -> None:
    nargs["x"].block_shape = [8, 32]
    nargs["y"].block_shape = [16, 32]


def test_one_object_for_two_parameters():
    """What is set for one is set for the other: Triton sees two blocks of 16 rows."""
    kernel = tuned_copy(16, hook=last_one_wins)

    def copy(x):
        x = x.clone()
        both = described(x, [1, 32])
        kernel[(2,)](both, both)
        copy_block[(1,)](both, both, 16)
        return x

    fn = trident_hook.jit(twin(copy))
    warm(fn, torch.randn(32, 32))
    routed(fn, torch.randn(32, 32), launches=2)


def after_a_choice(x):
    y = torch.zeros_like(x)
    source, result = described(x, [1, 32]), described(y, [1, 32])
    two_choices[lambda meta: (32 // meta["N"],)](source, result)
    copy_block[(32 // source.block_shape[0],)](source, result, source.block_shape[0])
    return y


def after_a_choice_unread(x):
    y = torch.zeros_like(x)
    source, result = described(x, [1, 32]), described(y, [1, 32])
    two_choices[lambda meta: (32 // meta["N"],)](source, result)
    no_hook[(2,)](source, result)
    return y


def pads(nargs) -> None:
    set_rows(nargs)
    nargs["x"].padding = "nan"


def reads_the_block(nargs) -> None:
    set_rows(nargs) if nargs["x"].block_shape == [1, 32] else None


def shortens(nargs) -> None:
    set_rows(nargs)
    nargs["x"].shape = [16, 32]


def writes_to_the_base(nargs) -> None:
    set_rows(nargs)
    nargs["y"].base.zero_()


def copied_by(hook):
    kernel = tuned_copy(16, hook=hook)

    def copy(x):
        y = torch.zeros_like(x)
        kernel[(2,)](described(x, [1, 32]), described(y, [1, 32]))
        return y

    return copy


@pytest.mark.parametrize("fn", [after_a_choice, copied_by(pads), copied_by(reads_the_block),
                                copied_by(shortens), copied_by(writes_to_the_base)],
                         ids=["reads it", "pads", "reads the block", "shortens", "writes to the base"])  # fmt: skip
def test_left_to_triton(fn):
    fn = trident_hook.jit(twin(fn))
    for _ in range(3):
        routed(fn, torch.randn(32, 32), via=None, launches=0)
    assert trident_hook.counts(fn)["hits"] == 0


def test_a_block_that_a_choice_decided():
    """Whether this raises depends on what the tuner has chosen. So it is Triton's to say."""
    fn = trident_hook.jit(twin(after_a_choice_unread))
    for _ in range(3):
        routed(fn, torch.randn(32, 32), via=None, launches=0)
    assert "whose block a tuner's choice has set" in str(trident_hook.explain(fn).refusals)
