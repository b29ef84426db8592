"""A launcher of a library in a trace: what it does with the arguments, the heuristics and the tuner on its way to the
Triton kernel, which Dynamo then captures as it captures any."""

from __future__ import annotations

import copy

from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction

from .. import names
from ..launch_result import LaunchResult
from ..names import (
    AttrSource,
    DictGetItemSource,
    GetItemSource,
    GuardBuilder,
    TritonKernelVariable,
    UserDefinedObjectVariable,
    VariableBuilder,
    VariableTracker,
    install_guard,
    variables,
)
from ..refusal import refuse
from . import tuner_hooks

_TRITONS_OWN = (Autotuner, Heuristics, JITFunction)

#: Options of a launch, not parameters of the kernel.
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override")


class LauncherVariable(VariableTracker):
    """`layers`: (object, source), the launcher first, the JITFunction last; `tuners`, `heuristics`: which are."""

    def __init__(
        self, layers, tuners, heuristics, wrappers, grid=None, block_hooks=frozenset(), rounded_keys=None, **kwargs
    ) -> None:
        super().__init__(**kwargs)
        self.layers, self.tuners, self.heuristics, self.wrappers = layers, tuners, heuristics, wrappers
        self.grid, self.block_hooks, self.rounded_keys = grid, block_hooks, rounded_keys
        if len(tuners) > 1:
            refuse("a tuner inside a tuner")

    def with_grid(self, grid) -> LauncherVariable:
        known = (self.layers, self.tuners, self.heuristics, self.wrappers)
        return LauncherVariable(*known, grid, self.block_hooks, self.rounded_keys)

    def python_type(self) -> type:
        return type(self.layers[0][0])

    def mp_subscript_impl(self, tx, key):
        """`launcher[grid]`, as PyTorch 2.14 asks for it."""
        return self.call_method(tx, "__getitem__", [key], {})

    def call_method(self, tx, name, args, kwargs):
        if name == "__getitem__" and len(args) == 1 and self.grid is None:
            return self.with_grid(args[0])
        if name == "run" and "grid" in kwargs and not kwargs.get("warmup", _FALSE).as_python_constant():
            rest = {key: value for key, value in kwargs.items() if key not in ("grid", "warmup")}
            return self.with_grid(kwargs["grid"]).call_function(tx, args, rest)
        refuse(f"{name}() of a launcher")

    def call_function(self, tx, args, kwargs):
        if self.grid is None:
            refuse("a launcher is called without a grid")
        given = (*args, *kwargs.values())
        args = [self._unwrapped(tx, value) for value in args]
        kwargs = {name: self._unwrapped(tx, value) for name, value in kwargs.items()}
        is_wrapped = any(a is not b.realize() for a, b in zip((*args, *kwargs.values()), given, strict=True))
        kernel, _ = self.layers[-1]
        tuner = self.tuners[0] if self.tuners else len(self.layers)
        for index in self.heuristics:
            if index < tuner:
                for name, value in self._heuristics(tx, index, args, kwargs, {}):
                    kwargs[name] = variables.ConstantVariable.create(value)
        has_hooks = any(config.pre_hook is not None for i in self.tuners for config in self.layers[i][0].configs)
        hooks = self._hooks(tx, tuner, args, kwargs, is_wrapped) if has_hooks else None
        if self.tuners:
            kernel = self._tuned(tx, tuner, args, kwargs, hooks)
        launched = TritonKernelVariable(kernel, None, self.grid, kernel_source=self.layers[-1][1])
        result = launched.call_function(tx, args, kwargs)
        if has_hooks:
            tuner_hooks.settle(tx, hooks, (*args, *kwargs.values()))
        return result if all(type(layer) in _TRITONS_OWN for layer, _ in self.layers) else LaunchResultVariable()

    def _heuristics(self, tx, index: int, args, kwargs, config: dict):
        """(name, value) of one layer of heuristics, in order; each sees those before it."""
        layer, source = self.layers[index]
        given = {**dict(zip(layer.arg_names, args, strict=False)), **kwargs}
        added: dict = {}
        for name, function in layer.values.items():
            from_ = DictGetItemSource(AttrSource(source, "values"), name)
            meta = {**given, **config, **added}
            arguments = {variables.ConstantVariable.create(key): _variable(value) for key, value in meta.items()}
            result = VariableBuilder(tx, from_)(function).call_function(tx, [_dict(arguments)], {})
            if not result.is_python_constant() and result.is_symnode_like():
                result = variables.ConstantVariable.create(result.evaluate_expr())
            if not result.is_python_constant():
                refuse(f"the heuristic of {name} gives no constant")
            added[name] = result.guard_as_python_constant()
        return added.items()

    def _hooks(self, tx, tuner_at: int, args, kwargs, is_wrapped: bool):
        """What the hooks of the tuner's configs do. None where all of them are known to set the blocks of descriptors."""
        tuner, _ = self.layers[tuner_at]
        described = (None, *self.block_hooks)
        if all(any(config.pre_hook is hook for hook in described) for config in tuner.configs):
            return None
        above = {type(layer) for layer, _ in self.layers[:tuner_at]}
        if is_wrapped or not tuner_hooks.are_called_as_triton_does(tuner) or not above <= set(_TRITONS_OWN):
            refuse("a tuner's config has a pre_hook, and its launcher may call it in a way of its own")
        return tuner_hooks.traced(tx, tuner, args, kwargs)

    def _tuned(self, tx, tuner_at: int, args, kwargs, hooks):
        """The tuner's configs, with the heuristics below it folded into each. It chooses when it is launched."""
        from .tuned_kernel import TunedKernel

        tuner, source = self.layers[tuner_at]
        kernel, _ = self.layers[-1]
        twice = [n for n in _OPTIONS if n in kwargs and any(n in config.all_kwargs() for config in tuner.configs)]
        if twice:  # Triton raises a TypeError
            refuse(f"a tuned kernel is given {', '.join(twice)}")
        configs_source = AttrSource(source, "configs")
        install_guard(configs_source.make_guard(GuardBuilder.ID_MATCH))
        if len(tuner.configs) == 1:  # nothing is chosen: a call takes what the list holds by then
            install_guard(configs_source.make_guard(GuardBuilder.SEQUENCE_LENGTH))
            install_guard(GetItemSource(configs_source, 0).make_guard(GuardBuilder.ID_MATCH))
        configs = [copy.copy(config) for config in tuner.configs]
        for config in configs:
            config.pre_hook = None  # Dynamo takes none
            config.kwargs = {**config.kwargs, **{n: v for n, v in config.all_kwargs().items() if n in kernel.arg_names}}
            for index in self.heuristics:
                if index > tuner_at:
                    config.kwargs.update(self._heuristics(tx, index, args, kwargs, dict(config.kwargs)))
        return TunedKernel(tuner, kernel, configs, self.rounded_keys(tuner), hooks)

    def _unwrapped(self, tx, value):
        value = value.realize()
        if not isinstance(value, UserDefinedObjectVariable) or value.value_type not in self.wrappers:
            return value
        wrapper = self.wrappers[value.value_type]
        base = names.attribute_of(value, tx, wrapper.base).realize()
        if not base.is_tensor():
            refuse(f"{wrapper.kind.__name__} around something that is no tensor")
        if wrapper.offset is not None:
            offset = names.attribute_of(value, tx, wrapper.offset).realize()
            if not offset.is_python_constant() or offset.as_python_constant() != 0:
                refuse(f"{wrapper.kind.__name__} with an offset")
        if wrapper.dtype is not None:
            dtype = names.attribute_of(value, tx, wrapper.dtype).as_python_constant()
            if dtype != names.attribute_of(base, tx, "dtype").as_python_constant():
                refuse(f"{wrapper.kind.__name__} of another dtype than its tensor")
        return base


class LaunchResultVariable(VariableTracker):
    """What Triton's launchers return is the compiled kernel, which may be handed on. What a library's returns differs from
    library to library: who uses that breaks the graph."""

    def __init__(self, result: LaunchResult | None = None, **kwargs) -> None:
        super().__init__(**kwargs)
        self.result = result

    def reconstruct(self, codegen) -> None:
        if self.result is None:
            refuse("what a launcher returned is used")
        self.result.used = True  # type: ignore[union-attr] # refuse() raises
        name = codegen.tx.output.install_global_by_id("__trident_hook_launch", self.result)
        codegen.append_output(codegen.create_load_global(name, add=True))
        codegen.extend_output(codegen.create_load_attrs("latest"))


_FALSE = variables.ConstantVariable.create(False)


def _variable(value):
    return value if isinstance(value, VariableTracker) else variables.ConstantVariable.create(value)


def _dict(items: dict):
    from ..names import ConstDictVariable

    return ConstDictVariable(items)
