"""Loads CUBINs: one driver module for each content and device, shared by every generated module that embeds it.

Called from native code the first time that a kernel is launched on a device. A module stays loaded for the life of the
process, since generated modules keep the function's address; nothing of Triton's own is used or touched."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .._logs import log
from .launch_errors import raise_load_error

_DEFAULT_SHARED = 48 << 10  # bytes that every kernel may have without asking


@dataclass
class _Module:
    handle: Any
    functions: dict[str, Any]


_lock = threading.Lock()
_modules: dict[tuple[str, int], _Module] = {}
_contexts: dict[int, Any] = {}
_loads = 0


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def load(cubin: bytes, name: str, shared: int, threads: int, device: int) -> int:
    """The CUfunction of a kernel on a device, as an integer. Checks and settings are stock Triton's: OutOfResources
    when the device has too little shared memory or the kernel takes fewer threads than a block has."""
    content = hashlib.sha256(cubin).hexdigest()
    with _lock, _primary_context(name, device):
        call = _Calls(name, device)
        limit = call.device_attribute("CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        if shared > limit:
            _out_of_resources(shared, limit, "shared memory")
        module = _modules.get((content, device)) or _load_module(call, cubin, content, device)
        function = module.functions.get(name)
        if function is None:
            function = call("cuModuleGetFunction", module.handle, name.encode())
            module.functions[name] = function
        max_threads = call.function_attribute("CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK", function)
        if threads > max_threads:
            _out_of_resources(threads, max_threads, "threads")
        if shared > _DEFAULT_SHARED and limit > _DEFAULT_SHARED:
            _allow_shared(call, function, limit)
        log("launch", "%s is loaded on device %d: %d bytes, %d B shared", name, device, len(cubin), shared)
        return int(function)


def stats() -> dict[str, int]:
    """What is loaded now, and how many modules were loaded in all."""
    with _lock:
        functions = sum(len(module.functions) for module in _modules.values())
        return {"modules": len(_modules), "functions": functions, "loads": _loads}


def unload_all() -> None:
    """For tests, when no generated module that has launched is left: their function addresses dangle afterwards."""
    with _lock:
        for (_, device), module in _modules.items():
            with _primary_context("(all)", device):
                _Calls("(all)", device)("cuModuleUnload", module.handle)
        _modules.clear()


class _Calls:
    """Driver calls through cuda-python; a failed one raises LaunchError with the kernel and the device."""

    def __init__(self, kernel: str, device: int) -> None:
        from cuda.bindings import driver

        self._driver, self._kernel, self._device = driver, kernel, device

    def __call__(self, call: str, *args: Any) -> Any:
        code, *results = getattr(self._driver, call)(*args)
        if code != self._driver.CUresult.CUDA_SUCCESS:
            _, text = self._driver.cuGetErrorString(code)
            raise_load_error(
                call, int(code), code.name, (text or b"unknown error").decode(), self._kernel, self._device
            )
        return results[0] if results else None

    def device_attribute(self, name: str) -> int:
        return self("cuDeviceGetAttribute", getattr(self._driver.CUdevice_attribute, name), self._device)

    def function_attribute(self, name: str, function: Any) -> int:
        return self("cuFuncGetAttribute", getattr(self._driver.CUfunction_attribute, name), function)


def _load_module(call: _Calls, cubin: bytes, content: str, device: int) -> _Module:
    global _loads
    with _capture_relaxed():
        module = _Module(call("cuModuleLoadData", cubin), {})
    _loads += 1
    _modules[content, device] = module
    return module


def _allow_shared(call: _Calls, function: Any, limit: int) -> None:
    """More than 48 KB of shared memory has to be asked for: all that the device has, less what the kernel declares."""
    from cuda.bindings import driver

    call("cuFuncSetCacheConfig", function, driver.CUfunc_cache.CU_FUNC_CACHE_PREFER_SHARED)
    static = call.function_attribute("CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES", function)
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    call("cuFuncSetAttribute", function, attribute, limit - static)


def _out_of_resources(required: int, limit: int, what: str) -> None:
    from triton.runtime.errors import OutOfResources

    raise OutOfResources(required, limit, what)


@contextmanager
def _primary_context(kernel: str, device: int) -> Iterator[None]:
    """Modules belong to a context: the device's primary one, which PyTorch uses, whatever is current now."""
    call = _Calls(kernel, device)
    if device not in _contexts:
        call("cuInit", 0)
        _contexts[device] = call("cuDevicePrimaryCtxRetain", device)
    before = call("cuCtxGetCurrent")
    primary = _contexts[device]
    if int(before) == int(primary):
        yield
        return
    call("cuCtxSetCurrent", primary)
    try:
        yield
    finally:
        call("cuCtxSetCurrent", before)


@contextmanager
def _capture_relaxed() -> Iterator[None]:
    """Loading allocates, which a graph capture running in another thread or stream forbids unless this thread says that
    it knows what it does. The allocation is not part of the graph."""
    from cuda.bindings import driver

    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    try:
        code, before = driver.cuThreadExchangeStreamCaptureMode(relaxed)
    except RuntimeError:  # cuda-python's word for a driver without this function: then there is no capture either
        yield
        return
    try:
        yield
    finally:
        if code == driver.CUresult.CUDA_SUCCESS:
            driver.cuThreadExchangeStreamCaptureMode(before)
