"""The callables that are compared: one workload, every way of running it, each proven to take the way it names.

Every rival gets its own copy of the function (its own code object), so that caches keyed by code never mix.
A rival's `scope` is entered around its measurements only: an enabled hook must not tax the others.
"""

from __future__ import annotations

import itertools
import struct
import types
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks.device import simulated, use_device

_copies = itertools.count()


@dataclass(frozen=True)
class Workload:
    name: str
    fn: types.FunctionType
    args: tuple
    shape: str  # for tables


@dataclass
class Rival:
    """`call(*args)` runs the workload. `assert_route(n)` raises unless the last n calls were served as named."""

    name: str
    call: Callable[..., Any]
    scope: Callable[[], AbstractContextManager] = nullcontext
    route: Callable[[], dict[str, int]] | None = None
    note: str = ""
    _before: dict[str, int] = field(default_factory=dict)

    def begin_route(self) -> None:
        self._before = dict(self.route()) if self.route else {}

    def assert_route(self, calls: int) -> str:
        """Returns the route in words. For rivals that we do not route, their name is the route."""
        if self.route is None:
            return self.name
        now = self.route()
        change = {key: now.get(key, 0) - self._before.get(key, 0) for key in now}
        others = {key: n for key, n in change.items() if key != "hits" and n}
        if change.get("hits") != calls or others:
            raise AssertionError(f"{self.name}: {calls} calls should be {calls} hits, the counters moved by {change}")
        return "scm"


def workloads() -> list[Workload]:
    from trident_hook.testing import workloads as functions

    device = use_device()
    torch.manual_seed(0)
    x, weight = torch.randn(1024, 128, device=device), torch.randn(128, device=device)
    return [
        Workload("rms_norm", functions.rms_norm, (x, weight, 1e-5), "x (1024, 128), weight (128,), fp32"),
        Workload("silu", functions.silu, (torch.randn(4096, device=device),), "x (4096,), fp32"),
    ]


def copy_of(fn: types.FunctionType) -> types.FunctionType:
    """The same function with a code object of its own, under a name of its own (some caches compare code by value)."""
    code = fn.__code__.replace(co_name=f"{fn.__name__}_copy{next(_copies)}")
    twin = types.FunctionType(code, fn.__globals__, code.co_name, fn.__defaults__, fn.__closure__)
    twin.__kwdefaults__ = fn.__kwdefaults__
    twin.__module__ = fn.__module__
    return twin


# --- rivals --------------------------------------------------------------------------------------------------------


def eager(work: Workload) -> Rival:
    return Rival("eager", copy_of(work.fn))


def floor(work: Workload) -> Rival:
    from benchmarks.floor.build import load

    module = load()
    configure_floor(module, work)
    return Rival("floor (hand-written C++)", getattr(module, work.name))


def compiled(work: Workload) -> Rival:
    if simulated():
        return Rival("torch.compile", torch.compile(copy_of(work.fn), backend="eager"), note="backend='eager'")
    return Rival("torch.compile", torch.compile(copy_of(work.fn)))


def compiled_tensor_guards(work: Workload) -> Rival:
    options = {"guard_filter_fn": torch.compiler.keep_tensor_guards_unsafe}
    return Rival("+ only tensor guards (unsafe)", torch.compile(copy_of(work.fn), options=options))


def compiled_no_guards(work: Workload) -> Rival:
    options = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
    return Rival("+ guards skipped (unsafe)", torch.compile(copy_of(work.fn), options=options))


def compiled_cpp_wrapper(work: Workload) -> Rival:
    return Rival("+ C++ wrapper", torch.compile(copy_of(work.fn), options={"cpp_wrapper": True}))


def compiled_cuda_graphs(work: Workload) -> Rival:
    return Rival("+ CUDA graphs (reduce-overhead)", torch.compile(copy_of(work.fn), mode="reduce-overhead"))


def frame_door(work: Workload) -> Rival:
    """The eval-frame hook itself: promotion is off, so the hook stays and serves every call."""
    import trident_hook

    fn = copy_of(work.fn)
    return Rival("trident_hook, frame door", fn, _enabled(fn, promote=False), lambda: trident_hook.counts(fn))


def call_door(work: Workload) -> Rival:
    """What `enable()` settles into on CPython 3.12+: the function is promoted, the hook has stepped aside."""
    import trident_hook

    fn = copy_of(work.fn)
    return Rival("trident_hook, call door", fn, _enabled(fn, promote=True), lambda: trident_hook.counts(fn))


