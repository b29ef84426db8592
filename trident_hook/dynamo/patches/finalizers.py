"""Objects that a function makes, uses and drops. Dynamo never makes those that do not outlive the call, so what would happen when they
go (`__del__`, callbacks of weak references) does not; those that do outlive it are made at its end."""

from __future__ import annotations

import dis

from ..refusal import forbid
from . import trials
from .registry import patch


@patch(
    "objects with finalizers that are made inside",
    gone_when="Dynamo makes them where the function does",
    trials=trials.objects_made,
)
def objects_made(changes) -> None:
    """Refuses the making of an object whose class says what happens when it goes."""
    from ..names import SideEffects

    def track_object_new(self, cls_source, user_cls, *args, **kwargs):
        _refuse_finalizer(user_cls)

    def track_new_user_defined_object(self, base, kind, *args, **kwargs):
        _refuse_finalizer(getattr(kind, "value", None))

    changes.in_front(SideEffects, "track_object_new", track_object_new)
    changes.in_front(SideEffects, "track_new_user_defined_object", track_new_user_defined_object)


def _refuse_finalizer(kind) -> None:
    if isinstance(kind, type) and hasattr(kind, "__del__"):
        forbid("unaccounted", f"an object of {kind.__name__} is made, whose finalizer would not run where it goes")


@patch(
    "callbacks of weak references that are made inside",
    gone_when="Dynamo calls them where their object goes",
    trials=trials.weak_references,
)
def weak_references(changes) -> None:
    """Such a reference is only made if it outlives the call."""
    from ..names import WeakRefVariable

    def __init__(self, referent, callback, source=None, **options):
        if source is None and not (callback.is_python_constant() and callback.as_python_constant() is None):
            forbid("unaccounted", "a weak reference is made, whose callback would not be called")

    changes.in_front(WeakRefVariable, "__init__", __init__)


@patch("generators that are dropped half way", gone_when="Dynamo closes them where they go", trials=trials.generators)
def generators(changes) -> None:
    """Python closes such a generator when it goes, and its `finally` and `with` blocks end. One that is returned is a list's iterator
    afterwards."""
    from ..names import LocalGeneratorObjectVariable, OutputGraph

    def __init__(self, code, space, inline_tracer, **options):
        if _cleans_up(code):
            inline_tracer.output.__dict__.setdefault(_GENERATORS, []).append(inline_tracer)

    def reconstruct(self, codegen):
        forbid("unaccounted", f"generator {self.get_name()} outlives the call")

    def remove_unused_graphargs(self):
        for tracer in self.__dict__.get(_GENERATORS, ()):
            if not tracer.generator_exhausted:
                forbid("unaccounted", f"generator {tracer.f_code.co_name} is dropped before its end, and cleans up")

    changes.in_front(LocalGeneratorObjectVariable, "__init__", __init__)
    changes.in_front(LocalGeneratorObjectVariable, "reconstruct", reconstruct)
    changes.in_front(OutputGraph, "remove_unused_graphargs", remove_unused_graphargs)


_GENERATORS = "_trident_hook_generators"
_PUSH_EXC_INFO = dis.opmap["PUSH_EXC_INFO"]


def _cleans_up(code) -> bool:
    """Whether the code has a `try` or `with` block: there a handler begins with this instruction."""
    return _PUSH_EXC_INFO in code.co_code[::2]


PATCHES = (objects_made, weak_references, generators)
