"""What capture is told of a library: its launcher classes, argument wrappers and harmless calls. One adapter a library.

An adapter is a description, not a patch: the library stays as it is, and what its launchers do on each call is what the
kernel inside does. Descriptions apply only while one of our own captures runs; `torch.compile` never sees them.
docs/integrations.md tells how to write one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Launcher:
    """A class whose instances are launched as `instance[grid](...)` and hold a Triton kernel or another launcher.

    tuner: it is an Autotuner (mostly of a class derived from it) that chooses a config by its `keys`; its `run()`
        leaves the choice in `best_config`, and what it chose for equal keys and dtypes stays chosen.
    rounded_keys: given a tuner, the keys that it rounds up to a multiple before it looks its choice up, and the multiples.
    why_not: given an instance, says why it cannot be presented as the kernel inside, or None. Instances are matched by
        their exact type: a derived class is another launcher."""

    kind: type
    inside: str = "fn"
    tuner: bool = False
    rounded_keys: Callable[[object], dict[str, int]] = lambda tuner: {}
    why_not: Callable[[object], str | None] = lambda launcher: None


@dataclass(frozen=True)
class ArgumentWrapper:
    """A class whose instances stand for a tensor when they are passed to a launcher. Names of the attributes that hold
    the tensor, the offset (unwrapped only where it is 0) and the dtype (only where it is the tensor's)."""

    kind: type
    base: str
    offset: str | None = None
    dtype: str | None = None


@dataclass(frozen=True)
class DeviceContext:
    """A context manager's class, called with a device or its index, that makes it current. `current()` tells the index
    of the current one; nothing is done where it is that already, and elsewhere the capture is refused."""

    kind: type
    current: Callable[[], int | None]


@dataclass(frozen=True)
class Polyfill:
    """A callable that cannot be captured, and a Python function that computes the same and can."""

    target: object
    function: Callable


@dataclass(frozen=True)
class LauncherAdapter:
    name: str
    launchers: tuple[Launcher, ...] = ()
    wrappers: tuple[ArgumentWrapper, ...] = ()
    device_contexts: tuple[DeviceContext, ...] = ()
    polyfills: tuple[Polyfill, ...] = ()
    #: Methods of logging.Logger that do nothing while the level of the same name is off (guarded).
    quiet_log_methods: tuple[str, ...] = ()
    #: Functions whose answer, a plain constant, stays the same for the process. Called once, at capture.
    constants: tuple[Callable, ...] = ()
    #: Gives, at every capture, functions of a device's number whose answer stays the same for the process: properties of the device.
    device_queries: Callable[[], tuple[Callable, ...]] = tuple
    #: Functions of the dtypes and ranks of tensors, of the types of numbers, and of constants, that return constants.
    folds: tuple[Callable, ...] = ()
    #: (class, method): the method fills a store of its object when it is first given some constants, and has no other
    #: effect. It is called once for real, and then captured, which reads the store.
    filled_at_first_call: tuple[tuple[type, str], ...] = ()
    #: Functions that, as a config's `pre_hook`, only set the block shapes of tensor descriptors, by constants of the launch.
    block_hooks: tuple[Callable, ...] = ()
    #: Whether a function is to be discovered by `enable()` though its own names reach no launcher.
    serves: Callable[[object], bool] = lambda function: False
    #: Modules whose own functions are never discovered: the insides of the launchers, which plain calls go through.
    machinery: tuple[str, ...] = ()
