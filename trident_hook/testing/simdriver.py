"""A simulated CUDA driver, so that Triton kernels can be compiled, launched and checked on a machine without a GPU.

    from trident_hook.testing import simdriver
    simdriver.install()                      # once; later calls change the settings
    kernel[grid](cpu_tensor, ...)            # the real JIT, ptxas and launcher; "device" memory is host memory
    simdriver.launches[-1].params            # raw bytes of every parameter, as the driver received them

What is simulated: the driver API as far as launching needs it (modules, functions, contexts for each thread, several
devices of one architecture, shared memory limits, rejected launches, pointer queries, tensor maps), as a C library that
is found wherever `libcuda.so.1` is asked for. A CUBIN's own records say how its parameters are laid out. With
`interpret`, each launch also runs, by Triton's interpreter, synchronously and from the raw parameters.

What is not: time, parallelism, races between programs or streams (a stream is a number), real resource limits
(registers, occupancy), inline PTX, device-side asserts, Gluon, stream capture and graphs, pinned memory,
contexts that stay broken after a failed launch, `torch.cuda` (it keeps saying that there is no GPU). The interpreter
computes with NumPy: results agree with a GPU's up to rounding. What else differs is listed in docs/simulated_driver.md.

An access outside of the tensors of a launch is an error that names the kernel and the argument (`check_bounds`). A
wrong pointer into memory that nobody knows crashes the process.

An error inside the interpreter makes the launch return CUDA_ERROR_LAUNCH_FAILED and is kept in `errors`;
`synchronize()` raises it.
"""

from __future__ import annotations

import ctypes as C
import gc
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from . import _patches, _simlib, bounds, interpret, simbuild
from ._simlib import Launch, LaunchLog, TensorMap

__all__ = [
    "Injection",
    "Launch",
    "RealDriverError",
    "TensorMap",
    "counts",
    "device",
    "errors",
    "inject",
    "install",
    "is_active",
    "launches",
    "library_path",
    "live_modules",
    "no_interpret",
    "record",
    "register",
    "reset_counts",
    "state",
    "stream",
    "strict_pointers",
    "synchronize",
    "uninstall",
    "unregister",
]

launches = LaunchLog()
errors: list[BaseException] = []

_lock = threading.RLock()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)
_patches_in_force: _patches.Patches | None = None


class RealDriverError(RuntimeError):
    """The process uses a real CUDA driver, so none can be simulated in it."""


class State:
    """The simulation's settings and the calling thread's place in it. Device and streams belong to the thread, as in
    CUDA; the rest to the process."""

    def __init__(self) -> None:
        self.arch = 90
        self.n_devices = 1
        self._interpret = True
        self._record = True
        self._strict = False
        self._check_bounds = True

    @property
    def check_bounds(self) -> bool:
        """Whether a kernel that accesses memory outside of the tensors of its launch fails, or does it."""
        return self._check_bounds

    @check_bounds.setter
    def check_bounds(self, on: bool) -> None:
        self._check_bounds = bool(on)
        self._apply()

    @property
    def interpret(self) -> bool:
        """Whether launches run, or are only checked and recorded."""
        return self._interpret

    @interpret.setter
    def interpret(self, on: bool) -> None:
        self._interpret = bool(on)
        self._apply()

    @property
    def record(self) -> bool:
        """Whether launches are kept in `launches`. Neither recorded nor interpreted, a launch costs well under 1 us."""
        return self._record

    @record.setter
    def record(self, on: bool) -> None:
        self._record = bool(on)
        self._apply()

    @property
    def strict(self) -> bool:
        """Whether only registered memory counts as device memory, see `register`."""
        return self._strict

    @strict.setter
    def strict(self, on: bool) -> None:
        self._strict = bool(on)
        self._apply()

    @property
    def device(self) -> int:
        return _simlib.loaded().sim_current_device()

    @device.setter
    def device(self, ordinal: int) -> None:
        if not 0 <= ordinal < self.n_devices:
            raise ValueError(f"Device {ordinal} does not exist: the simulation has {self.n_devices}.")
        _simlib.loaded().sim_set_device(ordinal)

    def stream(self, ordinal: int | None = None) -> int:
        """The thread's current stream on a device (the current one if none is named)."""
        return _simlib.loaded().sim_current_stream(self.device if ordinal is None else ordinal)

    def set_stream(self, handle: int, ordinal: int | None = None) -> None:
        _simlib.loaded().sim_set_stream(self.device if ordinal is None else ordinal, handle)

    def _apply(self) -> None:
        if _simlib.lib is None:
            return
        lib = _simlib.lib
        lib.sim_record(self._record and is_active())
        lib.sim_set_callback(C.cast(_on_launch, C.c_void_p) if self._interpret and is_active() else None)
        lib.sim_strict_pointers(self._strict)
        bounds.note_memory(self._check_bounds and self._interpret and is_active())

    def __repr__(self) -> str:
        return (
            f"<simdriver state: active={is_active()} arch={self.arch} n_devices={self.n_devices} "
            f"interpret={self._interpret} record={self._record} strict={self._strict}>"
        )


