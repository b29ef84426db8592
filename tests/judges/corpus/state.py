"""Functions whose answer depends on the thread's or the process's torch state."""

from __future__ import annotations

import contextlib

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ..places import Slot, State, argument, constants, subject
from ..values import layouts, ramp, tensor


class Doubling(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def setting(read, write, value):
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


def pack_hooks():
    return torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t)


STATES = [
    contextlib.nullcontext,
    torch.no_grad,
    torch.enable_grad,
    torch.inference_mode,
    lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    lambda: torch.autocast("cpu", dtype=torch.float16),
    lambda: torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False),
    lambda: torch.autocast("cpu", enabled=False),
    lambda: setting(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    lambda: setting(torch.get_num_threads, torch.set_num_threads, 3),
    lambda: setting(torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True),
    lambda: setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "high"),
    lambda: setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"),
    lambda: setting(lambda: torch.backends.cudnn.enabled, lambda v: setattr(torch.backends.cudnn, "enabled", v), False),
    lambda: torch.device("cpu"),
    lambda: torch.device("meta"),
    Doubling,
    Watching,
    pack_hooks,
    torch.autograd.forward_ad.dual_level,
    torch._C.DisableTorchFunction,
    torch._C.DisableTorchFunctionSubclass,
    lambda: torch.autograd.set_multithreading_enabled(False),
    lambda: torch.autograd.detect_anomaly(check_nan=False),
]
STATE = Slot("state", State(), constants(*STATES))
X = argument("x", *layouts(4, 6)[:6], lambda: ramp(4, 6).requires_grad_(), lambda: ramp(4, 6).half())


@subject(X, STATE)
def plain(x):
    return x * 2, x.sum()


@subject(X, STATE)
def asks_grad_mode(x):
    return x * 2 if torch.is_grad_enabled() else x * 3


@subject(X, STATE)
def asks_inference_mode(x):
    return x * 2 if torch.is_inference_mode_enabled() else x * 3


@subject(X, STATE)
def asks_default_dtype(x):
    return x * 2 if torch.get_default_dtype() is torch.float32 else x * 3


@subject(X, STATE)
def asks_autocast(x):
    return (x * 2 if torch.is_autocast_enabled("cpu") else x * 3), torch.get_autocast_dtype("cpu")


@subject(X, STATE)
def asks_the_rest(x):
    a = torch.are_deterministic_algorithms_enabled()
    return x * (1 + a) * torch.get_num_threads()


@subject(X, STATE)
def asks_precision(x):
    return x * 2 if torch.get_float32_matmul_precision() == "highest" else x * 3


@subject(X, STATE)
def asks_backends(x):
    return x * 2 if torch.backends.cudnn.enabled else x * 3


@subject(X, STATE)
def makes_tensors(x):
    return torch.zeros(3), torch.ones(2, 2) + 1.5, torch.arange(4), x * 2


@subject(X, STATE)
def multiplies(x):
    return x @ x.t()


@subject(X, STATE)
def changes_grad_mode(x):
    with torch.no_grad():
        y = x * 2
    return y + x


@subject(tensor("x"), STATE)
def autograd_through(x):
    y = (x * 2).detach()
    return y.requires_grad_() if not x.requires_grad else y


@subject(X, STATE)
def asks_compiling(x):
    return x * 2 if torch.compiler.is_compiling() else x * 3


PACKED = []


def counting_hooks():
    """What they are given is an effect of the call."""
    return torch.autograd.graph.saved_tensors_hooks(lambda t: PACKED.append(tuple(t.shape)) or t, lambda t: t)


@contextlib.contextmanager
def counting_without_grad():
    with torch.no_grad(), counting_hooks():
        yield


@contextlib.contextmanager
def counting_below_others():
    with counting_hooks(), pack_hooks():
        yield


HOOKS = Slot(
    "hooks",
    State(),
    constants(
        contextlib.nullcontext,
        counting_hooks,
        counting_without_grad,
        counting_below_others,
        torch.no_grad,
        torch.autograd.graph.save_on_cpu,
        lambda: torch.autograd.graph.disable_saved_tensors_hooks("none here"),
    ),
)
HOOKED = {"effects": lambda: list(PACKED), "reset": PACKED.clear}
Y = argument("y", lambda: ramp(4, 6), lambda: torch.nn.Parameter(ramp(4, 6), requires_grad=False), lambda: ramp(4, 1))


# What a program that records something does under such hooks is in tests/guards/test_saved_tensor_hooks.py.
@subject(X, Y, HOOKS, effects=lambda: list(PACKED), reset=PACKED.clear)
def saves(x, y):
    return (x * y).relu().sum()
