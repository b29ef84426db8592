"""How Dynamo is told of the adapters, for the length of one of our captures. Dynamo's compile lock is held meanwhile,
so no other thread traces with these tables, and they are as they were afterwards."""

from __future__ import annotations

import contextlib
import functools
import logging
from typing import Any

from ..integrations.derived import launchers_of
from .names import (
    AttrSource,
    GuardBuilder,
    LambdaVariable,
    LoggingLoggerVariable,
    NullContextVariable,
    SourcelessBuilder,
    UserDefinedObjectVariable,
    VariableBuilder,
    install_guard,
    variables,
)
from .patches.registry import added
from .refusal import refuse
from .variables import descriptor
from .variables.launcher import LauncherVariable


@contextlib.contextmanager
def described(adapters: tuple):
    by_type, by_identity = _entries(adapters)
    types, identities = VariableBuilder._type_dispatch(), VariableBuilder._id_dispatch()
    with added(types, by_type), added(identities, by_identity):
        yield


def _entries(adapters: tuple) -> tuple[dict, dict]:
    by_type, by_identity = {}, {}
    launchers = launchers_of({launcher.kind: launcher for a in adapters for launcher in a.launchers})
    wrappers = {wrapper.kind: wrapper for a in adapters for wrapper in a.wrappers}
    block_hooks = frozenset(hook for a in adapters for hook in a.block_hooks)
    quiet = frozenset(name for a in adapters for name in a.quiet_log_methods)
    for kind in launchers:
        by_type[kind] = lambda builder, value: _launcher(builder, value, launchers, wrappers, block_hooks)
    if quiet:
        by_type[logging.Logger] = lambda builder, value: _logger(builder, value, quiet)
    filled: dict[type, set] = {}
    for kind, method in (pair for a in adapters for pair in a.filled_at_first_call):
        filled.setdefault(kind, set()).add(method)
    for kind, methods in filled.items():
        by_type[kind] = functools.partial(_filling, methods=methods)
    for adapter in adapters:
        for context in adapter.device_contexts:
            by_identity[id(context.kind)] = _calling(lambda tx, a, k, context=context: _device_context(context, a, k))
        for polyfill in adapter.polyfills:
            by_identity[id(polyfill.target)] = _calling(lambda tx, a, k, f=polyfill.function: _inlined(tx, f, a, k))
        for function in (*adapter.constants, *adapter.device_queries()):
            by_identity[id(function)] = _calling(lambda tx, a, k, f=function: _answer(tx, f, a, k, _constant))
        for function in adapter.folds:
            by_identity[id(function)] = _calling(lambda tx, a, k, f=function: _answer(tx, f, a, k, _representative))
    by_identity[id(descriptor.TensorDescriptor)] = _descriptor_class
    by_identity[id(descriptor.TensorDescriptor.from_tensor)] = _calling(descriptor.make_from_tensor)
    return by_type, by_identity


# -- launchers -------------------------------------------------------------------------------------------------------


def _launcher(builder, value, launchers: dict, wrappers: dict, block_hooks: frozenset):
    """The launcher and all that is inside it are these objects: identity guards all the way down."""
    from triton.runtime.autotuner import Heuristics
    from triton.runtime.jit import JITFunction

    layers, source = [], builder.source
    while True:
        install_guard(source.make_guard(GuardBuilder.ID_MATCH))
        layers.append((value, source))
        if type(value) is JITFunction:
            break
        launcher = launchers.get(type(value))
        if launcher is None:
            refuse(f"{type(value).__name__} inside a launcher is unknown")
        why_not = launcher.why_not(value)  # type: ignore[union-attr] # refuse() raises
        if why_not is not None:
            refuse(why_not)
        value, source = getattr(value, launcher.inside), AttrSource(source, launcher.inside)  # type: ignore[union-attr] # the same
    kinds = [type(layer) for layer, _ in layers]
    tuners = [index for index, kind in enumerate(kinds) if kind in launchers and launchers[kind].tuner]
    heuristics = [index for index, kind in enumerate(kinds) if issubclass(kind, Heuristics)]
    rounded = launchers[kinds[tuners[0]]].rounded_keys if tuners else None
    return LauncherVariable(layers, tuners, heuristics, wrappers, None, block_hooks, rounded, source=builder.source)


# -- objects ---------------------------------------------------------------------------------------------------------


def _logger(builder, value, quiet: frozenset):
    builder.install_guards(GuardBuilder.ID_MATCH)
    return _QuietLogger(value, quiet, source=builder.source)