state = State()


@_simlib.Callback
def _on_launch(launch: Any) -> int:
    from torch._C._dynamo.eval_frame import set_eval_frame

    previous = set_eval_frame(None)  # a Dynamo region of the caller must not compile the interpreter
    try:
        interpret.run(Launch.from_c(launch.contents), state.check_bounds)
    except BaseException as error:  # nothing may escape into C
        errors.append(error)
        return 1
    finally:
        set_eval_frame(previous)
    return 0


def is_active() -> bool:
    """Whether the simulation is installed."""
    return _patches_in_force is not None


def install(
    arch: int = 90,
    interpret: bool = True,
    n_devices: int = 1,
    record: bool = True,
    strict: bool = False,
    check_bounds: bool = True,
) -> None:
    """Loads the simulated driver and makes Triton, Dynamo and trident_hook use it. A further call only changes the
    settings. Compiles the driver the first time that a machine sees this version of it."""
    global _patches_in_force
    if not 1 <= n_devices <= _simlib.MAX_DEVICES:
        raise ValueError(f"n_devices must be from 1 to {_simlib.MAX_DEVICES}, not {n_devices}.")
    with _lock:
        folder = library_path()
        lib = _load(folder)
        if is_active() and (arch, n_devices) != (state.arch, state.n_devices):
            _remove()
        if arch != state.arch:
            _forget_targets()
        lib.sim_configure(n_devices, arch)
        state.arch, state.n_devices = arch, n_devices
        state._interpret, state._record, state._strict = interpret, record, strict
        state._check_bounds = check_bounds
        if not is_active():
            _apply_patches(folder)
        state._apply()


def uninstall() -> None:
    """Takes back everything but the loading of the library, which no process can undo. Idempotent."""
    with _lock:
        if is_active():
            _remove()


def library_path() -> str:
    """The folder of the simulated libcuda.so.1, which is compiled if it is not there yet."""
    return str(simbuild.build())


def _load(folder: str) -> C.CDLL:
    if _simlib.lib is None:
        import torch

        # The CUDA runtime looks for the driver once. Asked now it finds none, and stays out of the simulation's way.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            has_gpu = torch.cuda.is_available()
        if has_gpu or _real_driver_is_loaded():
            raise RealDriverError("The real CUDA driver is in use here: the simulated one cannot take its place.")
    lib = _simlib.load(f"{folder}/{simbuild.SONAME}")
    if lib.cuInit(0) != 0:
        raise RuntimeError("The simulated driver did not initialise.")
    return lib


