"""What Dynamo's compiled code calls in the place of the graph. The first run goes through the normalised graph, lets Triton
launch and remembers which binaries it chose: with them the capture becomes a specialization.

Dynamo's entry also answers later calls, until a module is in place. It admits what we do not: Triton has another binary
for another alignment or class of ints. So these runs note their binaries too, and those that are new become a further
specialization of the same capture: the same guards and program, other preconditions."""

from __future__ import annotations

import functools
import os
import threading
import warnings
import weakref
from dataclasses import replace

import torch

from .. import _rt
from .._logs import log
from ..errors import Unsupported
from ..ir.objects import ObjectKey
from ..ir.specialization import Specialization
from .graph import factories, launches
from .graph.hook_nodes import OF_HOOK
from .graph.program import ProgramBuilder
from .graph.tensor_maps import Descriptor


def is_launch(node) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "triton_kernel_wrapper_mutation"


#: All that Dynamo may still call: for what a fork changes.
_runners: weakref.WeakSet = weakref.WeakSet()


class Runner:
    """Computes one captured graph for Dynamo, on any thread. `sites`: launch nodes of the normalised graph."""

    def __init__(self, capture, sites: dict) -> None:
        self.capture, self.sites = capture, sites
        # Dynamo wraps what is callable here; a name helps its messages.
        self.__name__ = f"trident_hook_{capture.code.co_name}"
        self.uses_results = any(site.result is not None and site.result.used for site in sites.values())
        self._outer = {} if self.uses_results else _launches_of(capture.graph_module, sites)
        # PyTorch would not make these launches as the program does: whatever the state, they are ours.
        self._ours = any(map(launches.is_ours_to_make, sites.values()))
        if self._ours and not self._outer and not self.uses_results:
            raise Unsupported("launch", "launches with descriptors or hooks that cannot be told apart")
        self._lock = threading.Lock()
        _runners.add(self)
        self._begun: int | None = None  # the thread whose run is the first
        self._seen: dict[tuple, list] = {}  # binaries that some specialization launches, kept alive for their ids

    def __call__(self, *inputs):
        try:
            if self._is_first():
                return self._first_run(inputs)
        except BaseException:
            if self._begun == threading.get_ident() and not self.capture.complete:
                self._begun = None
            raise
        if self.uses_results:
            return LaunchingInterpreter(self.capture.traced, self.sites, launches.run_again).run(*inputs)
        if not self._outer or not (self._ours or self._may_learn()):
            return _Interpreter(self.capture.graph_module).run(*inputs)
        return self._later_run(inputs)

    def _may_learn(self) -> bool:
        return self.capture.problem is None and _rt.state_read() == (True, self.capture.state)

    def _is_first(self) -> bool:
        """One run at a time claims to be the first, until one has ended well."""
        with self._lock:
            if self._begun is not None or self.capture.problem is not None:
                return False
            self._begun = threading.get_ident()
            return True

    def _first_run(self, inputs: tuple):
        capture = self.capture
        interpreter = LaunchingInterpreter(capture.traced, self.sites, launches.run_and_record)
        outputs = interpreter.run(*inputs)
        refusal = self._learn(self.sites, interpreter.samples, capture.record.learning.learned)
        if refusal is not None:
            capture.problem = refusal
        capture.complete = True
        return outputs

    def learn_without_run(self) -> None:
        """Of a graph without launches: all that a specialization needs is known before it runs."""
        self.capture.problem = self._learn({}, {}, self.capture.record.learning.learned)
        self.capture.complete = True

    def _later_run(self, inputs: tuple):
        """Dynamo's own graph, which its guards are for: they may admit calls for which the normalised one is not right."""
        capture = self.capture
        may_learn = self._may_learn()
        interpreter = _NotingInterpreter(capture.graph_module, self._outer)
        outputs = interpreter.run(*inputs)
        if may_learn and capture.complete and capture.problem is None and len(interpreter.sites) == len(self.sites):
            try:
                sites, samples = self._inner(interpreter)
                self._learn(sites, samples, capture.record.learning.learned_variant)
            except Exception as error:  # the call has its answer
                log("capture", "internal fault: %s: %s", type(error).__name__, error)
        return outputs

    def _inner(self, interpreter: _NotingInterpreter) -> tuple[dict, dict]:
        """Sites of the normalised graph with the binaries that the run launched, and the ints it gave them."""
        sites, samples = {}, {}
        for node, site in self.sites.items():
            noted, values = interpreter.sites[node]
            sites[node] = replace(site, record=noted.record)
            for name, value in site.arguments.items():
                if isinstance(value, torch.fx.Node) and isinstance(values[name], int):
                    samples[value.name] = values[name]
        return sites, samples

    def _learn(self, sites: dict, samples: dict, learned) -> Unsupported | None:
        """Tells the record of a specialization, unless it has one with these binaries. Returns why there is none."""
        records = [site.record for site in sites.values()]
        key = tuple(_binary(site, samples) for site in sites.values())
        try:
            # Inside the block that takes the mark back: an interrupt may come between any two lines, and leaving a lock is one.
            with self._lock:
                if key in self._seen:
                    return None
                self._seen[key] = records
            learned(self._specialization(sites, samples))
            return None
        except Unsupported as refusal:
            problem = refusal
        except Exception as error:
            log("capture", "internal fault: %s: %s", type(error).__name__, error)
            problem = Unsupported("internal", f"{type(error).__name__}: {error}")
        except BaseException:  # an interrupt: the next run tells of it
            self._seen.pop(key, None)
            raise
        self.capture.refused(problem)
        return problem

    def _specialization(self, sites: dict, samples: dict) -> Specialization:
        capture = self.capture
        program = ProgramBuilder(capture.traced, capture.recipe).build(sites, samples)
        device, device_type = None, None
        if sites:
            from ..runtime import target

            device = next(iter(sites.values())).record.device
            device_type = "cpu" if target.is_simulated() else "cuda"
        code = capture.code
        return Specialization(
            name=capture.record.name,
            index=capture.record.learning.next_index(),
            argument_names=argument_names(code),
            free_names=code.co_freevars,
            state=capture.state,
            guards=(*capture.guards, *dict.fromkeys(g for s in sites.values() for g in launches.kernel_guards(s))),
            program=program,
            recipe=capture.recipe,
            launch_device=device,
            launch_device_type=device_type,
            globals_=ObjectKey(capture.globals_),
        )


