"""Folders for what is being made: private, in the first place where one can be made and nobody else can reach into it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .._config import config
from .._logs import log
from ..errors import BuildError
from . import trusted

_PREFIX = "trident_hook_"
#: After the folder that the program's own temporary files go to.
_OTHERS = ("/tmp", "/var/tmp", "/dev/shm")
_TRIES = 8


def scratch_folders(runs_code: bool = False) -> Iterator[Path]:
    """Empty private folders, one after the other, for a caller that goes on to the next where something does not work (a full
    disk, say). Each is removed when the next is asked for, or the iterator is closed. `runs_code`: only where files can be
    mapped as code. Raises BuildError if there was none at all."""
    seen: list[str] = []
    none = True
    for place in _candidates():
        if runs_code and _forbids_code(place):
            seen.append(f"{place}: mounted noexec")
            continue
        try:
            made = _make(place)
        except (OSError, trusted.NotTrusted) as error:
            seen.append(f"{place}: {error}")
            log("build", "no temporary folder in %s: %s", place, error)
            continue
        none = False
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
    if none:
        raise BuildError(
            f"no private folder could be made ({'; '.join(seen)})", "room for temporary files", "Set TMPDIR to a folder of this user."
        )  # fmt: skip


def _candidates() -> list[Path]:
    found = []
    with contextlib.suppress(OSError):  # none that can be written
        found.append(Path(tempfile.gettempdir()))
    found += map(Path, _OTHERS)
    if config.cache and config.cache_dir is not None:
        found.append(config.cache_dir)
    return list(dict.fromkeys(found))


def _forbids_code(place: Path) -> bool:
    try:
        return bool(os.statvfs(place).f_flag & os.ST_NOEXEC)
    except OSError:
        return True


def _make(place: Path) -> Path:
    with trusted.folder(place, shared=True) as at:
        for _ in range(_TRIES):
            name = _PREFIX + secrets.token_hex(8)
            try:
                os.mkdir(name, 0o700, dir_fd=at)
            except FileExistsError:
                continue
            made = place / name
            if os.stat(name, dir_fd=at).st_mode & 0o777 != 0o700:  # the umask took something away
                os.chmod(name, 0o700, dir_fd=at)
            return made
    raise FileExistsError(f"{_TRIES} names are taken")
