"""What launches a kernel in Python: `run` and `__getitem__` of its class, unless the kernel has its own. Tools replace them, to count
launches or to look at arguments, and a hit calls neither. So a replacement that is there at the capture refuses it, and a later one
is noticed by guards that are only asked when the class or the kernel has changed."""

from __future__ import annotations

import sys

from ...errors import Unsupported
from ...ir.guard import Guard
from ...ir.kinds import GuardKind, RootKind, StepKind
from ...ir.objects import ObjectKey
from ...ir.source import Source
from ...runtime.class_facts import facts_of

_NAMES = ("run", "__getitem__")


def refuse_replaced(kernel) -> None:
    """Raises Unsupported where somebody has put a function of theirs in the place of Triton's."""
    if "run" in vars(kernel):
        raise Unsupported("launch", f"{type(kernel).__name__} has a `run` of its own")
    for name in _NAMES:
        function = getattr(type(kernel), name, None)
        home = sys.modules.get(getattr(function, "__module__", None) or "")
        code = getattr(function, "__code__", None)
        own = (getattr(function, "__module__", None) or "").split(".")[0] == "triton"
        if not own or code is None or code.co_filename != getattr(home, "__file__", None):
            raise Unsupported("launch", f"{type(kernel).__name__}.{name} is not Triton's own")


def guards(kernel) -> list[Guard]:
    """On the class of a kernel or tuner, and on the object."""
    kind, facts = type(kernel), facts_of(type(kernel))
    found = []
    if facts is not None:
        found.append(
            Guard(
                GuardKind.CLASS_FACTS,
                Source((RootKind.OBJECT, ObjectKey(kind))),
                ObjectKey(facts),
                f"{kind.__name__} launches as it did",
            )
        )
    if "run" not in vars(kernel):
        space = Source((RootKind.OBJECT, ObjectKey(kernel))).then(StepKind.GENERIC_DICT)
        found.append(Guard(GuardKind.DICT_CONTAINS, space, (False, "run"), "no run of its own"))
    return found