def _after_fork_in_child() -> None:
    """A thread that is not here may have held a lock."""
    for runner in list(_runners):
        runner._lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _binary(site, samples: dict) -> tuple:
    """What tells one launch from another: the binary, the classes of the ints, and those that an autotuner chose it by."""
    record = site.record
    if record is None:
        return (None,)
    keys = getattr(site.kernel, "keys", None) or ()
    ints = []
    for name, value in site.arguments.items():
        number = samples.get(value.name) if isinstance(value, torch.fx.Node) else None
        if number is not None:
            ints.append((name, number if name in keys else (number == 1, number % 16 == 0)))
    return id(record.compiled), id(record.config), record.device, tuple(ints)


def _launches_of(graph_module, sites: dict) -> dict:
    """Launch nodes of Dynamo's graph -> (node of the same launch in the normalised one, site with this graph's values).
    Empty where they are not told apart for certain."""
    inner = {node.kwargs["constant_args_idx"]: (node, site) for node, site in sites.items()}
    nodes = [node for node in graph_module.graph.nodes if is_launch(node)]
    if len(inner) != len(sites) or sorted(n.kwargs["constant_args_idx"] for n in nodes) != sorted(inner):
        return {}
    found = {}
    for node in nodes:
        same, site = inner[node.kwargs["constant_args_idx"]]
        arguments = dict(site.arguments)
        for name, value in node.kwargs["kwargs"].items():
            if name not in arguments:
                return {}
            described = arguments[name]
            arguments[name] = _describing(value, described) if isinstance(described, Descriptor) else value
        grids = [tuple(grid) for grid in node.kwargs["grid"]]
        found[node] = same, replace(site, arguments=arguments, grids=grids)
    return found


def _describing(view, descriptor: Descriptor) -> Descriptor:
    """The descriptor as Dynamo's graph has it: of a tensor that is in the described order already."""
    return replace(descriptor, tensor=view, order=tuple(range(len(descriptor.order))))


class _Interpreter(torch.fx.Interpreter):
    """One run of a graph, without what hooks of tuners do: their launches do it. What an operator raises reaches the program
    as it is."""

    def __init__(self, graph_module) -> None:
        super().__init__(graph_module, garbage_collect_values=True)
        self.extra_traceback = False  # else the message is added to, and a KeyError becomes another error

    def run_node(self, node):
        return None if OF_HOOK in node.meta else super().run_node(node)


class LaunchingInterpreter(_Interpreter):
    """Runs the normalised graph on the real inputs. Launches go through Triton by `launch`; ints are kept."""

    def __init__(self, traced, sites: dict, launch) -> None:
        super().__init__(traced)
        self.sites, self.launch = sites, launch
        self.samples: dict = {}

    def run_node(self, node):
        if node in self.sites:
            self.launch(self.sites[node], lambda v: self.env[v] if isinstance(v, torch.fx.Node) else v)
            return None
        with warnings.catch_warnings(), factories.as_python_calls(node.target):
            value = _rt.call_warned(functools.partial(super().run_node, node))
        if isinstance(value, int):
            self.samples[node.name] = value
        return value


class _NotingInterpreter(_Interpreter):
    """Runs Dynamo's graph. `sites`: node of the normalised graph -> (site with what was launched, its arguments' values)."""

    def __init__(self, graph_module, launches_: dict) -> None:
        super().__init__(graph_module)
        self.launches = launches_
        self.sites: dict = {}

    def run_node(self, node):
        if node not in self.launches:
            return super().run_node(node)
        same, site = self.launches[node]
        noted = replace(site)  # every run has its own

        def value_of(value):
            return self.env[value] if isinstance(value, torch.fx.Node) else value

        launches.run_and_record(noted, value_of)
        values = {name: value_of(v) for name, v in noted.arguments.items() if not isinstance(v, Descriptor)}
        self.sites[same] = noted, values
        return None


def argument_names(code) -> tuple[str, ...]:
    """Names in localsplus order: positional, keyword-only, *args, **kwargs."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    return code.co_varnames[:count]
