"""Files and folders that nobody but this user (or root) can have written: what is loaded into the process comes from
such ones only.

A path is followed part by part, each opened below the one before, so that what was checked is what is used. Every folder on
the way must belong to us or to root and be closed to other writers; a link on the way is followed if it belongs to us or to
root as well, the last part never is. A folder with the sticky bit (/tmp) may be written by all: who does not own an entry
of it cannot replace that entry, and whose the entry is has been checked."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import stat
from pathlib import Path

_MOST_LINKS = 40
_LINK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
#: O_DIRECTORY also mounts what is mounted when it is first used.
_FOLDER = _LINK | os.O_DIRECTORY
#: A FIFO without a writer and a terminal must not hold us up.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ACL = "system.posix_acl_access"


class NotTrusted(Exception):
    """Somebody else could have written it. The text says what was found, `remedy` what to do."""

    def __init__(self, found: str, remedy: str) -> None:
        super().__init__(found)
        self.remedy = remedy


@contextlib.contextmanager
def folder(path: Path, make: bool = False, shared: bool = False):
    """A descriptor of the folder, once the whole way to it was checked. Raises NotTrusted, or OSError where there is none.
    `make`: folders that are missing are made, for this user alone. `shared`: others may put their own entries into it, as
    into /tmp, but not replace ours."""
    walk = _Walk()
    try:
        parts = list(Path(os.path.abspath(path)).parts[1:])
        while parts:
            walk.enter(parts.pop(0), parts, make)
        if not shared:
            _check(walk.at, str(path), sticky=False)
        yield walk.at
    finally:
        walk.close()


@contextlib.contextmanager
def below(at: int, name: str, make: bool = False):
    """A descriptor of a folder in one that was checked: not a link."""
    if make:
        make_folder(at, name)
    where = str(path_of(at) / name)
    try:
        inner = os.open(name, _FOLDER, dir_fd=at)
    except NotADirectoryError:
        raise NotTrusted(f"{where} is no folder, but a file or a link", "Remove it.") from None
    try:
        _check(inner, where, sticky=False)
        yield inner
    finally:
        os.close(inner)


def read(at: int, name: str, most: int) -> bytes:
    """The content of a regular file of at most so many bytes, that nobody else could have written. Raises NotTrusted, or
    OSError where there is none."""
    with _opened(at, name) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise NotTrusted(f"{path_of(at) / name} has {size} bytes, more than any file of ours", "Remove it.")
        return file.read(most)


def check(at: int, name: str) -> None:
    """Raises what `read` would, but for the size."""
    with _opened(at, name):
        pass


def _opened(at: int, name: str):
    where = str(path_of(at) / name)
    try:
        handle = os.open(name, _FILE, dir_fd=at)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotTrusted(f"{where} is a link", "Remove it.") from None
        raise
    try:
        _check_file(os.fstat(handle), where)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _check_file(info: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise NotTrusted(f"{name} is no regular file", "Remove it.")
    _check_owner(info, name)
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotTrusted(f"{name} can be written by others", "Remove it.")


def replace(at: int, name: str, temporary: str, data: bytes) -> None:
    """Writes the file under a temporary name, for this user alone, and gives it its own: others see all of it or nothing."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=at)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=at)
    try:
        with os.fdopen(handle, "wb") as out:
            os.fchmod(handle, 0o600)
            out.write(data)
        os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=at)
        raise


def path_of(at: int) -> Path:
    """Where a checked folder is, without links."""
    return Path(os.readlink(f"/proc/self/fd/{at}"))


class _Walk:
    """The way along a path: the folder that was reached, and where it is for messages."""

    def __init__(self) -> None:
        self.at, self._where, self._links = os.open("/", _FOLDER), Path("/"), 0
        try:
            _check(self.at, "/")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self.at)

    def enter(self, name: str, rest: list[str], make: bool) -> None:
        where = self._where / name
        if name == "..":
            where = self._where.parent
        try:
            inner = os.open(name, _FOLDER, dir_fd=self.at)
        except NotADirectoryError:
            self._follow(name, where, rest)
            return
        except FileNotFoundError:
            if not make:
                raise
            make_folder(self.at, name)
            inner = os.open(name, _FOLDER, dir_fd=self.at)
        os.close(self.at)
        self.at, self._where = inner, where
        _check(inner, str(where))

    def _follow(self, name: str, where: Path, rest: list[str]) -> None:
        link = os.open(name, _LINK, dir_fd=self.at)
        try:
            info = os.fstat(link)
            if not stat.S_ISLNK(info.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(where))
            _check_owner(info, str(where))
            self._links += 1
            if self._links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(where))
            target = os.readlink("", dir_fd=link)
        finally:
            os.close(link)
        rest[:0] = [part for part in target.split("/") if part not in ("", ".")]
        if target.startswith("/"):
            root = os.open("/", _FOLDER)
            os.close(self.at)
            self.at, self._where = root, Path("/")


def make_folder(at: int, name: str) -> None:
    """A folder for this user alone, whatever the umask says, if there is none of that name."""
    try:
        os.mkdir(name, 0o700, dir_fd=at)
    except FileExistsError:
        return
    handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def _check(at: int, where: str, sticky: bool = True) -> None:
    info = os.fstat(at)
    _check_owner(info, where)
    if sticky and info.st_mode & stat.S_ISVTX:
        return
    if info.st_mode & stat.S_IWOTH or (info.st_mode & stat.S_IWGRP and not _is_private_group(at, info)):
        raise NotTrusted(f"{where} can be written by others", f"Run chmod go-w {where}.")


def _check_owner(info: os.stat_result, where: str) -> None:
    if info.st_uid not in (0, os.geteuid()):
        raise NotTrusted(
            f"{where} belongs to user {info.st_uid}", "Give it to this user, or set TRIDENT_HOOK_CACHE_DIR."
        )


def _is_private_group(at: int, info: os.stat_result) -> bool:
    """Whether the group is its owner's own, as many systems give one to each user, and the bit is not that of a list."""
    try:
        group, owner = grp.getgrgid(info.st_gid), pwd.getpwuid(info.st_uid).pw_name
    except KeyError:
        return False
    if group.gr_name != owner or set(group.gr_mem) - {owner}:
        return False
    try:
        os.getxattr(f"/proc/self/fd/{at}", _ACL)
    except OSError as error:
        return error.errno in (errno.ENODATA, errno.ENOTSUP)
    return False
