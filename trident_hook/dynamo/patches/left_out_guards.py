"""Guards that Dynamo leaves out although its trace depends on what they check. While one of our captures runs on a
thread, Dynamo is made to install them itself, from its own GuardBuilder; other compiles are left alone. docs/guards.md
lists the places; each is kept by a function of the judges' corpus."""

from __future__ import annotations

import functools
import inspect
import types

from ...errors import Unsupported
from . import trials
from .registry import is_capturing, patch

_INSTALLS_IT = "Dynamo installs that guard itself"
#: Methods of a dict whose answer and effect do not depend on the order of its keys.
_BLIND_TO_ORDER = frozenset(
    ("__getitem__", "__setitem__", "__contains__", "__len__", "__eq__", "__ne__", "__bool__", "get", "setdefault")
)
_MERGES = frozenset(("update", "__or__", "__ror__", "__ior__"))
_MUTABLE = (list, set)
_DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType)


@patch("method descriptors that are passed around", gone_when=_INSTALLS_IT, trials=trials.descriptors)
def descriptors(changes) -> None:
    """Method descriptors that are passed around (`f = torch.Tensor.relu`) are taken to be what they were."""
    from ..names import BaseTorchVariable, GuardBuilder, install_guard

    def make(original):
        def create_with_source(cls, value, source):
            if is_capturing() and isinstance(value, _DESCRIPTORS):
                install_guard(source.make_guard(GuardBuilder.ID_MATCH))
            return original.__func__(cls, value, source)

        return classmethod(create_with_source)

    changes.replace(BaseTorchVariable, "create_with_source", make)


@patch("an argument that is also a global", gone_when=_INSTALLS_IT, trials=trials.duplicates)
def duplicates(changes) -> None:
    """An argument that is the same object as a global: Dynamo knows that it leaves the pair unguarded (make_dupe_guard in
    torch/_dynamo/guards.py)."""
    from ..names import GuardBuilder, builder

    duplicate = GuardBuilder.DUPLICATE_INPUT

    def make(original):
        def make_dupe_guard(source, other):
            guard = original(source, other)
            if guard is None and other and other != source and is_capturing():
                guard = functools.partial(duplicate, source_b=other)
            return guard

        return make_dupe_guard

    changes.replace(builder, "make_dupe_guard", make)


@patch("class literals", gone_when=_INSTALLS_IT, trials=trials.class_literals)
def class_literals(changes) -> None:
    """A list or set of constants that is an attribute of a class is folded into the trace without a guard on it."""
    from ..names import AttrSource, ConstantVariable, UserDefinedClassVariable, VariableTracker

    def var_getattr(self, tx, name):
        value = inspect.getattr_static(self.value, name, None)
        if not _holds_mutable(value) or not ConstantVariable.is_literal(value):
            return None
        if self.source is None:
            raise Unsupported("guard", f"{self.value.__name__}.{name} may change, and how it is reached is not known")
        return VariableTracker.build(tx, value, AttrSource(self.source, name))

    changes.in_front(UserDefinedClassVariable, "reads an attribute", var_getattr)


def _holds_mutable(value) -> bool:
    return type(value) in _MUTABLE or (isinstance(value, tuple) and any(map(_holds_mutable, value)))


@patch("absent attributes", gone_when=_INSTALLS_IT, trials=trials.absent_attributes)
def absent_attributes(changes) -> None:
    """An attribute that an object lacks (its class's __getattr__ answers instead, or AttributeError does) may be set; one
    of a module or a function whose presence was asked for may come and go."""
    from ..names import GuardBuilder, PythonModuleVariable, UserDefinedObjectVariable, functions, install_guard

    def guard_absence(source, value, name) -> None:
        space = getattr(value, "__dict__", None)
        if type(space) is dict and "__getattr__" not in space:
            absent = functools.partial(GuardBuilder.NOT_PRESENT_IN_GENERIC_DICT, attr=name)
            install_guard(source.make_guard(absent))
        else:
            install_guard(_asked_attribute(source, name))

    def guard_presence(source, value, name) -> None:
        if source is None:
            return
        if hasattr(value, name):
            install_guard(_asked_attribute(source, name))
        else:
            guard_absence(source, value, name)

    def attribute_of_an_object(self, tx, name):
        space = getattr(self.value, "__dict__", {})
        if self.source is None or name in space or name == "__dict__":
            return
        in_class = inspect.getattr_static(type(self.value), name, self)
        if in_class is self and type(space) is dict and hasattr(self.value, "__dict__"):
            guard_absence(self.source, self.value, name)
        elif inspect.ismemberdescriptor(in_class) and not hasattr(self.value, name):  # an empty slot
            install_guard(_asked_attribute(self.source, name))

    def attribute_of_a_module(self, tx, name):
        if not hasattr(self.value, name):
            guard_presence(self.source, self.value, name)

    def asked_of_a_module(self, tx, name):
        guard_presence(self.source, self.value, name)

    def asked_of_a_function(self, tx, name):
        guard_presence(self.source, self.fn, name)

    changes.in_front(UserDefinedObjectVariable, "reads an attribute", attribute_of_an_object)
    changes.in_front(PythonModuleVariable, "reads an attribute", attribute_of_a_module)
    changes.in_front(PythonModuleVariable, "is asked for an attribute", asked_of_a_module)
    changes.in_front(functions.UserFunctionVariable, "is asked for an attribute", asked_of_a_function)

    def make(original):
        def fn_var_getattr(tx, function, source, name):
            if is_capturing() and source is not None and inspect.getattr_static(function, name, source) is source:
                guard_absence(source, function, name)
            return original(tx, function, source, name)

        return fn_var_getattr

    changes.replace(functions, "fn_var_getattr", make)


