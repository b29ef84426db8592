"""Records the construction of Dynamo's C++ guard tree: a finished tree does not give its parameters back.

While a `GuardLog` is recording on a thread, every `add_*` and `*_manager` method of the guard manager classes and
every relational `install_*` function notes its arguments before it runs. Methods are found by prefix, so that one
that a newer PyTorch adds is recorded as well (and then refused by name in `guards.py` if it is not known).
The wrappers are in place only while a capture runs; captures are serialised by Dynamo's own compile lock."""

from __future__ import annotations

import contextlib
import functools
import threading
from dataclasses import dataclass, field
from typing import Any

from ... import _rt
from . import trials
from .registry import patch

_active = threading.local()


@dataclass
class Node:
    """A guard manager: how it is reached from its parent, and the leaf guards on its value."""

    manager: Any
    parent: Node | None = None
    accessor: str = "root"  # method name without `_manager`
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    leaves: list[tuple[str, tuple]] = field(default_factory=list)  # (method without add_/_guard, arguments)


class GuardLog:
    """What was built while recording: nodes by manager, and relational guards in order."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.relational: list[tuple[str, tuple]] = []
        self.epilogue: list[tuple[int, tuple]] = []  # (root manager id, arguments of the lambda guard)

    def node_of(self, manager) -> Node:
        node = self.nodes.get(id(manager))
        if node is None:
            node = self.nodes[id(manager)] = Node(manager)
        return node

    def tree_of(self, root) -> list[Node]:
        """All nodes under `root`, parents first."""
        wanted = []
        for node in self.nodes.values():
            top = node
            while top.parent is not None:
                top = top.parent
            if top.manager is root:
                wanted.append(node)
        return sorted(wanted, key=_depth)

    def note_child(self, parent, accessor: str, args: tuple, kwargs: dict, child) -> None:
        node = self.nodes.get(id(child))
        if node is None:
            self.nodes[id(child)] = Node(child, self.node_of(parent), accessor, args, kwargs)


def _depth(node: Node) -> int:
    depth = 0
    while node.parent is not None:
        node, depth = node.parent, depth + 1
    return depth


#: Guards that call Python from Dynamo's C++, which takes whatever they raise for "no" and forgets it. An interrupt that comes in
#: one is raised behind the check.
_IN_PYTHON = ("lambda", "epilogue_lambda")


@contextlib.contextmanager
def recording():
    """Records on this thread into the GuardLog that it yields, while the patch is in force."""
    log = GuardLog()
    previous = getattr(_active, "log", None)
    try:
        _active.log = log
        yield log
    finally:
        _active.log = previous


def _wrap_method(name: str, original):
    if name.startswith("add_") and name.endswith("_guard"):
        kind = name[len("add_") : -len("_guard")]

        def add(self, *args):
            log = getattr(_active, "log", None)
            if log is not None:
                if kind == "epilogue_lambda":
                    log.epilogue.append((id(self), args))
                    log.node_of(self)
                else:
                    log.node_of(self).leaves.append((kind, args))
            if kind in _IN_PYTHON and args:
                args = (_rt.uninterrupted(args[0]), *args[1:])
            return original(self, *args)

        return add
    accessor = name[: -len("_manager")]

    def manager(self, *args, **kwargs):
        child = original(self, *args, **kwargs)
        log = getattr(_active, "log", None)
        if log is not None and child is not None:
            log.note_child(self, accessor, args, kwargs, child)
        return child

    return manager


def _wrap_install(name: str, original):
    def install(*args):
        log = getattr(_active, "log", None)
        if log is not None:
            log.relational.append((name[len("install_") :], args))
        return original(*args)

    return install


def _wrap_profile(original):
    """Dynamo times one check of its guards for its log, behind a flush of the caches: 20 ms of a capture of 130."""

    def profile(*args):
        return original(*args) if getattr(_active, "log", None) is None else 0.0

    return profile


@patch("the guard tree", gone_when="a finished tree gives its parameters back", trials=trials.guard_tree)
def guard_tree(changes) -> None:
    """A capture's guards are read while Dynamo builds them."""
    from torch._C._dynamo import guards as native

    from ..names import dynamo_guards

    for cls in (native.GuardManager, native.RootGuardManager, native.DictGuardManager):
        for name in [n for n in cls.__dict__ if not n.startswith("_")]:
            is_leaf = name.startswith("add_") and name.endswith("_guard")
            is_accessor = name.endswith("_manager") and name != "clone_manager"
            if is_leaf or is_accessor:
                changes.replace(cls, name, functools.partial(_wrap_method, name))
    for name, original in list(vars(dynamo_guards).items()):
        # install_guard notes a guard that is yet to be built, and who imports it meanwhile keeps what is found here
        if name.startswith("install_") and callable(original) and name != "install_guard":
            changes.replace(dynamo_guards, name, functools.partial(_wrap_install, name))
    if hasattr(dynamo_guards, "profile_guard_manager"):
        changes.replace(dynamo_guards, "profile_guard_manager", _wrap_profile)
