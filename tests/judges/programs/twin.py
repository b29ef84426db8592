"""Runs one program in two worlds, as plain Python and served, and compares them after each call."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import io
import itertools
import linecache
import re
import sys
import types
import warnings
from typing import Any

import torch

import trident_hook
from trident_hook.verification import thread_state
from trident_hook.verification.compare import Difference, first_difference
from trident_hook.verification.snapshot import Snapshot

from . import world
from .draft import Program, Step
from .known import FACTS

DOORS = ("jit", "call", "frame")
LEFT_OUT = frozenset(FACTS)  # `run --all` compares these as well
_OUTCOMES = ("hits", "errors", "misses", "bypasses")
_numbers = itertools.count()
#: Warnings of what a capture runs are no part of the program's.
_OF_CAPTURES = re.compile(r"torch/(_dynamo|_inductor|fx|_subclasses|_functorch|_guards|utils/_pytree)|trident_hook/")


@dataclasses.dataclass
class Verdict:
    """What came of a program: how its calls were served, and the first difference if there was one."""

    outcomes: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    difference: str | None = None
    step: int = -1
    call: int = -1
    outcome: str = ""  # of the call that differed
    refusals: list = dataclasses.field(default_factory=list)
    poisoned: bool = False  # a state of the thread could not be put back: the process is of no more use


@dataclasses.dataclass
class _Call:
    """One call in one world."""

    value: Any = None
    error: str = ""
    warned: list = dataclasses.field(default_factory=list)
    printed: str = ""
    state: dict = dataclasses.field(default_factory=dict)
    record: Snapshot | None = None


class _World:
    """A module with the program in it."""

    def __init__(self, source: str, side: str, number: int) -> None:
        self.module = types.ModuleType(f"program_{number}")  # both have one name: it reaches messages and attributes
        self.names = vars(self.module)
        self.names.update(world.NAMES)
        sys.modules[self.module.__name__] = self.module  # the served one comes last, and stays
        file = f"<{self.module.__name__}>"
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        world.current = self.names
        exec(compile(source, file, "exec", dont_inherit=True), self.names)
        self.fn = self.called = self.names["fn"]
        self.side, self.first = side, set(self.names)
        self.last: dict[str, Any] = {}

    def close(self) -> None:
        sys.modules.pop(self.module.__name__, None)
        linecache.cache.pop(f"<{self.module.__name__}>", None)

    def change(self, text: str) -> None:
        world.current = self.names
        with contextlib.suppress(Exception):
            exec(text, self.names)

    def arguments(self, expressions: dict[str, str], base: dict[str, str]) -> dict[str, Any]:
        """Made anew for each call, in order, but for those that are kept."""
        made: dict[str, Any] = {}
        for name, text in expressions.items():
            if text.startswith("same "):
                made[name] = made[text[5:]]
            elif text == "kept" and name in self.last:
                made[name] = self.last[name]
            else:
                made[name] = eval(base[name] if text == "kept" else text, self.names, made)
        self.last = made
        return made

    def roots(self, made: dict[str, Any], value: Any) -> dict[str, Any]:
        """All that the call may have changed or made."""
        own = {
            name: self.names[name]
            for name in sorted(self.names)
            if name not in world.NAMES and not name.startswith("__") and name != "fn" and not self._is_dynamos(name)
        }
        return {"the result": value, **{f"argument {name}": made[name] for name in made}, **own}

    def _is_dynamos(self, name: str) -> bool:
        """Dynamo keeps what it calls under `NAME_0`."""
        return name.rpartition("_")[0] in self.names and self.side == "served" and name not in self.first

    def call(self, made: dict[str, Any], step: Step, state: dict) -> _Call:
        thread_state.put_back(state)
        world.current = self.names
        seen, out = _Call(), io.StringIO()
        with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(out):
            warnings.simplefilter("always")
            try:
                with eval(step.mode, self.names) if step.mode else contextlib.nullcontext():
                    seen.value = self.called(*made.values())
                if step.backward and not step.mode:
                    _go_backward(seen.value)
            except Exception as error:
                seen.error = self._text(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
        seen.state, seen.printed = thread_state.read(), self._text(out.getvalue())
        seen.warned = [(w.category.__name__, self._text(str(w.message))) for w in warned if not _OF_CAPTURES.search(w.filename)
                       and not str(w.message).startswith("trident_hook:")]  # fmt: skip
        thread_state.put_back(state)
        seen.record = Snapshot(self.roots(made, seen.value))
        return seen

    def _text(self, text: str) -> str:
        """Without what is different between any two worlds."""
        return re.sub(r"0x[0-9a-f]+", "0x", text)


def _go_backward(value: Any) -> None:
    """From all floats among the results that require grad."""
    todo, total = [value], None
    while todo:
        item = todo.pop()
        if isinstance(item, (list, tuple)):
            todo += item
        elif isinstance(item, torch.Tensor) and item.requires_grad and item.grad_fn is not None:
            total = item.double().sum() if total is None else total + item.double().sum()
    if total is not None:
        total.backward()


def compare(served: _Call, plain: _Call) -> str | None:
    """The first difference between the two calls."""
    if served.error != plain.error:
        return f"raised {served.error[:300] or 'nothing'}, expected {plain.error[:300] or 'no error'}"
    if served.printed != plain.printed:
        return f"printed {served.printed[:200]!r}, expected {plain.printed[:200]!r}"
    assert served.record is not None
    assert plain.record is not None
    found: Difference | None = first_difference(served.record, plain.record, leave_out=LEFT_OUT)
    if found is not None:
        return str(found)
    for name, (expected, seen) in thread_state.changes(plain.state, served.state).items():
        return f"{name} afterwards: {seen}, expected {expected}"
    if served.warned != plain.warned:
        return f"warnings {served.warned[:3]}, expected {plain.warned[:3]}"
    return None


def judge(program: Program, door: str = "jit", served_first: bool = True) -> Verdict:
    """Both worlds through all steps, until they differ."""
    verdict, number = Verdict(), next(_numbers)
    start = thread_state.read()
    before = trident_hook.config.promote
    plain, served = _World(program.source, "plain", number), _World(program.source, "served", number)
    try:
        trident_hook.config.promote = door == "call"
        if door == "jit":
            served.called = trident_hook.jit(served.fn)
        else:
            trident_hook.enable(include=[served.fn])
        _through_steps(program, plain, served, served_first, verdict)
        verdict.refusals = [str(key) for key in trident_hook.explain(served.fn).refusals]
    finally:
        trident_hook.disable()
        trident_hook.config.promote = before
        for text in program.undo:
            exec(text, vars(world))
        plain.close(), served.close()
        thread_state.put_back(start)
        verdict.poisoned = bool(thread_state.changes(start, thread_state.read()))
    return verdict


def _through_steps(program: Program, plain: _World, served: _World, served_first: bool, verdict: Verdict) -> None:
    base = program.steps[0].arguments if program.steps else {}
    for number, step in enumerate(program.steps):
        for text in step.changes:
            if text.startswith("process: "):
                with contextlib.suppress(Exception):
                    exec(text.removeprefix("process: "), vars(world))
            else:
                plain.change(text), served.change(text)
        for call in range(step.calls):
            state = thread_state.read()
            try:
                made = plain.arguments(step.arguments, base), served.arguments(step.arguments, base)
            except Exception:
                break  # changes that do not go together
            before = trident_hook.counts(served.fn)
            if served_first:
                ours, theirs = served.call(made[1], step, state), plain.call(made[0], step, state)
            else:
                theirs, ours = plain.call(made[0], step, state), served.call(made[1], step, state)
            after = trident_hook.counts(served.fn)
            outcome = next((name for name in _OUTCOMES if after[name] > before[name]), "alone")
            verdict.outcomes[outcome] += 1
            verdict.difference = compare(ours, theirs)
            if (
                verdict.difference is None
                and outcome == "alone"
                and trident_hook.explain(served.fn).refusals
                and number + call > 3
            ):
                return  # refused for good
            if verdict.difference is not None:
                verdict.step, verdict.call, verdict.outcome = number, call, outcome
                return
