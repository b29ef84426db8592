"""`contextvars.ContextVar`: read, and set for the length of a `try`. Dynamo knows none of its methods."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass
from typing import Any

from .. import remembered_calls, set_contexts
from ..refusal import forbid
from .registry import patch

_PENDING = "_trident_hook_context_variables"
_SKIPPED = frozenset(("CACHE", "PRECALL", "EXTENDED_ARG", "NOP", "RESUME"))
#: Instructions that can be between `finally:` and its first call, and do the same on both ways into it.
_LOADS = frozenset(("LOAD_GLOBAL", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_DEREF", "LOAD_CONST", "LOAD_ATTR",
                    "LOAD_METHOD", "PUSH_NULL", "LOAD_FAST_LOAD_FAST", "KW_NAMES"))  # fmt: skip
#: In a function that resets what it is given: what may raise before it does.
_MAY_RAISE = ("CALL", "BINARY", "UNARY", "COMPARE", "FOR_ITER", "IMPORT")


@dataclass
class _Set:
    """A variable that the traced function has set, and not yet reset."""

    variable: contextvars.ContextVar
    value: Any
    token: Any
    frame: Any  # Dynamo's, with the `try` behind the setting
    handler: Any  # its first instruction where something raises


@patch(
    "context variables",
    gone_when="Dynamo traces ContextVar, and guards what is read from one",
    is_lesson=False,
)
def context_variables(changes) -> None:
    """What was set before the call is guarded. One that is set must be reset by a `finally` that begins right behind: then the program
    sees no other value after the call, whether it raises or not, and nothing has to be set in a hit."""
    from ..names import ConstantVariable, OutputGraph, UserDefinedObjectVariable

    def call_method(self, tx, name, args, kwargs):
        if type(self.value) is not contextvars.ContextVar or name not in ("get", "set", "reset"):
            return None
        pending = tx.output.__dict__.setdefault(_PENDING, [])
        _guard_identity(self)
        if kwargs or len(args) > 1 or (name != "get" and not args):
            forbid("folded", f"{name}() of a context variable, called in another way than Python documents")
        if name == "get":
            return get(self.value, pending, args)
        if name == "set":
            return set_(self.value, pending, tx, args[0])
        _reset(self.value, pending, tx, args[0])
        return ConstantVariable.create(None)

    def get(variable, pending, default):
        for entry in reversed(pending):
            if entry.variable is variable:
                return entry.value
        if not all(given.is_python_constant() for given in default):
            forbid("folded", f"get() of context variable {variable.name} with a default that is no constant")
        return ConstantVariable.create(_outer_value(variable, *(given.as_python_constant() for given in default)))

    def set_(variable, pending, tx, value):
        frame, handler = _try_behind(tx)
        token = contextvars.Context().run(variable.set, None)
        set_contexts.note()
        pending.append(_Set(variable, value, token, frame, handler))
        return UserDefinedObjectVariable(token)

    def remove_unused_graphargs(self):
        for entry in self.__dict__.get(_PENDING, ()):
            forbid("folded", f"context variable {entry.variable.name} is set, and not reset")

    changes.in_front(UserDefinedObjectVariable, "calls a method", call_method)
    changes.in_front(OutputGraph, "remove_unused_graphargs", remove_unused_graphargs)


def _guard_identity(variable) -> None:
    from ..names import GuardBuilder, install_guard

    if variable.source is None:
        forbid("folded", "a context variable that no guard holds fast")
    install_guard(variable.source.make_guard(GuardBuilder.ID_MATCH))


def _outer_value(variable, *default):
    """What it was before the call, which a hit asks again. Anything but a plain constant may change meanwhile."""
    try:
        answer = remembered_calls.call(_read, (variable, *default), {})
    except (LookupError, TypeError) as error:
        return forbid("folded", f"get() of context variable {variable.name} raised {type(error).__name__}")
    if type(answer) not in (type(None), bool, int, str, float):
        return forbid("folded", f"context variable {variable.name} holds a {type(answer).__name__}")
    return answer


def _read(variable, *default):
    return variable.get(*default)


def _reset(variable, pending, tx, token) -> None:
    entry = pending[-1] if pending else None
    if entry is None or entry.variable is not variable or getattr(token, "value", None) is not entry.token:
        return forbid("folded", f"context variable {variable.name} is reset in another order than it was set")
    if not _raising_resets_too(tx, entry):
        forbid("folded", f"context variable {variable.name} would stay set where something raises")
    pending.pop()


def _try_behind(tx) -> tuple:
    """The frame in which a `try` begins right behind the call that is traced, and where that goes if something raises. In
    between the result is stored, or returned to who called."""
    while tx is not None:
        stores = 0
        for step in tx.instructions[tx.indexof[tx.current_instruction] + 1 :]:
            if step.opname in _SKIPPED and step.exn_tab_entry is None:
                continue
            if step.opname.startswith("STORE_") and not stores:
                stores += 1
            elif step.opname == "RETURN_VALUE" and not stores:
                break
            elif step.exn_tab_entry is not None:
                return tx, step.exn_tab_entry.target
            else:
                return None, None
        tx = tx.parent
    return None, None


def _raising_resets_too(tx, entry: _Set) -> bool:
    """Whether the handler begins with the same loads and call as the way that is traced, which has come to that call."""
    while tx is not None and tx is not entry.frame:
        steps = tx.instructions[: tx.indexof[tx.current_instruction]]
        if any(step.opname.startswith(_MAY_RAISE) for step in steps):
            return False
        tx = tx.parent
    if tx is None or entry.handler is None:
        return False
    raised = [step for step in tx.instructions[tx.indexof[entry.handler] :] if step.opname not in _SKIPPED]
    if not raised or raised[0].opname != "PUSH_EXC_INFO":
        return False
    end = next((n for n, step in enumerate(raised) if n and step.opname not in _LOADS), None)
    if end is None or raised[end].opname != "CALL":
        return False
    here = tx.instructions[: tx.indexof[tx.current_instruction] + 1]
    return _said(raised[1 : end + 1]) == _said([step for step in here if step.opname not in _SKIPPED][-end:])


def _said(steps) -> list:
    return [(step.opname, step.arg, step.argval) for step in steps]


PATCHES = (context_variables,)
