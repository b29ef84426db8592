"""Triton launches of a captured graph: run once through Triton itself, and remembered with the binary it chose."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Any

from ...dynamo import launch_result
from ...dynamo.launch_result import LaunchResult
from ...errors import Unsupported
from ...ir.guard import Guard
from ...ir.kinds import GuardKind, RootKind, StepKind
from ...ir.objects import ObjectKey
from ...ir.program import Kernel, KnownKeys, Launch, Param
from ...ir.source import Source
from . import hook_nodes, launchers, tensor_maps
from .tensor_maps import Descriptor


@dataclass
class LaunchSite:
    """One `triton_kernel_wrapper_mutation` node: the kernel object, and its arguments as graph values.

    `arguments` maps parameter and option names to a graph node or a constant, `grids` has one triple per config."""

    kernel: Any
    arguments: dict
    grids: list
    result: LaunchResult | None = None
    record: LaunchRecord | None = None


@dataclass
class LaunchRecord:
    compiled: Any  # triton CompiledKernel
    config: Any  # the Config that an Autotuner chose
    device: int


def site_of(node) -> LaunchSite:
    """Reads a launch node. Raises Unsupported for what is not launched natively."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    described = tensor_maps.descriptors_of(node)
    kwargs = node.kwargs
    kernel = kernel_side_table.get_kernel(kwargs["kernel_idx"])
    constants = kernel_side_table.get_constant_args(kwargs["constant_args_idx"])
    jit_function_of(kernel)
    grids = [tuple(grid) for grid in kwargs["grid"]]
    arguments = {**constants, **kwargs["kwargs"], **described}
    return LaunchSite(kernel, arguments, grids, launch_result.of(kwargs["constant_args_idx"]))


def jit_function_of(kernel):
    """The JITFunction inside, or Unsupported."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    from ...dynamo.variables.tuned_kernel import TunedKernel

    if type(kernel) in (Autotuner, TunedKernel):
        if any(config.pre_hook is not None for config in kernel.configs):
            raise Unsupported("launch", "an autotuner's config has a pre_hook")
        if type(kernel) is Autotuner:
            launchers.refuse_replaced(kernel)
        kernel = kernel.fn
    if type(kernel) is not JITFunction:
        raise Unsupported("launch", f"{type(kernel).__name__} is not a plain Triton kernel")
    launchers.refuse_replaced(kernel)
    if kernel.pre_run_hooks:
        raise Unsupported("launch", "the kernel has pre-run hooks")
    return kernel


def is_ours_to_make(site: LaunchSite) -> bool:
    """Whether a launch by PyTorch, from the node of Dynamo's graph, would be another one."""
    described = any(isinstance(value, Descriptor) for value in site.arguments.values())
    return described or getattr(site.kernel, "hooks", None) is not None


class PythonLauncher:
    """Launches a site through Triton, as eager does. Used for the first call, and natively where a precondition of
    the embedded binary fails after something observable has happened.

    choice: number of the config that a tuner has chosen, whose hook the program itself stands for, and has called."""

    def __init__(self, site: LaunchSite, tensor_names: tuple, int_names: tuple, choice: int | None = None) -> None:
        self.site, self.tensor_names, self.int_names, self.choice = site, tensor_names, int_names, choice
        self.float_names = {v.name for v in site.arguments.values() if _is_float(v)}  # given as their 64 bits

    def __call__(self, tensors: tuple, ints: tuple) -> None:
        numbers = {n: _from_bits(i) if n in self.float_names else i for n, i in zip(self.int_names, ints, strict=True)}
        values = dict(zip(self.tensor_names, tensors, strict=True)) | numbers
        self.launch(lambda value: values[value.name] if hasattr(value, "name") else value)

    def launch(self, value_of):
        """`value_of` turns a graph node into its value and leaves constants alone. Returns the compiled kernel."""
        site = self.site
        blocks = {} if self.choice is None else site.kernel.hooks.blocks[self.choice]
        made: dict = {}  # one descriptor that is passed twice is one object, whose block a hook may set
        arguments = {name: _value(v, value_of, made, blocks) for name, v in site.arguments.items()}
        grids = [tuple(value_of(dim) for dim in grid) for grid in site.grids]
        positional = []
        for name in site.kernel.arg_names:
            if name not in arguments:
                break
            positional.append(arguments.pop(name))
        if self.choice is not None:
            grid = grids[self.choice] if len(grids) > 1 else grids[0]
            return site.kernel.run_chosen(self.choice, grid, *positional, **arguments)
        return site.kernel[_grid_for(site.kernel, grids)](*positional, **arguments)


