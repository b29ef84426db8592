"""Guards that Dynamo does not make, though the answer depends on what they check: attributes of classes, code and
defaults of methods, hooks on all modules, names of builtins that a module may shadow. All are about the environment
and watched, so that a hit pays nothing or one comparison for them. docs/guards.md lists them."""

from __future__ import annotations

import builtins
import dis
import enum
import operator
import sys
import types

from ...errors import Unsupported
from ...ir.guard import Guard
from ...ir.kinds import GuardKind, RootKind, StepKind
from ...ir.objects import ObjectKey
from ...ir.source import Source
from ...runtime.class_facts import facts_of

_LOAD_GLOBAL, _LOAD_NAME, _EXTENDED_ARG = (dis.opmap[name] for name in ("LOAD_GLOBAL", "LOAD_NAME", "EXTENDED_ARG"))

#: What reads attributes whose names it is given: traced code that mentions one may have read any.
_MAKE_UP_NAMES = frozenset(
    ("getattr", "hasattr", "setattr", "delattr", "vars", "dir", "attrgetter", "methodcaller", "getmembers", "__dict__",
     "__getattribute__", "__getattr__", "copy", "deepcopy", "getattr_static")
)  # fmt: skip
_READERS = (operator.attrgetter, operator.methodcaller)


def guards_of_the_environment(guards: list[Guard], values: list, traced_code: list, globals_: dict) -> list[Guard]:
    """`values`: what Dynamo's guards saw; `traced_code`: of the function (first) and of all that it calls;
    `globals_`: of the function."""
    if any("Buffer" in code.co_names for code in traced_code):
        raise Unsupported(
            "buffer", "isinstance(..., torch.nn.Buffer) asks for a mark on the tensor, which is not guarded"
        )
    classes = _classes(guards, _names_in(traced_code, guards))
    added = [Guard(GuardKind.CLASS_FACTS, _object(c), ObjectKey(facts), "class") for c, facts in classes.items()]
    codes = set(traced_code)
    methods = [f for f in _methods(classes) if f.__code__ in codes and _is_users(f.__module__)]
    for method in methods:
        added += _function_guards(method)
    if any(_is_module_class(c) for c in classes):
        added += _global_hook_guards()
    functions = [*methods, *(f for f in map(_plain_function, values) if f is not None and f.__code__ in codes)]
    added += _shadow_guards(traced_code, functions, globals_)
    return added


# -- classes and their methods ---------------------------------------------------------------------------------------


def _classes(guards: list[Guard], names: frozenset[str] | None) -> dict:
    classes = {}
    for guard in guards:
        kind = _told_by(guard)
        if isinstance(kind, type) and kind not in classes:
            facts = facts_of(kind, None if issubclass(kind, enum.Enum) else names)
            if facts is not None:
                classes[kind] = facts
    return classes


def _told_by(guard: Guard):
    """The class that a guard asks for, or the object, which may be one; None where it asks for neither."""
    if guard.kind is GuardKind.TENSOR:
        return guard.arg.type_
    return guard.arg.value if guard.kind in (GuardKind.TYPE, GuardKind.ID) else None


def _names_in(traced_code: list, guards: list[Guard]) -> frozenset[str] | None:
    """Names of attributes that the traced code can have read; None when it may have made up others."""
    names: set[str] = set()
    for code in traced_code:
        _note_names(code, names)
    objects = [guard.arg.value for guard in guards if guard.kind in (GuardKind.ID, GuardKind.TYPE)]
    made_up = any(isinstance(value, _READERS) or value in _READERS for value in objects if _is_plain_callable(value))
    return None if made_up or not names.isdisjoint(_MAKE_UP_NAMES) else frozenset(names)


def _note_names(constant, names: set[str]) -> None:
    if isinstance(constant, str):
        names.add(constant)
    elif isinstance(constant, (tuple, frozenset)):
        for item in constant:
            _note_names(item, names)
    elif isinstance(constant, types.CodeType):
        names.update(constant.co_names)
        for item in constant.co_consts:
            _note_names(item, names)


def _is_plain_callable(value) -> bool:
    return isinstance(value, (type, types.BuiltinFunctionType, *_READERS))


def _methods(classes) -> list:
    found = {}
    for kind in classes:
        for base in kind.__mro__:
            for value in vars(base).values():
                for function in _functions_in(value):
                    found[id(function)] = function
    return list(found.values())


