"""State of the thread and of the process that a call may change, and that is no object of the program: PyTorch's modes and
switches, and the generators of random numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy
import torch


def _set_grad_mode(on: bool) -> None:
    torch._C._set_grad_enabled(on)


#: name -> (how it is read, how it is set; None where only its change can be told)
_SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any] | None]] = {
    "grad mode": (torch.is_grad_enabled, _set_grad_mode),
    "inference mode": (torch.is_inference_mode_enabled, None),
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "autocast for cpu": (lambda: torch.is_autocast_enabled("cpu"), lambda on: torch.set_autocast_enabled("cpu", on)),
    "autocast for cuda": (lambda: torch.is_autocast_enabled("cuda"), lambda on: torch.set_autocast_enabled("cuda", on)),
    "autocast dtype for cpu": (lambda: torch.get_autocast_dtype("cpu"), lambda t: torch.set_autocast_dtype("cpu", t)),
    "autocast dtype for cuda": (lambda: torch.get_autocast_dtype("cuda"), lambda t: torch.set_autocast_dtype("cuda", t)),
    "autocast cache": (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    "deterministic algorithms": (
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        lambda on: torch.use_deterministic_algorithms(on[0], warn_only=on[1]),
    ),
    "precision of float32 products": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "flash attention": (torch._C._get_flash_sdp_enabled, torch._C._set_sdp_use_flash),
    "memory efficient attention": (torch._C._get_mem_efficient_sdp_enabled, torch._C._set_sdp_use_mem_efficient),
    "plain attention": (torch._C._get_math_sdp_enabled, torch._C._set_sdp_use_math),
    "mkldnn": (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
    "cudnn": (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled),
    "cudnn benchmark": (torch._C._get_cudnn_benchmark, torch._C._set_cudnn_benchmark),
    "warnings each time": (torch.is_warn_always_enabled, torch.set_warn_always),
    "anomaly mode": (torch.is_anomaly_enabled, lambda on: torch.set_anomaly_enabled(on, torch.is_anomaly_check_nan_enabled())),
    "forward-mode grad": (torch._C._is_fwd_grad_enabled, torch._C._set_fwd_grad_enabled),
    "number of threads": (torch.get_num_threads, torch.set_num_threads),
    "function modes": (lambda: torch._C._len_torch_function_stack(), None),
    "dispatch modes": (lambda: torch._C._len_torch_dispatch_stack(), None),
    "torch functions of subclasses": (lambda: torch._C._is_torch_function_enabled(), None),
    "dispatch keys": (
        lambda: (str(torch._C._dispatch_tls_local_include_set()), str(torch._C._dispatch_tls_local_exclude_set())),
        None,
    ),
}  # fmt: skip
#: Read beside the switches, and set back one by one.
_GENERATORS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "torch's random numbers": (torch.default_generator.get_state, torch.default_generator.set_state),
    "CUDA's random numbers": (lambda: _cuda_states(), lambda states: _set_cuda_states(states)),
    "random": (random.getstate, random.setstate),
    "numpy.random": (numpy.random.get_state, numpy.random.set_state),
}


def read() -> dict[str, Any]:
    """All of it, by name."""
    found = {name: get() for name, (get, _) in _SWITCHES.items()}
    return found | {name: get() for name, (get, _) in _GENERATORS.items()}


def put_back(state: dict[str, Any]) -> None:
    """What has changed since `state` was read is set again, where it can be."""
    for name, (get, put) in _SWITCHES.items():
        if put is not None and get() != state[name]:
            put(state[name])
    for name, (_, put) in _GENERATORS.items():
        put(state[name])


def changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Name -> (before, after), as texts, of what is not the same."""
    return {
        name: (_text(name, before[name]), _text(name, after[name]))
        for name in before
        if _plain(before[name]) != _plain(after[name])
    }


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.numpy().tobytes()
    if isinstance(value, tuple):
        return tuple(v.tobytes() if isinstance(v, numpy.ndarray) else _plain(v) for v in value)
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _text(name: str, value: Any) -> str:
    return "another state" if name in _GENERATORS else str(value)


def _cuda_states() -> list[torch.Tensor]:
    return torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []


def _set_cuda_states(states: list[torch.Tensor]) -> None:
    if states:
        torch.cuda.set_rng_state_all(states)