def _value(argument, value_of, made: dict, blocks: dict):
    if not isinstance(argument, Descriptor):
        return value_of(argument)
    if argument.number not in made:
        made[argument.number] = argument.made(value_of(argument.tensor), blocks.get(argument.number))
    return made[argument.number]


def _grid_for(kernel, grids: list):
    if len(grids) == 1:
        return grids[0]
    configs = kernel.configs

    def grid(meta):
        for config, dims in zip(configs, grids, strict=True):
            if all(meta.get(name) == value for name, value in config.kwargs.items()):
                return dims
        raise RuntimeError(f"no grid of {kernel.fn.__name__} for the autotuner's choice {meta}")

    return grid


def run_again(site: LaunchSite, value_of):
    """A launch by Triton. Returns what it returned."""
    compiled = PythonLauncher(site, (), ()).launch(value_of)
    if site.result is not None:
        site.result.set(compiled)
    return compiled


def run_and_record(site: LaunchSite, value_of) -> None:
    """The first launch, by Triton; remembers the binary it used."""
    from triton.runtime import driver

    compiled = run_again(site, value_of)
    if site.result is not None:
        site.result.recorded = compiled
    if hasattr(compiled, "result") and not hasattr(compiled, "asm"):
        compiled = compiled.result()  # an asynchronous compile of Triton
    if compiled is None:
        return
    config = getattr(site.kernel, "best_config", None) if hasattr(site.kernel, "configs") else None
    site.record = LaunchRecord(compiled, config, driver.active.get_current_device())


def kernel_guards(site: LaunchSite) -> list[Guard]:
    """What Triton compares on every launch: the globals that the kernel's source uses (it raises when one has changed;
    a miss hands the call to it), and the settings that are part of its key. And its source text, which tools may
    replace in place."""
    from triton import knobs

    function = jit_function_of(site.kernel)
    source = Source((RootKind.OBJECT, ObjectKey(function)), ((StepKind.ATTR, "_src"),))
    guards = [Guard(GuardKind.ID, source, ObjectKey(function._src), f"source of kernel {function.__name__}")]
    for owner, name, text in (
        (function, "debug", f"debug of kernel {function.__name__}"),
        (knobs.runtime, "debug", "triton.knobs.runtime.debug"),
        (knobs.compilation, "instrumentation_mode", "triton.knobs.compilation.instrumentation_mode"),
    ):
        source = Source((RootKind.OBJECT, ObjectKey(owner)), ((StepKind.ATTR, name),), text)
        guards.append(Guard(GuardKind.EQUALS, source, ObjectKey(getattr(owner, name)), text))
    for (name, _), (value, space) in function.used_global_vals.items():
        source = Source((RootKind.OBJECT, ObjectKey(space)), ((StepKind.DICT_ITEM, name),))
        plain = type(value) in (int, float, bool, str, bytes) or type(value).__name__ == "constexpr"
        kind = GuardKind.EQUALS if plain else GuardKind.ID
        guards.append(Guard(kind, source, ObjectKey(value), f"global {name} of kernel {site.kernel.fn.__name__}"))
    guards += launchers.guards(function)
    guards += launchers.guards(site.kernel) if site.kernel is not function else []
    if getattr(site.kernel, "pre_hooks", None) is not None and site.record is not None:
        index = site.kernel.index_of(site.record.config)
        if index is not None:
            text = f"pre_hook of the config that was chosen for kernel {function.__name__}"
            source = Source(
                (RootKind.OBJECT, ObjectKey(site.kernel.originals[index])), ((StepKind.ATTR, "pre_hook"),), text
            )
            guards.append(Guard(GuardKind.ID, source, ObjectKey(site.kernel.pre_hooks[index]), text))
    return guards


