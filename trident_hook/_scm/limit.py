"""What lies in the cache folder, and how it is kept to its limit: what was used least recently goes first.

Running programs lose nothing by it: a module that is loaded is a private copy, and what is missing is built again. Processes
that clean up at once remove the same files."""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass, field

from . import trusted

#: Of a file while it is written.
TEMPORARY = ".new-"
_FOLDER = re.compile(r"[0-9a-f]{2}")
_OURS = re.compile(r"([0-9a-f]{32})\.(so|o|pyx)")
_PRELUDE = "prelude"
_PRELUDE_OURS = re.compile(r"[0-9a-f]{32}")
_LEFT_S = 3600  # after which a temporary file's writer is gone
_GOAL = 0.9  # of the limit, so that not every file that is written makes another one go


@dataclass
class Entry:
    """The files of one module (or precompiled header), which come and go together."""

    folder: str
    key: str
    kind: str  # "module", "header", "left over"
    size: int = 0
    used: float = 0.0  # when it last was
    names: list[str] = field(default_factory=list)


def entries(root: int) -> list[Entry]:
    """All that is ours in the folder. What is not is neither counted nor touched."""
    found: list[Entry] = []
    for folder in _names(root):
        if _FOLDER.fullmatch(folder):
            with _inside(root, folder) as at:
                found += _modules(at, folder)
        elif folder == _PRELUDE:
            with _inside(root, folder) as at:
                found += _headers(at)
    return found


def trim(root: int, limit: int) -> int:
    """Removes what is over the limit. Returns how many files went."""
    found = entries(root)
    size = sum(entry.size for entry in found)
    goal = limit if size <= limit else int(limit * _GOAL)
    now, removed = time.time(), 0
    for entry in sorted(found, key=lambda entry: entry.used):
        left_over = entry.kind == "left over" and now - entry.used > _LEFT_S
        if left_over or (size > goal and entry.kind != "left over"):
            removed += remove(root, entry)
            size -= entry.size
    return removed


def remove(root: int, entry: Entry) -> int:
    """Returns how many files went."""
    removed = 0
    with contextlib.suppress(OSError, trusted.NotTrusted), contextlib.ExitStack() as stack:
        at = stack.enter_context(trusted.below(root, entry.folder))
        inner = stack.enter_context(trusted.below(at, entry.key)) if entry.kind == "header" else at
        for name in entry.names:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=inner)
                removed += 1
        if entry.kind == "header":
            os.rmdir(entry.key, dir_fd=at)
    return removed


def _modules(at: int, folder: str) -> list[Entry]:
    by_key: dict[str, Entry] = {}
    for name in _names(at):
        ours = _OURS.fullmatch(name)
        if ours:
            _add(by_key.setdefault(ours[1], Entry(folder, ours[1], "module")), at, name)
        elif name.startswith(TEMPORARY):
            _add(by_key.setdefault(name, Entry(folder, name, "left over")), at, name)
    return list(by_key.values())


def _headers(at: int) -> list[Entry]:
    found = []
    for name in _names(at):
        if _PRELUDE_OURS.fullmatch(name) or name.startswith(TEMPORARY):
            entry = Entry(_PRELUDE, name, "header")
            with _inside(at, name) as inner:
                for file in _names(inner):
                    _add(entry, inner, file)
            found.append(entry)
    return found


def _add(entry: Entry, at: int, name: str) -> None:
    with contextlib.suppress(OSError):  # gone meanwhile
        info = os.stat(name, dir_fd=at, follow_symlinks=False)
        entry.names.append(name)
        entry.size += info.st_size
        entry.used = max(entry.used, info.st_mtime)


def _names(at: int) -> list[str]:
    if at < 0:
        return []
    try:
        return sorted(os.listdir(f"/proc/self/fd/{at}"))
    except OSError:
        return []


@contextlib.contextmanager
def _inside(at: int, name: str):
    """The folder, or -1: it is gone, or not to be trusted."""
    with contextlib.ExitStack() as stack:
        try:
            inner = stack.enter_context(trusted.below(at, name))
        except (OSError, trusted.NotTrusted):
            inner = -1
        yield inner
