"""Dynamo's names by what they mean to us: `from .names import ConstDictVariable` finds the class wherever this PyTorch has it, and
`method("reads an attribute")` is the method by which a variable does so there. Where something has moved it has a row for each version
from which on it is elsewhere. CONTRIBUTING.md says how to find out what a new PyTorch has moved.

A name that is found proves nothing about what comes past it: that is for the trials of the lessons (`prove.py`)."""

from __future__ import annotations

import importlib
from typing import Any

from .. import _compat

_ROOT = "torch._dynamo"

#: Where classes and functions are that never moved.
_SETTLED = {
    "source": "AttrSource DictGetItemSource GetItemSource GlobalSource ImportSource",
    "guards": "GuardBuilder install_guard",
    "exc": "ObservedException Unsupported raise_observed_exception unimplemented",
    "current_scope_id": "current_scope_id enter_new_scope",
    "eval_frame": "reset_code",
    "hooks": "Hooks",
    "types": "ConvertFrameReturn",
    "utils": "tuple_iterator_getitem",
    "output_graph": "OutputGraph",
    "side_effects": "SideEffects",
    "symbolic_convert": "InliningInstructionTranslator InstructionTranslator",
    "variables.base": "AttributeMutation ValueMutationNew VariableTracker",
    "variables.builder": "SourcelessBuilder VariableBuilder",
    "variables.builtin": "BuiltinVariable",
    "variables.constant": "ConstantVariable",
    "variables.ctx_manager": "GradModeVariable NullContextVariable",
    "variables.dicts": "ConstDictVariable",
    "variables.functions": (
        "DynamoTritonHOPifier LocalGeneratorObjectVariable PolyfilledFunctionVariable TMADescriptorStableVariable "
        "TritonKernelVariable UserFunctionVariable UserMethodVariable WrapperUserFunctionVariable"
    ),
    "variables.lists": "BaseListVariable DequeVariable TupleVariable",
    "variables.misc": (
        "AutogradFunctionContextVariable AutogradFunctionVariable LambdaVariable LoggingLoggerVariable "
        "PythonModuleVariable WeakRefVariable"
    ),
    "variables.nn_module": "NNModuleVariable",
    "variables.tensor": "SymNodeVariable TensorVariable",
    "variables.torch": "BaseTorchVariable TorchInGraphFunctionVariable",
    "variables.user_defined": "UserDefinedClassVariable UserDefinedObjectVariable",
}

#: Those that did: the module from each version on.
_MOVED = {
    "DefaultDictVariable": {(2, 11): "variables.dicts", (2, 13): "variables.user_defined"},
    "NamedTupleVariable": {(2, 11): "variables.lists", (2, 12): "variables.user_defined"},
    "SetVariable": {(2, 11): "variables.dicts", (2, 12): "variables.sets"},
}

#: Modules of which we look at more than one name, or change one.
_MODULES = {
    "builder": "variables.builder",
    "convert_frame": "convert_frame",
    "dynamo_guards": "guards",
    "eval_frame": "eval_frame",
    "functions": "variables.functions",
    "symbolic_convert": "symbolic_convert",
    "trace_rules": "trace_rules",
    "utils": "utils",
    "variables": "variables",
    "variables_of_torch": "variables.torch",
}

#: What a variable does, and the method by which it does: `(self, tx, ...)`. None: another method does that as well.
_METHODS: dict[str, dict[tuple[int, ...], str | None]] = {
    "reads an attribute": {(2, 11): "var_getattr", (2, 14): "tp_getattro_impl"},
    "is asked for an attribute": {(2, 11): "call_obj_hasattr"},
    "is called": {(2, 11): "call_function"},
    "calls a method": {(2, 11): "call_method"},
    "is subscripted": {(2, 11): None, (2, 12): "mp_subscript_impl"},
    "is applied": {(2, 11): "call_apply"},
}

_WHERE = {name: module for module, names in _SETTLED.items() for name in names.split()}


def row_of(rows: dict[tuple[int, ...], Any], version: tuple[int, ...]) -> Any:
    """What holds for a version: the row of the newest that is no newer than it, or the oldest."""
    known = [since for since in rows if since <= version]
    return rows[max(known, default=min(rows))]


def where(name: str, version: tuple[int, ...]) -> str | None:
    """The module of Dynamo's in which a class or a function is in that PyTorch; None for a name that has no row."""
    return row_of(_MOVED[name], version) if name in _MOVED else _WHERE.get(name)


def method(meaning: str) -> str | None:
    """The name of the method that does it in this PyTorch. What is not in the table is the name itself."""
    return row_of(_METHODS[meaning], _compat.torch_version()) if meaning in _METHODS else meaning


def attribute_of(variable: Any, tx: Any, name: str) -> Any:
    """What Dynamo reads for an attribute of a variable."""
    return getattr(variable, str(method("reads an attribute")))(tx, name)


def table() -> dict[str, tuple[str, ...]]:
    """All names, by kind, for who looks at what a new PyTorch has moved."""
    return {
        "classes and functions": (*_WHERE, *_MOVED),
        "modules": tuple(_MODULES),
        "methods": tuple(_METHODS),
    }


def __getattr__(name: str) -> Any:
    """Raises AttributeError, which `import` makes an ImportError, where this PyTorch has it not."""
    version = _compat.torch_version()
    if name in _MODULES:
        return importlib.import_module(f"{_ROOT}.{_MODULES[name]}")
    module = where(name, version)
    if module is None:
        raise AttributeError(f"no row of {__name__} tells where {name} is")
    return getattr(importlib.import_module(f"{_ROOT}.{module}"), name)
