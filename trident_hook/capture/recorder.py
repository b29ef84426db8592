"""The callback that a missing frame is handed to: Dynamo compiles it with our backend, and what it learned becomes a
`Specialization`. One recorder serves every function, so that Dynamo finds its own cache entries again."""

from __future__ import annotations

import sys
import threading
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import _rt
from .._logs import log
from ..dynamo import python_operators, remembered_calls, set_contexts
from ..dynamo.compile_frame import FrameCompiler, left_alone, traced_code
from ..dynamo.left_open import ThreadState
from ..dynamo.patches import catalogue, float_symbols
from ..dynamo.refusal import forbidden, last_refusal
from ..errors import Unsupported, interrupt_behind
from ..ir.recipe import Attr, walk
from ..runtime import interrupts
from . import autograd, return_recipe
from .graph import failing, float_inputs, launches, metadata
from .graph.normalize import normalize
from .graph.program import ProgramBuilder
from .guards.translate import GuardTranslator
from .runner import Runner, is_launch

_stack = threading.local()

#: For tests: called with (capture, guarded_code) once a capture's guards are translated. Dynamo's own guard manager can
#: then be kept, to be asked whether it agrees.
observer = None


@dataclass
class Capture:
    """One compile of one frame, while it is under way and until its first run has completed it."""

    record: Any  # FunctionRecord
    code: Any
    globals_: dict
    state: tuple
    symbolic: bool  # sizes that have changed are symbols
    fixed_floats: bool  # floats are not
    floats: set = field(default_factory=set)  # names of the sources of floats that are
    computed: str = ""  # what Dynamo computed from such a symbol
    graphs: int = 0
    breaks: list = field(default_factory=list)  # Dynamo's words for each graph break
    graph_name: str = ""
    graph_module: Any = None
    traced: Any = None
    sites: dict = field(default_factory=dict)  # launch nodes of it
    guards: list = field(default_factory=list)
    traced_code: list = field(default_factory=list)  # of the function and of all that was inlined into it
    recipe: Any = None
    problem: Unsupported | None = None
    complete: bool = False
    unordered: bool = False  # Dynamo's code may not run: see graph/failing.py

    def refused(self, refusal: Unsupported) -> None:
        self.record.learning.failed(refusal, symbolic=self.symbolic, floats=bool(self.floats))