def launch_op(site: LaunchSite, expr_of, sample_of) -> Launch:
    """The launch as data. `expr_of(node)` gives a tensor's name or an int expression, `sample_of(node)` the value
    that the node had in the recorded run."""
    record = site.record
    if record is None:
        raise Unsupported("launch", "Triton returned no compiled kernel for the recorded launch")
    compiled, function = record.compiled, jit_function_of(site.kernel)
    arguments = dict(site.arguments)
    if record.config is not None:
        arguments |= record.config.all_kwargs()
    kernel = _kernel(compiled)
    params: list[Param] = []
    equal: list[tuple] = []
    unequal: list[tuple] = []
    metas = iter(compiled.metadata.tensordesc_meta or ())
    names = list(compiled.src.signature)
    for index, name in enumerate(names):
        type_ = compiled.src.signature[name]
        if isinstance(type_, tuple):
            raise Unsupported("launch", f"tuple argument {name!r}")
        value = arguments[name] if name in arguments else _default(function, name)
        if isinstance(value, Descriptor):
            params += tensor_maps.parameters(name, value, next(metas, None), expr_of)
            continue
        _add_param(params, equal, unequal, compiled, function, index, name, type_, value, expr_of, sample_of)
    keys, known = _autotune_key(site, expr_of, sample_of)
    if site.result is not None and site.result.used:
        _check_result(site, params)
    grid = _chosen_grid(site, record)
    tensors, ints = _fallback_names(site)
    mark = hook_nodes.chosen(site)
    choice = None if mark is None else mark[1]
    return Launch(
        kernel,
        tuple(expr_of(dim) for dim in (*grid, 1, 1)[:3]),
        tuple(params),
        ObjectKey(PythonLauncher(site, tuple(n.name for n in tensors), tuple(n.name for n in ints), choice)),
        tuple(n.name for n in tensors),
        tuple(expr_of(n) for n in ints),
        tuple(equal),
        tuple(unequal),
        keys,
        known,
        ObjectKey(function.pre_run_hooks),
    )


def _check_result(site: LaunchSite, params: list) -> None:
    """The compiled kernel that a hit returns is the recorded one: nothing may make Triton launch another inside a hit."""
    inputs = {n.name for n in site.arguments.values() if hasattr(n, "op") and n.op == "placeholder"}
    for param in params:
        if param.tensor and param.divisible is not None and param.value not in inputs:
            raise Unsupported(
                "launch", "what the launch returns is used, and its binary depends on intermediate results"
            )


def _add_param(params, equal, unequal, compiled, function, index, name, type_, value, expr_of, sample_of) -> None:
    declared = function.params[index]
    is_node = hasattr(value, "op")
    if _is_float(value):
        if type_ not in ("fp32", "fp64"):
            raise Unsupported("float", f"{type_} parameter {name!r} is given a float that changes")
        params.append(Param(name, type_, expr_of(value), declared=bool(declared.annotation_type)))
        return
    if type_ == "constexpr":
        if is_node:
            sample = sample_of(value)
            if not isinstance(sample, int):
                raise Unsupported("launch", f"{name!r} is a constexpr of type {type(sample).__name__}")
            equal.append((expr_of(value), sample))
        return
    if type_.startswith("tensordesc"):
        raise Unsupported("launch", f"tensor descriptor argument {name!r}")
    if type_.startswith("*"):
        if is_node:
            params.append(Param(name, type_, expr_of(value), _pointer_class(compiled, declared, index), tensor=True))
        elif value is None:  # the annotation says pointer
            params.append(Param(name, type_, None))
        else:
            raise Unsupported("launch", f"pointer parameter {name!r} is given {type(value).__name__}")
        return
    annotated = bool(declared.annotation_type)
    if not is_node:
        params.append(Param(name, type_, value, declared=annotated))
        return
    sample = sample_of(value)
    if type(sample) is not int:
        raise Unsupported("launch", f"argument {name!r} is a symbolic {type(sample).__name__}")
    divisible = None
    if _is_specialized(declared):
        (equal if sample == 1 else unequal).append((expr_of(value), 1))
        if not declared.do_not_specialize_on_alignment:
            divisible = sample % 16 == 0
    params.append(Param(name, type_, expr_of(value), divisible, declared=annotated))


def _is_specialized(declared) -> bool:
    """Whether Triton looks at an argument's value: not of annotated floats and bools, nor where the user forbids it."""
    annotation = declared.annotation_type
    return not declared.do_not_specialize and not (annotation == "u1" or annotation[:2] in ("fp", "bf"))


