"""Access to a machine's folder, in which the machine may put whatever it likes, at any moment.

The daemon runs outside of the box, with the rights of its user. So it never follows a link there,
opens nothing but regular files and directories, waits for nobody, and reads no more than it asked
for. Every step goes from one open directory to the next, so names that are swapped meanwhile lead
nowhere else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath

_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_DIRECTORY: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
_PATH_ONLY: int = getattr(os, "O_PATH", os.O_RDONLY) | _DIRECTORY
_FILE: int = _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class UnsafeFile(OSError):
    """What is there is neither a regular file nor a directory, or is a file of two names."""

    def __init__(self, name: str) -> None:
        super().__init__(errno.EINVAL, "not a regular file", name)


class GuestFolder:
    """The files below one machine's folder, named by paths relative to it.

    Parameters
    ----------
    path
        The folder; what is above it is the daemon's own.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def make_directory(self, name: str) -> None:
        """Make a directory that only its owner enters; what is no directory makes way for it."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        where = PurePath(name)
        for depth in range(1, len(where.parts) + 1):
            part = PurePath(*where.parts[:depth])
            with self._parent(part) as folder:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part.name, 0o700, dir_fd=folder)
                try:
                    os.close(open_directory(part.name, folder))
                except OSError:
                    remove(part.name, folder)
                    os.mkdir(part.name, 0o700, dir_fd=folder)

    def write(self, name: str, data: bytes, mode: int = 0o600) -> None:
        """Replace a file in one step, by a new one that only the daemon has opened."""
        where = PurePath(name)
        draft = f".{where.name}.{secrets.token_hex(8)}.new"
        with self._parent(where) as folder:
            descriptor = os.open(
                draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=folder
            )
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                os.chmod(file.fileno(), mode)
            self._make_way(where.name, folder)
            os.replace(draft, where.name, src_dir_fd=folder, dst_dir_fd=folder)

    def link(self, name: str, target: str) -> None:
        """Make a symbolic link in the place of whatever has its name."""
        where = PurePath(name)
        with self._parent(where) as folder:
            remove(where.name, folder)
            os.symlink(target, where.name, dir_fd=folder)

    def open_log(self, name: str) -> int:
        """Open a file to append to; what is no plain file makes way for a new one."""
        where = PurePath(name)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FILE
        with self._parent(where) as folder:
            try:
                return _checked(os.open(where.name, flags, 0o600, dir_fd=folder), name)
            except OSError:
                remove(where.name, folder)
                fresh = os.open(where.name, flags | os.O_EXCL, 0o600, dir_fd=folder)
                return _checked(fresh, name)

    def read(self, name: str, limit: int, *, from_end: bool = False) -> bytes:
        """Return at most `limit` bytes of a file, its first or its last ones.

        Raises
        ------
        FileNotFoundError
            If there is none.
        OSError
            If what is there is no plain file, or lies behind something that is no directory.
        """
        where = PurePath(name)
        with self._parent(where) as folder:
            descriptor = _checked(os.open(where.name, os.O_RDONLY | _FILE, dir_fd=folder), name)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            if from_end:
                file.seek(max(0, os.fstat(descriptor).st_size - limit))
            return file.read(limit) or b""

    def is_file(self, name: str) -> bool:
        """Return whether a plain file is there."""
        try:
            self.read(name, 0)
        except OSError:
            return False
        return True

    def unlink(self, name: str) -> None:
        """Remove a file, or whatever has its name; one that is not there is skipped."""
        where = PurePath(name)
        with contextlib.suppress(FileNotFoundError), self._parent(where) as folder:
            remove(where.name, folder)

    @contextlib.contextmanager
    def _parent(self, where: PurePath) -> Iterator[int]:
        """Open the directory that a name is in."""
        folder = os.open(self.path, _DIRECTORY)
        try:
            for part in where.parts[:-1]:
                inner = open_directory(part, folder)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def _make_way(self, name: str, folder: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                remove(name, folder)


def _checked(descriptor: int, name: str) -> int:
    found = os.fstat(descriptor)
    # A second name could be one that the machine was given read-only.
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise UnsafeFile(name)


def open_directory(name: str, folder: int) -> int:
    """Open a directory in an open one; no link is followed, and a locked one is unlocked."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=folder)
    except PermissionError:
        # The mode is changed of the directory that is open, whatever has its name by then.
        pinned = os.open(name, _PATH_ONLY, dir_fd=folder)
        try:
            os.chmod(f"/proc/self/fd/{pinned}", stat.S_IRWXU)
        finally:
            os.close(pinned)
        return os.open(name, _DIRECTORY, dir_fd=folder)


def remove(name: str, folder: int) -> None:
    """Remove whatever has a name in an open directory, with everything in it.

    Directories are moved up before they are emptied, so that no depth is too much.
    """
    names, number = [name], 0
    while names:
        one = names.pop()
        try:
            inner = open_directory(one, folder)
        except FileNotFoundError:
            continue
        except (NotADirectoryError, OSError):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(one, dir_fd=folder)
            continue
        try:
            os.chmod(inner, stat.S_IRWXU)
            for entry in os.listdir(inner):
                number += 1
                moved = f".removed-{os.getpid()}-{secrets.token_hex(4)}-{number}"
                if _move_directory(entry, inner, moved, folder):
                    names.append(moved)
        finally:
            os.close(inner)
        os.rmdir(one, dir_fd=folder)


def _move_directory(entry: str, inner: int, moved: str, folder: int) -> bool:
    """Move a directory up, or remove what is none; return whether it was one."""
    if not stat.S_ISDIR(os.stat(entry, dir_fd=inner, follow_symlinks=False).st_mode):
        os.unlink(entry, dir_fd=inner)
        return False
    os.close(open_directory(entry, inner))
    os.rename(entry, moved, src_dir_fd=inner, dst_dir_fd=folder)
    return True


def remove_tree(path: Path) -> None:
    """Remove a machine's folder; one that is not there is skipped."""
    with contextlib.suppress(FileNotFoundError):
        above = os.open(path.parent, _DIRECTORY)
        try:
            remove(path.name, above)
        finally:
            os.close(above)