def _functions_in(value) -> list:
    if isinstance(value, types.FunctionType):
        return [value]
    if isinstance(value, (staticmethod, classmethod)):
        return _functions_in(value.__func__)
    if isinstance(value, property):
        return [f for part in (value.fget, value.fset) for f in _functions_in(part)]
    return _functions_in(value.func) if type(value).__name__ == "cached_property" else []


def _function_guards(function) -> list[Guard]:
    """The function is known by identity (its class is guarded); what it consists of can be exchanged in place."""
    source = _object(function)
    guards = [Guard(GuardKind.ID, source.then(StepKind.CODE), ObjectKey(function.__code__), "code of a method")]
    for step, value in ((StepKind.DEFAULTS, function.__defaults__), (StepKind.KWDEFAULTS, function.__kwdefaults__)):
        guards.append(Guard(GuardKind.ID, source.then(step), ObjectKey(value), f"{step} of a method"))
    for name, value in (function.__kwdefaults__ or {}).items():
        guards.append(
            Guard(
                GuardKind.ID,
                source.then(StepKind.KWDEFAULTS).then(StepKind.DICT_ITEM, name),
                ObjectKey(value),
                "default",
            )
        )
    return guards


def _is_module_class(kind: type) -> bool:
    from torch import nn

    return issubclass(kind, nn.Module)


def _global_hook_guards() -> list[Guard]:
    """Hooks on every module of the process: `nn.Module.__call__` looks at these dicts, Dynamo does not."""
    from torch.nn.modules import module

    source = _object(module).then(StepKind.GENERIC_DICT)
    guards = []
    for name in ("backward_pre_hooks", "backward_hooks", "forward_hooks", "forward_pre_hooks"):
        hooks = getattr(module, f"_global_{name}", None)
        if hooks:
            raise Unsupported("module-hooks", f"torch.nn.modules.module._global_{name} is not empty")
        if hooks is not None:
            guards.append(
                Guard(
                    GuardKind.DICT_LENGTH, source.then(StepKind.DICT_ITEM, f"_global_{name}"), 0, "hooks on all modules"
                )
            )
    return guards


# -- builtins ----------------------------------------------------------------------------------------------------------


def _shadow_guards(traced_code: list, functions: list, globals_: dict) -> list[Guard]:
    """A builtin name must not become a global of the module whose code reads it."""
    spaces = _spaces_by_file(traced_code)
    spaces.update((f.__code__, f.__globals__) for f in functions if _is_users(f.__module__))
    for code in traced_code[:1]:
        spaces[code] = globals_
    guards = []
    for code, space in spaces.items():
        source = Source((RootKind.GLOBAL,), (), "G") if space is globals_ else _object(space)
        for name in sorted(_global_names(code)):  # in an order that is the same in every process
            if name not in space and name in vars(builtins):
                guards.append(Guard(GuardKind.DICT_CONTAINS, source, (False, name), "a builtin"))
    return guards


def _spaces_by_file(codes: list) -> dict:
    """Globals of code whose function is not at hand (a closure made during the trace): those of its file's module."""
    files = {code.co_filename for code in codes}
    modules = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(module, types.ModuleType) and file in files and _is_users(module.__name__):
            modules[file] = vars(module)
    return {code: modules[code.co_filename] for code in codes if code.co_filename in modules}


def _global_names(code) -> set[str]:
    """Read from the bytes: dis makes an object of every instruction, of every function that was inlined."""
    names, more = set(), 0
    raw = code.co_code  # two bytes an instruction; inline caches are zeros there
    for op, low in zip(raw[::2], raw[1::2], strict=True):
        argument = more << 8 | low
        more = argument if op == _EXTENDED_ARG else 0
        if op == _LOAD_GLOBAL:
            names.add(code.co_names[argument >> 1])  # the lowest bit: whether a NULL is pushed for a call
        elif op == _LOAD_NAME:
            names.add(code.co_names[argument])
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


def _plain_function(value):
    value = getattr(value, "__func__", value) if isinstance(value, types.MethodType) else value
    return value if isinstance(value, types.FunctionType) else None


def _object(value) -> Source:
    return Source((RootKind.OBJECT, ObjectKey(value)))


def _is_users(module: str | None) -> bool:
    package = (module or "").split(".")[0]
    return package not in ("torch", "triton", "builtins") and package not in sys.stdlib_module_names