def jit_door(work: Workload) -> Rival:
    import trident_hook

    fn = trident_hook.jit(copy_of(work.fn))
    return Rival("trident_hook, @jit", fn, route=lambda: trident_hook.counts(fn))


EVERYWHERE = [eager, floor, compiled, frame_door, call_door, jit_door]
GPU_ONLY = [compiled_tensor_guards, compiled_no_guards, compiled_cpp_wrapper, compiled_cuda_graphs]


def makers(cpp_wrapper: bool = True) -> list[Callable[[Workload], Rival]]:
    """In the order of the table. Inductor has no way to run Triton kernels without a GPU."""
    chosen = [eager, compiled]
    if not simulated():
        chosen += [make for make in GPU_ONLY if cpp_wrapper or make is not compiled_cpp_wrapper]
    return [*chosen, frame_door, call_door, jit_door, floor]


def _enabled(fn: Callable, promote: bool) -> Callable[[], AbstractContextManager]:
    @contextmanager
    def scope():
        with promotion(promote):
            import trident_hook

            with trident_hook.enable(include=[fn]):
                yield

    return scope


@contextmanager
def promotion(wanted: bool):
    """Whether functions that the frame door found get the call door. The one place that knows this setting's name."""
    import trident_hook

    before = trident_hook.config.promote
    trident_hook.config.promote = wanted
    try:
        yield
    finally:
        trident_hook.config.promote = before


# --- the floor's constants, taken from one eager call --------------------------------------------------------------


@dataclass(frozen=True)
class RecordedLaunch:
    kernel: Any  # triton's CompiledKernel
    grid: tuple[int, int, int]
    values: dict[str, Any]  # every kernel argument by name
    result: Any


def record_launch(fn: Callable, args: tuple) -> RecordedLaunch:
    """Runs `fn(*args)` and watches the one kernel launch that it makes."""
    from triton.runtime.jit import JITFunction

    seen: list[tuple] = []
    original = JITFunction.run

    def run(self, *pos, grid, warmup, **named):
        compiled_kernel = original(self, *pos, grid=grid, warmup=warmup, **named)
        values = {p.name: p.default for p in self.params if p.has_default}
        values.update(zip(self.arg_names, pos))
        values.update({name: value for name, value in named.items() if name in self.arg_names})
        dims = tuple(grid(values)) if callable(grid) else tuple(grid)
        seen.append((compiled_kernel, (*dims, 1, 1)[:3], values))
        return compiled_kernel

    JITFunction.run = run
    try:
        result = fn(*args)
    finally:
        JITFunction.run = original
    if len(seen) != 1:
        raise RuntimeError(f"the floor needs a function with one launch; {fn.__name__} made {len(seen)}")
    return RecordedLaunch(*seen[0], result)


_IMMEDIATES = {"i1": "<?", "u1": "<?", "i32": "<i", "u32": "<I", "i64": "<q", "u64": "<Q", "fp32": "<f", "fp64": "<d"}


def configure_floor(module: types.ModuleType, work: Workload) -> None:
    seen = record_launch(copy_of(work.fn), work.args)
    outputs = list(seen.result) if isinstance(seen.result, tuple) else [seen.result]
    tensors = [arg for arg in work.args if isinstance(arg, torch.Tensor)] + outputs
    places = {tensor.data_ptr(): index for index, tensor in enumerate(tensors)}

    parameters: list[int | bytes] = []
    for name, kind in seen.kernel.src.signature.items():
        value = seen.values[name]
        if kind == "constexpr":
            continue
        if kind.startswith("*"):
            parameters.append(places[value.data_ptr()])
        else:
            parameters.append(struct.pack(_IMMEDIATES[kind], value).ljust(8, b"\0"))
    if sorted(p for p in parameters if isinstance(p, int)) != list(range(len(tensors))):
        raise RuntimeError(
            f"{work.name}: the kernel does not take each input and output once; the floor cannot serve it"
        )
    parameters += [bytes(8), bytes(8)]  # Triton's two scratch pointers, unused here

    metadata = seen.kernel.metadata
    scratch = (getattr(metadata, "global_scratch_size", 0) or 0) + (getattr(metadata, "profile_scratch_size", 0) or 0)
    if metadata.num_ctas != 1 or scratch:
        raise RuntimeError(f"{work.name}: clusters and scratch memory are beyond the floor")
    eps = next((arg for arg in work.args if isinstance(arg, float)), 0.0)
    module.configure(
        work.name,
        seen.kernel.asm["cubin"],
        metadata.name,
        seen.grid,
        32 * metadata.num_warps,
        metadata.shared,
        parameters,
        tensors,
        eps,
    )
