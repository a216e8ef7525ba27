"""The receiving side of a sync: writes whole files or none, and never outside its folder.

It is used on both sides. A file is written beside its place under a name of ours, checked, and
moved to its place in one step.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

from .sync_files import KEEP_FROM, SyncFolder
from .sync_protocol import (
    PACKED_BYTES,
    PACKED_FILES,
    PART,
    SMALL,
    SyncFailure,
    new_digest,
    trouble_of,
    why_not_link,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OPEN = (
    os.O_RDWR
    | os.O_CREAT
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)
_LOCKED_AT = 1 << 60
"""The byte that a lock is on, on Windows, far behind any content."""


class Receiver:
    """Takes the frames of a sender and writes what they say below one folder.

    Parameters
    ----------
    expected
        Sizes of the files that were asked for, each of which may come once; None if the sender may
        send what it likes.
    """

    def __init__(self, folder: SyncFolder, expected: dict[str, int] | None = None) -> None:
        self._folder = folder
        self._expected = None if expected is None else dict(expected)
        self._name = ""
        self._fd = -1
        self._part = ""
        self._left = self._size = 0
        self._head: dict[str, Any] = {}
        self._made: Any = None
        self._trouble: SyncFailure | None = None
        self._packed: list[list[Any]] = []
        self._smalls = PART + os.urandom(8).hex()

    def take(self, frame: Any) -> dict[str, Any] | None:
        """Take one frame, and return the answer if it ends a file.

        The answer is `{"done": name, "stat": …}` or `{"failed": name, "code": …, "why": …}`. Of
        small files, which come many at a time, it is `{"took": [[name, digest, size, mtime,
        ctime], …], "lost": [[name, code, why], …]}`.

        Raises
        ------
        Trouble
            `foul`, if the frame breaks the rules: an unasked file, more bytes than announced, or a
            name that leads out of the folder.
        """
        if isinstance(frame, bytes):
            if self._packed:
                return self._unpack(frame)
            self._write(frame)
            return None
        if self._packed:
            raise SyncFailure("foul", "the content of files did not come")
        if "files" in frame:
            return self._pack(frame["files"])
        if "put" in frame:
            self._begin(frame)
            return None
        if "end" in frame:
            return self._end(frame)
        if "link" in frame:
            return self._guarded(frame["link"], self._link, frame["to"])
        if "folder" in frame:
            return self._guarded(frame["folder"], self._make_folder)
        if "mode" in frame:
            return self._guarded(frame["mode"], self._set_mode, frame["to"])
        raise SyncFailure("foul", "what came is no message of a sync")

    def close(self) -> None:
        """Keep the unfinished part of a large file and drop that of a small one; no more comes."""
        self._drop(keep=True)

    def _pack(self, rows: Any) -> dict[str, Any] | None:
        """Check the heads of small files, whose content is the next frame."""
        if self._name or not isinstance(rows, list) or not 0 < len(rows) <= PACKED_FILES:
            raise SyncFailure("foul", "files began where none may")
        for row in rows:
            name, size, mtime, mode, digest = row
            if (
                not isinstance(name, str)
                or not isinstance(digest, str)
                or not all(type(number) is int for number in (size, mtime, mode))
            ):
                raise SyncFailure("foul", "files began where none may")
            if not 0 <= size <= SMALL or (
                self._expected is not None and self._expected.pop(name, None) != size
            ):
                raise SyncFailure("foul", "a file came that was not asked for")
        self._packed = rows
        return None if any(row[1] for row in rows) else self._unpack(b"")

    def _unpack(self, data: bytes) -> dict[str, Any]:
        rows, self._packed, at = self._packed, [], 0
        if len(data) != sum(row[1] for row in rows) or len(data) > PACKED_BYTES + SMALL:
            raise SyncFailure("foul", "more or less came than was announced")
        took: list[list[Any]] = []
        lost: list[list[str]] = []
        for name, size, mtime, mode, digest in rows:
            content, at = data[at : at + size], at + size
            made = new_digest()
            made.update(content)
            try:
                if made.hexdigest() != digest:
                    raise SyncFailure("digest", "arrived damaged")
                info = self._put(name, content, mtime, mode)
                took.append([name, digest, info.st_size, info.st_mtime_ns, info.st_ctime_ns])
            except OSError as error:
                trouble = trouble_of(error)
                lost.append([name, trouble.code, trouble.why])
            except SyncFailure as trouble:
                if trouble.code == "foul":
                    raise
                lost.append([name, trouble.code, trouble.why])
        return {"took": took, "lost": lost}

    def _put(self, name: str, content: bytes, mtime: int, mode: int) -> os.stat_result:
        """Write a small file whole.

        Nobody goes on with an unfinished one, so its name is random and no lock is needed.
        """
        path = self._folder.place(name, make=True)
        part = os.path.join(os.path.dirname(path), self._smalls)
        fd = os.open(part, _OPEN | os.O_EXCL, (mode & 0o755 | 0o600) & self._readers(path))
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
            times = (min(max(0, mtime), 1 << 62),) * 2
            if sys.platform == "win32":
                os.close(fd)
                fd = -1
                os.utime(part, ns=times)
            else:
                os.utime(fd, ns=times)
            self._folder.must_stand(name, path)
            os.replace(part, path)
            part = ""
            return os.lstat(path) if fd < 0 else os.fstat(fd)
        finally:
            if fd >= 0:
                os.close(fd)
            if part:
                os.unlink(part)

    def _begin(self, head: dict[str, Any]) -> None:
        name, size, offset = head["put"], head["size"], head["offset"]
        if (
            self._name
            or not isinstance(name, str)
            or not all(type(head[key]) is int for key in ("size", "offset", "mtime", "mode"))
        ):
            raise SyncFailure("foul", "a file began where none may")
        if not 0 <= offset <= size or (
            self._expected is not None and self._expected.pop(name, None) != size
        ):
            raise SyncFailure("foul", "a file came that was not asked for")
        self._head, self._name, self._size, self._left, self._trouble = (
            head,
            name,
            size,
            size - offset,
            None,
        )
        try:
            self._open(name, offset)
        except OSError as error:
            self._trouble = trouble_of(error)
        except SyncFailure as trouble:
            self._trouble = trouble
        if self._trouble is not None:
            self._drop(keep=self._trouble.code == "busy")

    def _open(self, name: str, offset: int) -> None:
        self._part = self._folder.part_path(name, make=True)
        # The umask counts, and nobody else may write, whatever the sender says.
        mode = self._head["mode"] & 0o755 | 0o600
        mode &= self._readers(self._folder.place(name))
        self._fd = os.open(self._part, _OPEN, mode)
        _lock(self._fd)
        info = os.fstat(self._fd)
        if not stat.S_ISREG(info.st_mode):
            raise SyncFailure("io", "something else stands in its way")
        if sys.platform != "win32" and info.st_mode & 0o777 & ~mode:
            os.fchmod(self._fd, info.st_mode & mode)
        self._made = self._folder.known_prefix(name, offset) if offset else new_digest()
        if info.st_size:
            os.ftruncate(self._fd, offset)
            os.lseek(self._fd, offset, os.SEEK_SET)

    def _readers(self, path: str) -> int:
        """Return the modes that are allowed: what replaces a private file stays private."""
        most = self._folder.modes
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return most
        return (mode | 0o700) & (mode | most) & 0o777 if stat.S_ISREG(mode) else most

    def _write(self, data: bytes) -> None:
        if not self._name or not 0 < len(data) <= self._left:
            raise SyncFailure("foul", "more came than was announced")
        self._left -= len(data)
        if self._fd < 0:
            return
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
            self._made.update(data)
        except OSError as error:
            self._trouble = trouble_of(error)
            self._drop(keep=False)

    def _end(self, frame: dict[str, Any]) -> dict[str, Any]:
        if frame["end"] != self._name or not self._name:
            raise SyncFailure("foul", "a file ended that had not begun")
        name, trouble = self._name, self._trouble
        if trouble is None and "digest" not in frame:
            trouble = SyncFailure(
                str(frame.get("code", "io"))[:20], str(frame.get("why", "could not be read"))[:200]
            )
        elif trouble is None and (self._left or self._made.hexdigest() != frame["digest"]):
            trouble = SyncFailure("digest", "arrived damaged")
        if trouble is None:
            try:
                info = self._settle(name)
            except OSError as error:
                trouble = trouble_of(error)
            except SyncFailure as met:
                trouble = met
        self._drop(keep=False)
        self._name = ""
        if trouble is not None:
            return {"failed": name, "code": trouble.code, "why": trouble.why}
        return {
            "done": name,
            "stat": [info.st_size, info.st_mtime_ns, info.st_ctime_ns],
            "digest": frame["digest"],
        }

    def _settle(self, name: str) -> os.stat_result:
        """Move the finished file to its place."""
        path = self._folder.place(name)
        mtime = min(max(0, self._head["mtime"]), 1 << 62)
        if sys.platform == "win32":
            os.close(self._fd)
            self._fd = -1
            os.utime(self._part, ns=(mtime, mtime))
        else:
            os.utime(self._fd, ns=(mtime, mtime))
        self._folder.must_stand(name, path)
        os.replace(self._part, path)
        self._part = ""
        return os.lstat(path)

    def _drop(self, *, keep: bool) -> None:
        """Close what is being written; with `keep` a large unfinished part stays."""
        fd, part = self._fd, self._part
        self._fd, self._part = -1, ""
        if fd >= 0:
            os.close(fd)
        if (
            part
            and not (keep and self._size >= KEEP_FROM)
            and not (self._trouble is not None and self._trouble.code == "busy")
        ):
            try:
                os.unlink(part)
            except OSError:
                return  # it was never made, or its folder went; nothing of ours is left

    def _guarded(self, name: str, act: Any, *more: Any) -> dict[str, Any]:
        try:
            act(name, *more)
        except OSError as error:
            trouble = trouble_of(error)
            return {"failed": name, "code": trouble.code, "why": trouble.why}
        except SyncFailure as trouble:
            if trouble.code == "foul":
                raise
            return {"failed": name, "code": trouble.code, "why": trouble.why}
        return {"made": name}

    def _make_folder(self, name: str) -> None:
        path = self._folder.place(name, make=True)
        if not os.path.lexists(path):
            os.mkdir(path)
        elif not stat.S_ISDIR(os.lstat(path).st_mode):
            raise SyncFailure("io", "something else stands in its place")

    def _link(self, name: str, target: str) -> None:
        why = why_not_link(name, target)
        if why:
            raise SyncFailure("foul", why)
        path, part = self._folder.place(name, make=True), self._folder.part_path(name, make=True)
        if os.path.isdir(path) and not os.path.islink(path):
            raise SyncFailure("io", "a folder stands in its place")
        if os.path.lexists(part):
            os.unlink(part)
        self._folder.must_stand(name, path)
        os.symlink(target, part)
        os.replace(part, path)

    def _set_mode(self, name: str, mode: int) -> None:
        path = self._folder.place(name)
        now = os.lstat(path).st_mode
        if not stat.S_ISREG(now):
            raise SyncFailure("missing", "is not there any more")
        # Who may read it may run it, or nobody.
        os.chmod(path, now & 0o666 | (now >> 2 & 0o111 if mode & 0o100 else 0))


def _lock(fd: int) -> None:
    """Lock an unfinished file, which one sync at a time may write.

    The lock ends with the open file.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(fd, _LOCKED_AT, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
            os.lseek(fd, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            raise SyncFailure("busy", "another sync is writing it") from None
        raise


__all__ = ["Receiver"]