def _asked_attribute(source, name: str):
    """The guard that an attribute is there, or not, as it is now. From PyTorch 2.12 on it is made at the object."""
    from ..names import AttrSource, GuardBuilder

    if "attr" in inspect.signature(GuardBuilder.HASATTR).parameters:
        asked = functools.partial(GuardBuilder.HASATTR, attr=name)
        return source.make_guard(asked)
    return AttrSource(source, name).make_guard(GuardBuilder.HASATTR)


@patch("keys of dicts", gone_when=_INSTALLS_IT, trials=trials.dict_keys)
def dict_keys(changes) -> None:
    """The order of a dict's keys is guarded by Dynamo where the dict is enumerated by name (`items()`), not where it is
    copied, unpacked, merged, popped from or mapped over; and that a key is absent, not where that is a KeyError."""
    from ..names import ConstDictVariable, DefaultDictVariable, InstructionTranslator, SetVariable

    def guard(variable) -> None:
        variable = getattr(variable, "realize", lambda: variable)()
        variable = getattr(variable, "_dict_vt", None) or getattr(variable, "dv_dict", None) or variable
        if isinstance(variable, ConstDictVariable) and not isinstance(variable, SetVariable) and variable.source:
            variable.install_dict_keys_match_guard()
            InstructionTranslator.current_tx().output.guard_on_key_order.add(variable.source)

    def call_method(self, tx, name, args, kwargs):
        if name == "__getitem__" and len(args) == 1 and self.source and args[0] not in self:
            self.install_dict_contains_guard(tx, args)  # KeyError, or what a default dict makes
        if name not in _BLIND_TO_ORDER:
            guard(self)
        for other in args if name in _MERGES else ():
            guard(other)

    def subscript(self, tx, key):
        call_method(self, tx, "__getitem__", [key], {})

    def enumerated(self, *args, **kwargs):
        guard(self)

    for kind in (ConstDictVariable, DefaultDictVariable):
        changes.in_front(kind, "calls a method", call_method)
        changes.in_front(kind, "is subscripted", subscript)
    for name in ("keys_as_python_constant", "unpack_var_sequence", "call_tree_map_branch"):
        changes.in_front(ConstDictVariable, name, enumerated)


@patch("globals of the standard library", gone_when=_INSTALLS_IT, trials=trials.stdlib_globals)
def stdlib_globals(changes) -> None:
    """Globals of the standard library's modules are taken to be constant, os.environ among them."""
    from ..names import symbolic_convert

    def make(original):
        return lambda module: not is_capturing() and original(module)

    changes.replace(symbolic_convert, "is_stdlib", make)


@patch("the type of buffers", gone_when=_INSTALLS_IT, trials=trials.buffers)
def buffers(changes) -> None:
    """`torch.nn.Buffer(t)` is a plain tensor with a mark; Dynamo takes `type()` of it to be torch.nn.Buffer. What asks for
    the mark (isinstance(t, torch.nn.Buffer)) is refused in of_the_environment.py."""
    import torch

    from ..names import builder

    def make(original):
        def get_specialized_props(*args):
            props = original(*args)
            if is_capturing() and props.get("class_type") is torch.nn.Buffer:
                props["class_type"] = torch.Tensor
            return props

        return get_specialized_props

    changes.replace(builder, "get_specialized_props", make)


PATCHES = (descriptors, duplicates, class_literals, absent_attributes, dict_keys, stdlib_globals, buffers)