class _QuietLogger(LoggingLoggerVariable):
    """A logger whose calls below its level are no-ops, with guards on what makes them so."""

    def __init__(self, value, quiet: frozenset = frozenset(), **kwargs) -> None:
        super().__init__(value, **kwargs)
        self.quiet = quiet

    def call_method(self, tx, name, args, kwargs):
        level = logging.getLevelName(name.upper())
        if name not in self.quiet or not isinstance(level, int):
            return super().call_method(tx, name, args, kwargs)
        if name in vars(self.value):
            refuse(f"{name}() of logger {self.value.name} was replaced")
        if self.value.isEnabledFor(level):
            refuse(f"logger {self.value.name} is on for {name}")
        self._guard_off(level)
        return variables.ConstantVariable.create(None)

    def _guard_off(self, level: int) -> None:
        """What `Logger.isEnabledFor` reads."""
        logger: Any = self.value
        source: Any = self.source
        _guard_equal(AttrSource(source, "disabled"))
        if logger.disabled:
            return
        _guard_equal(AttrSource(AttrSource(source, "manager"), "_disable"))
        if logger.manager.disable >= level:
            return
        while logger is not None:
            _guard_equal(AttrSource(source, "level"))
            if logger.level:
                return
            logger, source = logger.parent, AttrSource(source, "parent")
            install_guard(source.make_guard(GuardBuilder.ID_MATCH))


def _guard_equal(source) -> None:
    install_guard(source.make_guard(GuardBuilder.EQUALS_MATCH))


def _filling(builder, value, methods: set):
    builder.install_guards(GuardBuilder.TYPE_MATCH)
    result = _FillingObject(value, methods=methods, source=builder.source)
    return builder.tx.output.side_effects.track_object_existing(value, result)


class _FillingObject(UserDefinedObjectVariable):
    """Some methods are called once for real before they are traced."""

    def __init__(self, value, methods=frozenset(), **kwargs) -> None:
        super().__init__(value, **kwargs)
        self.methods = methods

    def var_getattr(self, tx, name):  # as this is called before PyTorch 2.14
        return self._filled(tx, name, super().var_getattr(tx, name))

    def tp_getattro_impl(self, tx, name):  # and from then on
        return self._filled(tx, name, super().tp_getattro_impl(tx, name))

    def _filled(self, tx, name, method):
        if name not in self.methods:
            return method

        def call(*args, **kwargs):
            getattr(self.value, name)(*map(_constant, args), **{k: _constant(v) for k, v in kwargs.items()})
            return method.call_function(tx, list(args), kwargs)

        return LambdaVariable(call)


# -- functions -------------------------------------------------------------------------------------------------------


def _calling(call):
    """A table entry for one function or class: its identity is guarded, its calls are `call(tx, args, kwargs)`."""

    def wrap(builder, value):
        builder.install_guards(GuardBuilder.ID_MATCH)
        return _Described(call, source=builder.source)

    return wrap


class _Described(variables.base.VariableTracker):
    def __init__(self, call, **kwargs) -> None:
        super().__init__(**kwargs)
        self.call = call

    def call_function(self, tx, args, kwargs):
        return self.call(tx, args, kwargs)


def _descriptor_class(builder, value):
    builder.install_guards(GuardBuilder.ID_MATCH)
    return descriptor.descriptor_class(builder.source)


def _inlined(tx, function, args, kwargs):
    return SourcelessBuilder.create(tx, function).call_function(tx, args, kwargs)


def _device_context(context, args, kwargs):
    import torch

    given = [_constant(v) for v in (*args, *kwargs.values())]
    if len(given) != 1:
        refuse(f"{context.kind.__name__} was not given one device")
    current = context.current()
    index = given[0].index if isinstance(given[0], torch.device) else given[0]
    if index not in (None, -1, current):
        refuse(f"device {index} is made current where {current} is")
    return NullContextVariable()


def _answer(tx, function, args, kwargs, value_of):
    """The answer of a call that is made now. One that raises is refused: the program may expect that."""
    args, kwargs = [value_of(v) for v in args], {name: value_of(v) for name, v in kwargs.items()}
    try:
        answer = function(*args, **kwargs)
    except Exception as error:
        refuse(f"{getattr(function, '__name__', function)}() raises {type(error).__name__}")
    return SourcelessBuilder.create(tx, answer)


def _constant(variable):
    if not variable.is_python_constant():
        refuse(f"{variable.python_type_name()} where a constant is needed")
    return variable.as_python_constant()


def _representative(variable):
    """A value of the same type, dtype and rank. Those are guarded for every argument."""
    variable = variable.realize()
    if variable.is_tensor():
        return variable.as_proxy().node.meta["example_value"]
    if not variable.is_python_constant() and variable.is_symnode_like():
        return {int: 1, float: 1.0, bool: True}[variable.python_type()]
    return _constant(variable)
