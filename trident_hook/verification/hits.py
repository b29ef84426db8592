"""Verifies each hit of a function: the specialization runs, what it did is recorded and undone, then the plain function runs, and
its answer is what the caller gets. Where the two differ, the first value that does is named and the specialization is given up.

Both runs have the same objects, so that identity, aliasing and classes are what they are; contents are put back from copies. An
effect that leaves what can be reached (a file, a counter of an operator's own) happens twice. Where something cannot be put
back, the specialization's answer stays, and the hit counts as not verified."""

from __future__ import annotations

import inspect
import threading
import types
from collections.abc import Callable
from typing import Any

from .. import _rt
from . import thread_state
from .compare import first_difference
from .restore import CannotBe, put_back
from .snapshot import Snapshot, TooMuch

_MOST = 100_000  # objects
_here = threading.local()
#: How many hits were verified in this process, how many differed, and why some could not be verified.
counted = {"verified": 0, "different": 0}
not_verified: dict[str, int] = {}


class Outcome:
    """What one run of a call came to."""

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.record: Snapshot | None = None
        self.state: dict[str, Any] = {}

    def note(self, roots: dict[str, Any]) -> Outcome:
        self.state = thread_state.read()
        self.record = Snapshot({"the result": self.value, **roots}, _MOST)
        return self

    def answer(self) -> tuple:
        if self.error is not None:
            raise self.error
        return (self.value,)


class Verifier:
    """Of one loaded module. `given_up(spec, difference)` is told of a specialization that is wrong."""

    def __init__(self, scm: object, given_up: Callable[[int, str], None]) -> None:
        self._scm, self._given_up = scm, given_up

    def __call__(self, function: types.FunctionType, values: tuple, spec: int) -> tuple | None:
        """The answer of a call that hits, as a tuple of one; None has the plain function called."""
        inside = getattr(_here, "run", None)
        if inside == "plain":
            return None
        if inside == "served":
            return self._ask(function, values)
        roots = {"the function": function, "the arguments": values}
        try:
            before, state = Snapshot(roots, _MOST, contents=True), thread_state.read()
        except Exception as error:
            return self._unverified(self._ask(function, values), error)
        served = Outcome()
        try:
            asked = _run("served", lambda: self._ask(function, values))
            if asked is None:
                return None
            (served.value,) = asked
        except Exception as error:
            served.error = error
        try:
            served.note(roots)
            put_back(before)
        except Exception as error:
            return self._unverified(served.answer, error)
        return self._against_plain(function, values, spec, roots, before, state, served)

    def _ask(self, function: types.FunctionType, values: tuple) -> tuple | None:
        return _rt.scm_ask(self._scm, function, values)

    def _against_plain(self, function, values, spec, roots, before, state, served) -> tuple:
        thread_state.put_back(state)
        plain = Outcome()
        args, kwargs = _as_a_call(function.__code__, values)
        try:
            plain.value = _run("plain", lambda: _twin(function)(*args, **kwargs))
        except Exception as error:
            plain.error = error
        counted["verified"] += 1
        try:
            found = difference(served, plain.note(roots), set(before.nodes))
            if found is not None:
                counted["different"] += 1
                self._given_up(spec, found)
        except Exception as error:  # a fault of ours in the comparison: the plain answer is right in any case
            _note(error)
        return plain.answer()

    @staticmethod
    def _unverified(answer: Any, error: Exception) -> Any:
        _note(error)
        return answer() if callable(answer) else answer


def difference(served: Outcome, plain: Outcome, same_world: set[int]) -> str | None:
    """The first in which the two runs differ, as a text."""
    texts = [f"{type(e).__name__}: {e}" if e is not None else "no exception" for e in (served.error, plain.error)]
    if texts[0] != texts[1]:
        return f"{texts[0][:300]}, expected {texts[1][:300]}"
    assert served.record is not None
    assert plain.record is not None
    found = first_difference(served.record, plain.record, same_world=same_world)
    if found is not None:
        return str(found)
    for name, (expected, seen) in thread_state.changes(plain.state, served.state).items():
        return f"{name} afterwards: {seen}, expected {expected}"
    return None


def _note(error: Exception) -> None:
    why = str(error) if isinstance(error, (CannotBe, TooMuch)) else f"{type(error).__name__}: {error}"
    not_verified[why] = not_verified.get(why, 0) + 1


def _run(which: str, call: Callable[[], Any]) -> Any:
    """Hits inside are not verified again: those of the plain run are plain calls too."""
    _here.run = which
    try:
        return call()
    finally:
        _here.run = None


def _twin(function: types.FunctionType) -> types.FunctionType:
    """The same function with a code object that no door and no cache of Dynamo's knows."""
    made = types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__,
                              function.__closure__)  # fmt: skip
    made.__kwdefaults__, made.__qualname__, made.__module__ = (
        function.__kwdefaults__,
        function.__qualname__,
        function.__module__,
    )
    return made


def _as_a_call(code: types.CodeType, values: tuple) -> tuple[tuple, dict[str, Any]]:
    """Arguments for the function from its bound locals."""
    n, only = code.co_argcount, code.co_kwonlyargcount
    args = values[:n]
    kwargs = dict(zip(code.co_varnames[n : n + only], values[n : n + only], strict=True))
    rest = list(values[n + only :])
    if code.co_flags & inspect.CO_VARARGS:
        args += rest.pop(0)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs.update(rest.pop(0))
    return args, kwargs
