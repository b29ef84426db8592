"""The files of the cache folder, and what stands in for them where that folder cannot be trusted or used: memory.

A file is whole or absent: it is written under a temporary name and renamed, so that processes that write the same one at
once do no harm, and ends with a digest. When a file was last used is its time of change, kept to the hour."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import threading
import time
from collections import OrderedDict

from .._config import config
from .._logs import log, warn
from ..runtime import interrupts
from . import limit, trusted

#: No file of ours comes near it. What is larger is not read.
MOST_BYTES = 256 << 20
_MEMORY_BYTES = 64 << 20
_USED_AFTER_S = 3600
_DIGEST = hashlib.sha256().digest_size

_lock = threading.Lock()
#: (folder that it stands in for, name) -> content, the one used last at the end.
_memory: OrderedDict[tuple[str, str], bytes] = OrderedDict()
_problems: dict[str, str] = {}  # folder -> why it is not used
_warned: set[str] = set()  # files
_written = None  # bytes since the folder's size was last looked at; None: it never was


def problem() -> str | None:
    """Why modules are not kept in the cache folder, if they are not."""
    if not config.cache:
        return "TRIDENT_HOOK_NO_CACHE is set"
    if config.cache_dir is None:
        return "there is no home folder to keep modules in; set TRIDENT_HOOK_CACHE_DIR"
    return _problems.get(str(config.cache_dir))


@interrupts.put_off()
def read(name: str) -> bytes | None:
    """The content under that name, if it is there, whole, and nobody else's work."""
    if not config.cache:
        return None
    for data in (_read_file(name), _remembered(name)):
        if data is not None:
            content, digest = data[:-_DIGEST], data[-_DIGEST:]
            if hashlib.sha256(content).digest() == digest:
                return content
            log("build", "%s is damaged: built again", name)
    return None


@interrupts.put_off()
def publish(name: str, content: bytes) -> None:
    """Keeps it, under a digest: what follows an ELF file does not matter to the loader."""
    if config.cache:
        _keep(name, content + hashlib.sha256(content).digest())


@interrupts.put_off()
def publish_text(name: str, text: str) -> None:
    """Keeps what people read."""
    if config.cache:
        _keep(name, text.encode())


@interrupts.put_off()
def forget(name: str) -> None:
    """Removes what turned out to be unusable."""
    with _lock:
        _memory.pop(_in_memory(name), None)
    folder, _, file = name.rpartition("/")
    with _root() as root:
        if root is not None:
            with contextlib.suppress(OSError, trusted.NotTrusted), trusted.below(root, folder) as at:
                os.unlink(file, dir_fd=at)


@contextlib.contextmanager
def _root(make: bool = False):
    """A descriptor of the cache folder, or None: there is none, or it is not to be used."""
    if config.cache_dir is None:
        yield None
        return
    with contextlib.ExitStack() as stack:
        try:
            root = stack.enter_context(trusted.folder(config.cache_dir, make))
        except trusted.NotTrusted as error:
            _refuse(error)
            root = None
        except OSError as error:
            if make:
                _note(f"it cannot be used: {error}")
            root = None
        else:
            _problems.pop(str(config.cache_dir), None)
        yield root


def _refuse(error: trusted.NotTrusted) -> None:
    if _note(str(error)):
        warn(f"trident_hook: the cache folder {config.cache_dir} is not used, modules are built anew in every process: {error}. "
             f"{error.remedy} See docs/security.md.")  # fmt: skip


def _note(why: str) -> bool:
    """Whether it is new."""
    key = str(config.cache_dir)
    with _lock:
        known = _problems.get(key) == why
        _problems[key] = why
    if not known:
        log("build", "the cache folder %s is not used: %s", key, why)
    return not known


def _read_file(name: str) -> bytes | None:
    folder, _, file = name.rpartition("/")
    with _root() as root:
        if root is None:
            return None
        try:
            with trusted.below(root, folder) as at:
                data = trusted.read(at, file, MOST_BYTES)
                mark_used(at, file)
                return data
        except trusted.NotTrusted as error:
            log("build", "%s is not read: %s", name, error)
            if name not in _warned:
                _warned.add(name)
                warn(f"trident_hook: a file of the cache folder is not read, and built anew: {error}. {error.remedy}")
        except OSError:
            pass
        return None


def mark_used(at: int, file: str) -> None:
    """Not with every use: files are read more often than they may be written."""
    with contextlib.suppress(OSError):  # a folder that only root may write
        if time.time() - os.stat(file, dir_fd=at, follow_symlinks=False).st_mtime > _USED_AFTER_S:
            os.utime(file, dir_fd=at, follow_symlinks=False)


def _keep(name: str, data: bytes) -> None:
    if _write(name, data):
        _hold_to_limit(len(data))
        return
    with _lock:
        _memory[_in_memory(name)] = data
        _memory.move_to_end(_in_memory(name))
        while sum(map(len, _memory.values())) > _MEMORY_BYTES:
            _memory.popitem(last=False)


def _in_memory(name: str) -> tuple[str, str]:
    return str(config.cache_dir), name


def _remembered(name: str) -> bytes | None:
    with _lock:
        data = _memory.get(_in_memory(name))
        if data is not None:
            _memory.move_to_end(_in_memory(name))
        return data


def _write(name: str, data: bytes) -> bool:
    folder, _, file = name.rpartition("/")
    with _root(make=True) as root:
        if root is None:
            return False
        try:
            with trusted.below(root, folder, make=True) as at:
                trusted.replace(at, file, limit.TEMPORARY + secrets.token_hex(8), data)
            return True
        except trusted.NotTrusted as error:
            _refuse(error)
        except OSError as error:  # a cache that cannot be written is not worth a failure
            _note(f"it cannot be written: {error}")
        return False


def _hold_to_limit(added: int) -> None:
    """Looks at the folder's size with the process's first file, and whenever a good part of the limit was written since."""
    global _written
    with _lock:
        written = _written
        due = written is None or written > config.cache_limit // 16
        _written = 0 if written is None or due else written + added
    if not due:
        return
    with _root() as root:
        if root is not None:
            removed = limit.trim(root, config.cache_limit)
            if removed:
                log("build", "the cache folder was over its limit: %d old file(s) are gone", removed)


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)
