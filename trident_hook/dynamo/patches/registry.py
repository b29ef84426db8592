"""How we change PyTorch and Triton: every change is part of a `Patch`, which says why it is made and when it can go, and is
in force only while one of our captures runs. What each patch does is in the files beside this one, which of them there are
in `catalogue.py`, and what else of a process we change in docs/footprint.md.

A patch stands in the process for all threads, so a replacement asks `is_capturing()` where it would mind: code that was
imported during a capture may have kept it, and another thread may call it."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ... import _compat
from ..._logs import log
from .. import names

_ABSENT = object()

#: Threads of the captures under way, one entry for each: several of one thread where captures are nested.
_holders: list[int] = []


def is_capturing() -> bool:
    """Tells whether one of our captures runs on this thread."""
    return threading.get_ident() in _holders


class Change:
    """`owner.name`, an attribute of a class or of a module, is what `make(what it was)` returns."""

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        self.owner, self.name, self.make = owner, name, make
        self._before: Any = _ABSENT  # in the owner itself
        self._ours: Any = _ABSENT

    def put(self) -> None:
        """Replaces the attribute. The replacement is made once, and anew only if something else stands there by now."""
        now = vars(self.owner).get(self.name, _ABSENT)
        if self._ours is _ABSENT or (now is not self._before and now is not self._ours):
            self._before = now
            self._ours = self.make(_inherited(self.owner, self.name) if now is _ABSENT else now)
        setattr(self.owner, self.name, self._ours)

    def take_back(self) -> None:
        """Restores what was there, unless somebody else has replaced ours meanwhile."""
        if vars(self.owner).get(self.name, _ABSENT) is not self._ours or self._ours is _ABSENT:
            return
        if self._before is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self._before)


def _inherited(owner: Any, name: str) -> Any:
    """What a class has from its bases, as it stands in the base: a classmethod is one still.

    Raises AttributeError where there is nothing of that name."""
    for base in getattr(owner, "__mro__", ())[1:]:
        if name in vars(base):
            return vars(base)[name]
    raise AttributeError(f"{getattr(owner, '__name__', owner)} has no {name}")


class Changes(list):
    """Filled by the function of a patch."""

    def replace(self, owner: Any, meaning: str, make: Callable[[Any], Any]) -> None:
        """`make` is given what stands there now, under the name that the method of that meaning has in this PyTorch (`names.py`),
        if it has one of its own. Raises AttributeError where there is nothing."""
        name = names.method(meaning)
        if name is None:
            return
        if name not in vars(owner):
            _inherited(owner, name)
        self.append(Change(owner, name, make))

    def in_front(self, owner: type, meaning: str, first: Callable[..., Any]) -> None:
        """`first(self, tx, ...)` runs before a method of Dynamo's during our captures; what it returns, unless None, is the
        answer. Raises AttributeError where the class has no such method."""

        def make(original: Any) -> Any:
            @functools.wraps(original)
            def method(self: Any, *args: Any, **kwargs: Any) -> Any:
                answer = first(self, *args, **kwargs) if is_capturing() else None
                return original(self, *args, **kwargs) if answer is None else answer

            return method

        self.replace(owner, meaning, make)


@dataclass(eq=False)
class Patch:
    """One thing that PyTorch or Triton does otherwise during our captures.

    about: in a user's words. why: the reason. gone_when: what would make it superfluous. is_lesson: without it a capture
    may be wrong; what is no lesson is only captured less often. since, below: PyTorch versions that need it. trials: what
    shows that it works in this PyTorch (see `trials.py`); a lesson has some."""

    about: str
    fill: Callable[[Changes], None]
    gone_when: str
    is_lesson: bool = True
    since: tuple[int, ...] = (0,)
    below: tuple[int, ...] = (99,)
    trials: Callable[[], Iterable[Any]] | None = None
    missing: str = ""  # why it cannot be put in place in this PyTorch
    _changes: Changes | None = field(default=None, repr=False)

    @property
    def why(self) -> str:
        return (self.fill.__doc__ or "").strip()

    @property
    def is_wanted(self) -> bool:
        """Whether this version of PyTorch needs it."""
        return self.since <= _compat.torch_version() < self.below

    def changes(self) -> Changes:
        """What it changes, found once. Nothing where the names are not what they were: see `missing`."""
        if self._changes is None:
            found = Changes()
            try:
                if self.is_wanted:
                    self.fill(found)
            except (ImportError, AttributeError, KeyError, TypeError) as error:
                self.missing, found = f"{type(error).__name__}: {error}", Changes()
                log("capture", "PyTorch or Triton is not as it was (%s): %s", self.about, error)
            self._changes = found
        return self._changes


def patch(about: str, **known: Any) -> Callable[[Callable[[Changes], None]], Patch]:
    """Makes a `Patch` of the function that fills its changes, whose docstring says why it is there."""
    return lambda fill: Patch(about, fill, **known)


# -- in force ----------------------------------------------------------------------------------------------------------

_lock = threading.RLock()
_in_place: list[Change] = []


@contextlib.contextmanager
def in_force(patches: Iterable[Patch]) -> Iterator[None]:
    """The patches are in place while the block runs, which is a capture on this thread. Blocks may be nested, and overlap on
    several threads: the first puts the patches in place, the last takes them back."""
    here = threading.get_ident()
    try:
        _enter(patches, here)
        yield
    finally:
        _leave(here)


def _enter(patches: Iterable[Patch], thread: int) -> None:
    with _lock:
        _holders.append(thread)
        if len(_holders) == 1:
            for change in (change for one in patches for change in one.changes()):
                _in_place.append(change)
                change.put()


def _leave(thread: int) -> None:
    """Also of what an interrupt or an error has left half done. Behind a fork there may be nothing left to do."""
    with _lock:
        if thread in _holders:
            _holders.remove(thread)
        if not _holders:
            _take_back()


def _take_back() -> None:
    while _in_place:
        _in_place.pop().take_back()


def _after_fork_in_child() -> None:
    """Captures of other threads are not here: none gives the lock back, or takes back what it has put in place."""
    global _lock
    _lock = threading.RLock()
    here = threading.get_ident()
    _holders[:] = [thread for thread in _holders if thread == here]
    if not _holders:
        _take_back()


os.register_at_fork(after_in_child=_after_fork_in_child)


@contextlib.contextmanager
def added(table: dict, entries: dict) -> Iterator[None]:
    """A table of Dynamo's has these entries as well while the block runs. Dynamo's compile lock is held meanwhile."""
    before = {key: table[key] for key in entries if key in table}
    table.update(entries)
    try:
        yield
    finally:
        for key in entries:
            table.pop(key, None)
        table.update(before)