def _real_driver_is_loaded() -> bool:
    """Whether `libcuda.so.1` is in the process already, as it is beside GPUs that are merely hidden."""
    try:
        C.CDLL(simbuild.SONAME, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    return True


def _apply_patches(folder: str) -> None:
    global _patches_in_force
    from triton import knobs
    from triton.backends.nvidia import driver as nvidia
    from triton.compiler.compiler import max_shared_mem
    from triton.runtime import driver as runtime_driver
    from triton.runtime.jit import JITFunction

    patches = _patches.Patches()
    settings = vars(knobs.nvidia)  # not setattr, which would set the environment variable too, for child processes
    previous_settings, previous_driver = dict(settings), runtime_driver._active

    def restore() -> None:
        settings.pop("libcuda_path")
        settings.update(previous_settings)
        runtime_driver._active = previous_driver
        forget()

    def forget() -> None:
        for cached in (nvidia.libcuda_dirs, nvidia.library_dirs, max_shared_mem):
            cached.cache_clear()

    forget()
    settings["libcuda_path"] = folder
    patches.on_undo(restore)
    try:
        _patches.watch_compilation(patches)
        _patches.accept_kernels_on_cpu(patches, is_active, state.arch)
        patches.set(JITFunction, "__call__", interpret.calls_of_kernels(vars(JITFunction)["__call__"]))
        runtime_driver.set_active(_make_driver(state.arch))
        _tell_product(state.n_devices)
        patches.on_undo(lambda: _tell_product(0))
    except BaseException:
        patches.undo()
        raise
    _patches_in_force = patches


def _remove() -> None:
    global _patches_in_force
    patches, _patches_in_force = _patches_in_force, None
    assert patches is not None
    patches.undo()
    state._apply()


def _forget_targets() -> None:
    """Makes kernels compile anew: a JITFunction remembers the architecture of each device number for ever."""
    from triton.runtime.jit import JITFunction

    for it in gc.get_objects():
        if type(it) is JITFunction:
            it.device_caches.clear()


def _tell_product(n_devices: int) -> None:
    """Lets trident_hook launch for CPU tensors, or (0 devices) no longer. Without its native part there is nothing to
    tell: the simulation is of use by itself."""
    lib = _simlib.loaded()
    try:
        from trident_hook.runtime import target

        if n_devices:
            target.set_simulated(n_devices, lib.sim_current_stream, lib.sim_current_device)
        else:
            target.set_simulated(0)
    except ImportError:
        return


def _make_driver(arch: int) -> Any:
    """Triton's driver: the stock utilities and the stock launcher, on simulated devices."""
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase
    from triton.backends.nvidia import driver as nvidia

    lib = _simlib.loaded()

    class SimDriver(DriverBase):
        def __init__(self) -> None:
            self.utils = nvidia.CudaUtils()
            self.launcher_cls = nvidia.CudaLauncher
            self.get_current_device = lib.sim_current_device
            self.get_current_stream = lib.sim_current_stream
            self._target = GPUTarget("cuda", arch, 32)

        @classmethod
        def is_active(cls) -> bool:
            return is_active()

        def map_python_to_cpp_type(self, ty: str) -> str:
            return nvidia.ty_to_cpp(ty)

        def get_current_target(self) -> GPUTarget:
            return self._target

        def set_current_device(self, ordinal: int) -> None:
            state.device = ordinal

        def get_device_capability(self, ordinal: int = 0) -> tuple[int, int]:
            return divmod(arch, 10)

        def get_active_torch_device(self) -> Any:
            import torch

            return torch.device("cpu")

        def get_device_interface(self) -> Any:
            import torch

            return torch.cpu

        def get_benchmarker(self) -> Callable[..., Any]:
            return _benchmark

        def get_empty_cache_for_benchmark(self) -> Any:
            import torch

            return torch.empty(1)

        def clear_cache(self, cache: Any) -> None:
            cache.zero_()

    return SimDriver()


def _benchmark(call: Callable[[], Any], quantiles: Sequence[float] | None = None, **_: Any) -> Any:
    """An autotuner's measurement: one run, timed on the host."""
    start = time.perf_counter()
    call()
    elapsed = (time.perf_counter() - start) * 1e3
    return [elapsed] * len(quantiles) if quantiles is not None else elapsed


# ---- a thread's device and stream ----


@contextmanager
def device(ordinal: int) -> Iterator[None]:
    """Makes a device current for this thread."""
    lib = _simlib.loaded()
    had_context, before = lib.sim_has_context(), state.device
    state.device = ordinal
    try:
        yield
    finally:
        if had_context:
            lib.sim_set_device(before)
        else:
            lib.sim_clear_context()


@contextmanager
def stream(handle: int, ordinal: int | None = None) -> Iterator[None]:
    """Makes a stream (any number) current for this thread on a device, the current one if none is named."""
    where = state.device if ordinal is None else ordinal
    before = state.stream(where)
    state.set_stream(handle, where)
    try:
        yield
    finally:
        state.set_stream(before, where)


# ---- switches ----


@contextmanager
def _switched(name: str, value: bool) -> Iterator[None]:
    before = getattr(state, name)
    setattr(state, name, value)
    try:
        yield
    finally:
        setattr(state, name, before)


def no_interpret() -> Any:
    """Launches are checked and recorded, but do not run."""
    return _switched("interpret", False)


def record(on: bool) -> Any:
    """Launches are recorded, or not."""
    return _switched("record", on)


def strict_pointers(on: bool = True) -> Any:
    """Only registered memory is device memory."""
    return _switched("strict", on)


def register(tensor: Any, ordinal: int = 0) -> None:
    """Declares a tensor's storage device memory, for strict mode."""
    storage = tensor.untyped_storage()
    _simlib.loaded().sim_register_range(storage.data_ptr(), storage.nbytes(), ordinal)


def unregister(tensor: Any) -> None:
    _simlib.loaded().sim_unregister_range(tensor.untyped_storage().data_ptr())


# ---- observation ----


def synchronize() -> None:
    """Raises the oldest error that a launch met in the interpreter since the last call, as a GPU would at a sync."""
    if errors:
        oldest = errors[0]
        errors.clear()
        raise oldest


def counts() -> dict[str, int]:
    """How often each entry point of the driver was called, rejected calls included."""
    lib = _simlib.loaded()
    return {name: lib.sim_call_count(i) for i, name in enumerate(_simlib.call_names())}


def reset_counts() -> None:
    _simlib.loaded().sim_reset_counts()


def live_modules() -> int:
    """Modules loaded and not unloaded."""
    return _simlib.loaded().sim_live_modules()


# ---- failures ----

_GROUPS = {"launch": ("cuLaunchKernel", "cuLaunchKernelEx"), "load": ("cuModuleLoadData",)}


class Injection:
    """A failure that waits for a call."""

    def __init__(self, id_: int) -> None:
        self._id = id_
        self._fired: int | None = None

    @property
    def fired(self) -> int:
        """How many calls it made fail."""
        return _simlib.loaded().sim_injected(self._id) if self._fired is None else self._fired

    def withdraw(self) -> None:
        if self._fired is None:
            self._fired = self.fired
            _simlib.loaded().sim_withdraw(self._id)


@contextmanager
def inject(call: str, error: int | str, skip: int = 0, times: int = 1) -> Iterator[Injection]:
    """Inside the block, the next call (after `skip` calls, `times` times, -1 for ever) fails with `error`, a CUresult
    or its name. `call` is an entry point's name, "launch" (either of the two) or "load"."""
    lib, names = _simlib.loaded(), _simlib.call_names()
    wanted = _GROUPS.get(call, (call,))
    if unknown := [name for name in wanted if name not in names]:
        raise ValueError(f"No call {unknown[0]!r}. Known: {sorted([*_GROUPS, *names])}")
    code = lib.sim_error_code(error.encode()) if isinstance(error, str) else int(error)
    if code < 0:
        raise ValueError(f"{error!r} is not the name of a CUresult that the simulation knows.")
    flags = bytes(name in wanted for name in names)
    id_ = lib.sim_inject(flags, len(flags), code, skip, times)
    if id_ < 0:
        raise RuntimeError("Too many injections at the same time.")
    injection = Injection(id_)
    try:
        yield injection
    finally:
        injection.withdraw()
