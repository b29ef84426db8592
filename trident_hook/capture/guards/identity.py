"""Which of the objects that a trace read are one and the same, and which are not. The trace is right for that picture only:
`a is b`, `o in l`, and what a change of one object does to another, are folded into it. Dynamo guards tensors and what was the same
object twice; that two objects are two is guarded here.

Objects of one exact type can be one, others cannot. Those that are reached from the environment by what is watched are compared
when something changed; each call compares its own, with each other and with those. Both take a time that grows with their number."""

from __future__ import annotations

import enum
import functools
import types
from collections import defaultdict
from dataclasses import dataclass

from ... import _rt
from ...errors import Unsupported
from ...ir.guard import Guard
from ...ir.kinds import STEPS, GuardKind, RootKind, StepKind
from ...ir.objects import ObjectKey
from ...ir.source import Source

#: Of exactly these types no object changes, and `is` between two of them is refused (dynamo/patches/identity.py) or has one
#: answer.
_IMMUTABLE = frozenset((type(None), type(Ellipsis), type(NotImplemented), bool, int, float, complex, str, bytes, tuple, frozenset,
                        range, slice, types.ModuleType, types.CodeType, types.BuiltinFunctionType, types.WrapperDescriptorType,
                        types.MethodDescriptorType, types.MethodType, types.MappingProxyType))  # fmt: skip
#: Leaf guards that fix the exact type of a value; an `id` guard fixes the object.
_EXACT = frozenset(("type_match", "tensor_match", "equals_match", "id_match"))


@dataclass(frozen=True)
class Seen:
    """An object that the trace read. `kind`: its exact type, where a guard asks for it."""

    source: Source
    value: object
    kind: type | None
    is_fixed: bool  # a guard asks for this very object
    owner: int | None = None  # of an instance's `__dict__`: the id of the instance


def guards_of_identity(nodes: list, source_of, guards: list[Guard]) -> list[Guard]:
    """All guards, with those of identity. `nodes`: of Dynamo's guard tree; `source_of(node)`: how its value is reached."""
    seen = [_seen(node, source_of) for node in nodes if _matters(node)]
    if any(type(s.value) is dict and s.owner is None and not s.is_fixed for s in seen):
        seen += [_space_of(s) for s in seen if _has_space(s)]
    groups = _groups(seen)
    _refuse_hidden(groups)
    added = [guard for group in groups for guard in _sameness(group)]
    chosen = [group[0] for group in groups]
    in_question = [s for kind in _by_type(chosen) if len(kind) > 1 and not all(s.is_fixed for s in kind) for s in kind]
    if len(in_question) < 2:
        return [*guards, *added]
    there = tuple(s.source for s in in_question if _is_watchable(s))
    here = tuple(s.source for s in in_question if not _is_watchable(s))
    if len(here) > 1:
        guards = [guard for guard in guards if not _is_part(guard, here)]
        added.append(Guard(GuardKind.DISTINCT, here[0], here, "distinct objects"))
    if there and (here or len(there) > 1):
        added.append(Guard(GuardKind.ENV_DISTINCT, there[0], there, "distinct objects"))
        if here:
            added.append(Guard(GuardKind.NOT_OF_ENV, here[0], here, "distinct objects"))
    return [*guards, *added]


def _matters(node) -> bool:
    if node.parent is None or "example_value" not in node.kwargs:
        return False
    value = node.kwargs["example_value"]
    if type(value) in _IMMUTABLE or isinstance(value, (type, enum.Enum)):
        return False
    if node.accessor == "type_dict":  # a copy, made for the guard: two paths to one class show two
        return False
    owner = node.parent.kwargs.get("example_value")
    if node.accessor == "get_generic_dict" and isinstance(owner, (types.ModuleType, type)):
        return False
    return node.accessor != "globals_dict" and not isinstance(value, _plain_of_torch())


def _is_tensor(value) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


@functools.cache
def _plain_of_torch() -> tuple:
    """What PyTorch has one object of, or compares by value."""
    import torch

    return (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)


def _seen(node, source_of) -> Seen:
    value = node.kwargs["example_value"]
    kinds = {kind for kind, _ in node.leaves}
    owner = id(node.parent.kwargs.get("example_value")) if _reads_space(node) else None
    is_exact = not kinds.isdisjoint(_EXACT) or (owner is not None and type(value) is dict)
    source = source_of(node)
    is_fixed = "id_match" in kinds or (source.root[0] == RootKind.OBJECT and not source.steps)
    if is_fixed:
        source = Source((RootKind.OBJECT, ObjectKey(value)))
    return Seen(source, value, type(value) if is_exact or is_fixed else None, is_fixed, owner)


def _reads_space(node) -> bool:
    is_attribute = node.accessor in ("getattr", "generic_getattr") and node.kwargs.get("attr") == "__dict__"
    return is_attribute or node.accessor == "get_generic_dict"


def _has_space(seen: Seen) -> bool:
    """An instance whose attributes may be read through a dict that the program holds as well."""
    value = seen.value
    is_instance = not isinstance(value, (types.FunctionType, types.ModuleType)) and not _is_tensor(value)
    return is_instance and type(_rt.dict_of(value)) is dict


def _space_of(seen: Seen) -> Seen:
    step = StepKind.GENERIC_DICT if _is_watchable(seen) else StepKind.SPACE
    return Seen(seen.source.then(step), _rt.dict_of(seen.value), dict, False, id(seen.value))


def _groups(seen: list[Seen]) -> list[list[Seen]]:
    """Those that are one object, each once by its path; first the one that a call need not read."""
    groups: dict[int, dict] = defaultdict(dict)
    for one in seen:
        groups[id(one.value)].setdefault(one.source.key, one)
    return [
        sorted(group.values(), key=lambda s: (not s.is_fixed, not _is_watchable(s), _may_be_missing(s)))
        for group in groups.values()
    ]


def _refuse_hidden(groups: list[list[Seen]]) -> None:
    """Dynamo knows that two sources are one object, but not that this is so of a namespace."""
    for group in groups:
        if len({s.owner for s in group}) > 1:
            raise Unsupported("identity", f"{group[0].source} and {group[1].source} are one dict")


def _sameness(group: list[Seen]) -> list[Guard]:
    first = group[0]
    return [
        Guard(GuardKind.SAME, s.source, first.source, "one object")
        for s in group[1:]
        if not s.is_fixed and not _may_be_missing(s)
    ]


def _may_be_missing(seen: Seen) -> bool:
    """A `__dict__` that is only looked at where there is one."""
    return any(step == StepKind.SPACE for step, _ in seen.source.steps)


def _by_type(seen: list[Seen]) -> list[list[Seen]]:
    """Objects that may be one: of one exact type. Where a type is not known, of any."""
    if any(s.kind is None for s in seen):
        return [seen]
    kinds: dict[type | None, list[Seen]] = defaultdict(list)
    for one in seen:
        kinds[one.kind].append(one)
    return list(kinds.values())


def _is_watchable(seen: Seen) -> bool:
    """Nothing of the call is read to reach it, and its place cannot change without a word."""
    if seen.is_fixed:
        return True
    return not seen.source.is_input and all(STEPS[step].tells for step, _ in seen.source.steps)


def _is_part(guard: Guard, sources: tuple) -> bool:
    """Dynamo's own guard on tensors, of which `sources` say more."""
    return guard.kind is GuardKind.DISTINCT and {s.key for s in guard.arg} <= {s.key for s in sources}
