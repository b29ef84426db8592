"""Every toggle of torch's state changes the words, and putting it back restores them; what we do not serve under is
refused."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from trident_hook import _rt


@contextmanager
def setting(get, set, value):
    before = get()
    set(value)
    try:
        yield
    finally:
        set(before)


def attribute(owner, name, value):
    return setting(lambda: getattr(owner, name), lambda v: setattr(owner, name, v), value)


@contextmanager
def deterministic(warn_only=False):
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


matmul = torch.backends.cuda.matmul
SERVED = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast cpu bf16": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast cpu fp16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "autocast cpu, no cache": lambda: torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False),
    "deterministic": deterministic,
    "deterministic warn": lambda: deterministic(warn_only=True),
    "no fill": lambda: attribute(torch.utils.deterministic, "fill_uninitialized_memory", False),
    "default dtype": lambda: setting(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    "threads": lambda: setting(torch.get_num_threads, torch.set_num_threads, torch.get_num_threads() + 1),
    "tf32 matmul": lambda: attribute(matmul, "allow_tf32", True),
    "tf32 cudnn": lambda: attribute(torch.backends.cudnn, "allow_tf32", False),
    "fp16 reduction": lambda: attribute(matmul, "allow_fp16_reduced_precision_reduction", False),
    "bf16 reduction": lambda: attribute(matmul, "allow_bf16_reduced_precision_reduction", False),
    "float32 matmul precision": lambda: setting(
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "high"
    ),
    "autocast cuda dtype": lambda: setting(
        lambda: torch.get_autocast_dtype("cuda"), lambda v: torch.set_autocast_dtype("cuda", v), torch.bfloat16
    ),
    "autocast cuda": lambda: setting(
        lambda: torch.is_autocast_enabled("cuda"), lambda v: torch.set_autocast_enabled("cuda", v), True
    ),
    "autocast mps": lambda: setting(
        lambda: torch.is_autocast_enabled("mps"), lambda v: torch.set_autocast_enabled("mps", v), True
    ),
    "forward grad off": lambda: torch.autograd.forward_ad._set_fwd_grad_enabled(False),
}


@pytest.mark.parametrize("name", SERVED)
def test_toggle_changes_words_and_back(name):
    plain = _rt.state_read()
    assert plain[0]
    with SERVED[name]():
        inside = _rt.state_read()
    assert inside[0]
    assert inside[1] != plain[1]
    assert _rt.state_read() == plain


def test_served_states_are_all_different():
    seen = {_rt.state_read()[1]}
    for enter in SERVED.values():
        with enter():
            seen.add(_rt.state_read()[1])
    # "high" for float32 and allow_tf32 for matmul are one state under two names
    assert len(seen) == len(SERVED)


class FunctionMode(TorchFunctionMode):
    pass


class DispatchMode(TorchDispatchMode):
    pass


REFUSED = {
    "torch function mode": FunctionMode,
    "default device": lambda: torch.device("meta"),
    "torch function disabled": torch._C.DisableTorchFunction,
    "torch function subclasses disabled": torch._C.DisableTorchFunctionSubclass,
    "torch dispatch mode": DispatchMode,
    "saved tensor hooks": lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
    "save on cpu": torch.autograd.graph.save_on_cpu,
    "python dispatcher": lambda: torch._dispatch.python.enable_python_dispatcher(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    import torch._dispatch.python  # noqa: F401

    with REFUSED[name]():
        refused = not _rt.state_read()[0]
    assert refused
    assert _rt.state_read()[0]


def test_refused_in_functorch():
    seen = []

    def body(x):
        seen.append(_rt.state_read()[0])
        return (x * x).sum()

    torch.func.grad(body)(torch.ones(3))
    torch.func.vmap(body)(torch.ones(2, 3))
    torch.func.jvp(body, (torch.ones(3),), (torch.ones(3),))
    torch.func.functionalize(body)(torch.ones(3))
    assert seen == [False] * 4


def test_refused_while_tracing():
    seen = []

    def body(x):
        seen.append(_rt.state_read()[0])
        return x + 1

    torch.jit.trace(body, (torch.ones(1),), check_trace=False)
    assert seen == [False]


def test_state_is_the_threads_own():
    inside = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: inside.append(_rt.state_read()[1][2]))
        thread.start()
        thread.join()
        assert inside[0] != _rt.state_read()[1][2]


def test_mixed_tf32_settings_do_not_raise():
    """allowTF32CuBLAS() raises when a program mixed the old and the new way to set it; reading must not."""
    with attribute(torch.backends.cuda.matmul, "fp32_precision", "tf32"):
        assert _rt.state_read()[0]
