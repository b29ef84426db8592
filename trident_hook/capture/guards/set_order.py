"""Sets that a function only asks questions of which the answer is the same for every equal set: `2 in s`, `len(s)`, `if s`. Their
guard need not ask for the order of the members, nor for `1` where there may be `True`.

Read off the bytecode: every instruction that names the argument has to be such a question. In doubt the order stays."""

from __future__ import annotations

import builtins
import dis

from ...ir.guard import Guard
from ...ir.kinds import GuardKind, RootKind

#: Of exactly these types a question has one answer: hash and `==` run no code of the program.
_PLAIN = (int, bool, float, complex, str, bytes, type(None))
#: What shows a function's locals to somebody else.
_READERS_OF_LOCALS = frozenset(("locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack"))
_NOT_SEEN = ("EXTENDED_ARG", "CACHE", "PRECALL", "NOP", "RESUME")


def without_order(guards: list[Guard], code) -> list[Guard]:
    """The guards, with a weaker one where the set that one asks for is an argument that `code`, the captured function's,
    asks only such questions of."""
    return [Guard(GuardKind.MEMBERS, g.source, g.arg, g.text) if _may_be_weaker(g, code) else g for g in guards]


def _may_be_weaker(guard: Guard, code) -> bool:
    if guard.kind is not GuardKind.EQUALS or guard.source.root[0] != RootKind.LOCAL or guard.source.steps:
        return False
    wanted = guard.arg.value
    if type(wanted) not in (set, frozenset) or any(type(member) not in _PLAIN for member in wanted):
        return False
    return only_asked(code, guard.source.root[1])


def only_asked(code, name: str) -> bool:
    """Whether `code` does nothing with the argument `name` but ask whether a constant is in it, how long it is, and whether
    it is empty."""
    if name not in code.co_varnames or not _READERS_OF_LOCALS.isdisjoint(code.co_names):
        return False
    if any(name in inner.co_freevars for inner in code.co_consts if hasattr(inner, "co_freevars")):
        return False
    steps = [step for step in dis.get_instructions(code) if step.opname not in _NOT_SEEN]
    around = zip([None, *steps], steps, [*steps[1:], None], strict=False)
    return all(_is_question(before, after, step) for before, step, after in around if _names(step, name))


def _names(step: dis.Instruction, name: str) -> bool:
    return step.argval == name or (isinstance(step.argval, tuple) and "FAST" in step.opname and name in step.argval)


def _is_question(before: dis.Instruction | None, after: dis.Instruction | None, step: dis.Instruction) -> bool:
    if step.opname not in ("LOAD_FAST", "LOAD_FAST_CHECK") or after is None or after.is_jump_target:
        return False
    if "POP_JUMP" in after.opname or after.opname in ("TO_BOOL", "UNARY_NOT"):
        return "NONE" not in after.opname
    if step.is_jump_target or before is None:
        return False
    if after.opname == "CONTAINS_OP":
        return before.opname == "LOAD_CONST" and type(before.argval) in _PLAIN
    is_len = before.opname == "LOAD_GLOBAL" and before.argval == "len" and _len_is_its_own()
    return is_len and after.opname == "CALL" and after.arg == 1


def _len_is_its_own() -> bool:
    """A global of that name is guarded to be absent, and the builtin to be what it is now."""
    return builtins.len is _LEN


_LEN = len