class Recorder:
    """`(frame, cache_entry, frame_state) -> ConvertFrameReturn`, given to Dynamo's set_eval_frame."""

    def __init__(self, record_of, unproven=()) -> None:
        self._compiler = FrameCompiler(_backend)
        # Dynamo follows this attribute to the backend when it looks for its cache entries.
        self._torchdynamo_orig_backend = self._compiler.chain
        self.record_of = record_of
        self.unknown = list(dict.fromkeys((*catalogue.unknown_lessons(), *unproven)))
        if self.unknown:
            warnings.warn(f"trident_hook serves nothing: {self._why_nothing()}", stacklevel=2)
        self.knows_floats = float_symbols.is_known()

    def __call__(self, frame, cache_entry, frame_state):
        try:
            with interrupts.put_off():
                return self._answer(frame, cache_entry, frame_state)
        except Exception as error:  # a fault of ours outside the compile must not reach the user's call either
            log("capture", "internal fault: %s: %s", type(error).__name__, error)
            return left_alone()

    def _answer(self, frame, cache_entry, frame_state):
        record = self.record_of(frame.f_code)
        serveable, words = _rt.state_read()
        if record is not None and self.unknown:
            record.learning.failed(Unsupported("pytorch", self._why_nothing()))
            return left_alone()
        if record is None or not serveable or not autograd.are_readable(frame.f_locals):
            return left_alone()
        floats_were_fixed = record.learning.fixed_floats is not None
        answer = self._compile(record, words, frame, cache_entry, frame_state)
        if record.learning.fixed_floats is not None and not floats_were_fixed:
            answer = self._compile(record, words, frame, cache_entry, frame_state)
        return answer

    def _why_nothing(self) -> str:
        return (
            f"Dynamo of PyTorch {torch.__version__} is another than this version of trident_hook knows, and would leave out "
            f"guards ({', '.join(self.unknown)}). PyTorch 2.11 is the one it is tested with."
        )

    def _compile(self, record, words, frame, cache_entry, frame_state):
        symbolic, fixed = (
            not record.learning.takes_sizes_as_they_are(),
            record.learning.fixed_floats is not None or not self.knows_floats,
        )
        capture = Capture(record, frame.f_code, frame.f_globals, tuple(words), symbolic, fixed)
        stack = _stack.__dict__.setdefault("captures", [])
        stack.append(capture)
        before, handled = ThreadState(), sys.exc_info()[1]
        try:
            with float_symbols.noting(_note_float):
                compiled = self._compiler.compile(frame, cache_entry, frame_state, symbolic, fixed)
        except Exception as error:  # Dynamo's own failure, or our refusal, must not reach the user's call
            if (interrupt := interrupt_behind(error, handled)) is not None:
                before.put_back(error, handled)
                raise interrupt from None
            first = str(error).strip().splitlines()
            unknown = Unsupported("dynamo-error", f"{type(error).__name__}: {first[0] if first else ''}")
            capture.refused(capture.problem or unknown)
            return left_alone()
        except BaseException as interrupt:  # it may have come between a mode's coming into force and its block
            before.put_back(interrupt, handled)
            raise
        finally:
            stack.pop()
        answer = compiled.answer
        if compiled.guarded_code is None:
            if compiled.at_limit:
                log("capture", "%s: Dynamo is at its limit of entries", record.name)
                record.dynamo_entries.forget()  # it captures no more for as long as it keeps what it has
                return answer
            why = last_refusal() or "Dynamo found nothing to compile in this call"
            capture.refused(capture.problem or Unsupported("no-graph", why))
            return answer
        capture.breaks = compiled.breaks
        self._learn(capture, compiled.guarded_code, compiled.guard_log)
        if capture.unordered and capture.problem is None:
            capture.record.learning.runs_plainly = True
            Runner(capture, {}).learn_without_run()
            return left_alone()
        # What was refused runs as plain Python. Dynamo's code for it is not needed, and behind a graph break it may be wrong:
        # it passes on the number in the place of `f"{number}"` where that is a symbol.
        return answer if capture.problem is None else left_alone()

    def _learn(self, capture: Capture, guarded_code, guard_log) -> None:
        try:
            if capture.problem is not None:
                raise capture.problem
            if (reason := forbidden()) is not None:
                raise Unsupported(*reason)
            names = set(guarded_code.code.co_names)
            if capture.graphs != 1 or any(name.startswith("__resume_at") for name in names):
                raise Unsupported("graph-break", _break_reason(capture))
            capture.recipe = return_recipe.analyse(guarded_code.code, capture.graph_name, capture.globals_)
            _check_subclasses(capture.recipe)
            has_effects = bool(capture.recipe.effects) or set_contexts.were_set()
            if problem := python_operators.problem_of(capture.traced.graph, has_effects):
                raise Unsupported("python-operator", problem)
            ProgramBuilder(capture.traced, capture.recipe).check(capture.sites)
            capture.unordered = failing.check_order(capture)
            root = guarded_code.guard_manager.root
            translator = GuardTranslator(
                guard_log,
                root,
                capture.code,
                capture.globals_,
                lambda t: _keys_of(t, capture.state),
                capture.traced_code,
                capture.floats,
            )
            capture.guards = autograd.guarded([*translator.translate(), *remembered_calls.guards()], capture.record)
            if observer is not None:
                observer(capture, guarded_code)
        except Unsupported as refusal:
            capture.problem = refusal
            capture.refused(refusal)
        except Exception as error:  # our fault: the function keeps Dynamo's answer
            capture.problem = Unsupported("internal", f"{type(error).__name__}: {error}")
            capture.refused(capture.problem)


def _keys_of(tensor, words: tuple) -> int | None:
    facts = _rt.tensor_read(tensor)
    return None if facts is None else _rt.keys_apply(facts["keys"], words)


def _check_subclasses(recipe) -> None:
    """Dynamo makes results of __torch_function__ subclasses anew; the plain function may return its argument itself."""
    for expr in walk(*recipe.effects, recipe.result):
        if isinstance(expr, Attr) and expr.name == "to_subclass":
            raise Unsupported("subclass", "results are made instances of a tensor subclass")


def _break_reason(capture: Capture) -> str:
    """Dynamo's own words for the last graph break of the compile, where it counts one."""
    reason = capture.breaks[-1].strip() if capture.breaks else ""
    return reason.splitlines()[0] if reason else f"{capture.graphs} graphs of {capture.code.co_name}"


def _note_float(source: str = "", computed: str = "") -> None:
    """Dynamo has made a float a symbol, or computed something from one."""
    capture = (_stack.__dict__.get("captures") or [None])[-1]
    if capture is not None and not capture.fixed_floats:  # else it is a number that the program reads from a tensor
        capture.computed = capture.computed or computed
        capture.floats |= {source} - {""}


def _backend(graph_module, example_inputs):
    """Called by Dynamo inside the compile. A graph that is refused is an exception: the frame then runs as plain Python,
    as it would have."""
    capture = _stack.captures[-1]
    capture.graphs += 1
    capture.graph_module = graph_module
    capture.graph_name = graph_module.meta["backend_id"]
    capture.traced_code = traced_code()
    try:
        float_inputs.refuse_as_tensors(graph_module.graph)
        capture.traced, _ = normalize(graph_module, example_inputs)
        if capture.computed and capture.floats:
            raise Unsupported("float", f"something is computed from a float that changes ({capture.computed})")
        metadata.check(capture.traced, example_inputs)
        sites = {n: launches.site_of(n) for n in capture.traced.graph.nodes if is_launch(n)}
    except Unsupported as refusal:
        capture.problem = refusal
        raise
    except Exception as error:
        first = str(error).strip().splitlines()
        capture.problem = Unsupported("normalize", f"{type(error).__name__}: {first[0] if first else ''}")
        raise capture.problem from error
    capture.sites = sites
    return Runner(capture, sites)