def _pointer_class(compiled, declared, index: int) -> bool | None:
    if not _is_specialized(declared) or declared.do_not_specialize_on_alignment:
        return None
    return _divisible(compiled, index)


def _divisible(compiled, index: int) -> bool:
    attributes = compiled.src.attrs.get((index,), [])
    return any(a[0] == "tt.divisibility" for a in attributes)


def _default(function, name: str):
    declared = next(p for p in function.params if p.name == name)
    if not declared.has_default:
        raise Unsupported("launch", f"argument {name!r} is missing")
    return declared.default


def _autotune_key(site: LaunchSite, expr_of, sample_of) -> tuple[tuple, KnownKeys | None]:
    """The int part of an autotuner's key: its expressions, and their values in the recorded run. Types and constants are
    fixed by the specialization."""
    keys = getattr(site.kernel, "keys", None) or []
    if len(getattr(site.kernel, "configs", ())) <= 1:
        return (), None
    pairs = []
    for name in keys:
        value = site.arguments.get(name)
        if _is_tensor(value):
            continue  # Triton compares tensors as objects, so each would be tuned for: here the choice is kept
        if _is_float(value):
            raise Unsupported("float", f"{name!r}, a float that changes, is among the keys of a tuner")
        if hasattr(value, "op") and type(sample_of(value)) is int:
            multiple = getattr(site.kernel, "rounded_keys", {}).get(name, 1)
            pairs.append(_rounded_up(expr_of(value), sample_of(value), multiple))
    if not pairs:
        return (), None
    return tuple(expr for expr, _ in pairs), KnownKeys(tuple(value for _, value in pairs))


def _rounded_up(expr, sample: int, multiple: int) -> tuple:
    """(expression, int) that are equal for all values which a tuner rounds up to the same multiple."""
    from torch.utils._sympy.functions import FloorDiv

    if multiple == 1 or isinstance(expr, int) or sample < 0:
        return expr, sample
    return FloorDiv(expr + (multiple - 1), multiple), (sample + multiple - 1) // multiple


def _chosen_grid(site: LaunchSite, record: LaunchRecord) -> tuple:
    if len(site.grids) == 1:
        return site.grids[0]
    for config, grid in zip(site.kernel.configs, site.grids, strict=True):
        if config == record.config:  # one that comes from the cache on disk is another object
            return grid
    raise Unsupported("launch", "the autotuner's choice is not among its configs")


def _fallback_names(site: LaunchSite) -> tuple[list, list]:
    """Graph nodes that the Python launcher needs: tensors, then ints, each once."""
    tensors: dict = {}
    ints: dict = {}
    arguments = [v.tensor if isinstance(v, Descriptor) else v for v in site.arguments.values()]
    for value in [*arguments, *(dim for grid in site.grids for dim in grid)]:
        if hasattr(value, "op"):
            (tensors if _is_tensor(value) else ints)[value.name] = value
    return list(tensors.values()), list(ints.values())


def _is_float(value) -> bool:
    """Whether a graph value is a float argument that is a symbol."""
    import torch

    return hasattr(value, "op") and isinstance(value.meta.get("val"), torch.SymFloat)


def _from_bits(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<q", bits))[0]


def _is_tensor(value) -> bool:
    import torch

    return hasattr(value, "op") and isinstance(value.meta.get("val"), torch.Tensor)


def _kernel(compiled) -> Kernel:
    metadata = compiled.metadata
    if getattr(metadata, "instrumentation_mode", ""):
        raise Unsupported("launch", "instrumentation is on")
    cubin = compiled.asm["cubin"]
    return Kernel(
        name=metadata.name,
        cubin=cubin,
        digest=hashlib.sha256(cubin).hexdigest()[:24],
        shared=metadata.shared,
        threads=32 * metadata.num_warps,
        num_ctas=metadata.num_ctas,
        pdl=bool(metadata.launch_pdl),
        cooperative=bool(metadata.launch_cooperative_grid),
        scratch=(_scratch(metadata, "global"), _scratch(metadata, "profile")),
    )


def _scratch(metadata, kind: str) -> tuple[int, int]:
    """Bytes that each program wants of a kind of scratch memory, and their alignment."""
    return getattr(metadata, f"{kind}_scratch_size", 0) or 0, getattr(metadata, f"{kind}_scratch_align", 1) or 1
