"""A folder of a sync: what is in it, digests, whole files out and in. This file runs here and, sent as text, on the machine.

Standard library only, Python 3.8 or later; nothing is installed there. A frame is a letter (J: a JSON object, D: bytes of the file that was
begun last), a 4-byte big-endian length, and so many bytes.
"""
# Python 3.8 has its say: only annotations may use newer forms. What the machine needs now and then only is imported there: its start is a third
# of what a folder of small files takes.
# ruff: noqa: UP032, UP035

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Iterable, Iterator

MARKER = b"\0nbprov-sync 1\0"
"""What the machine's side says first: what a login script prints before it is passed over."""
CHUNK = 256 * 1024
"""Bytes read and written at once, and of a frame."""
MOST_FRAME = 4 * 1024 * 1024
"""Bytes of a frame; a side that announces more is not one of ours."""
ROWS = 500
"""Entries a message."""
MOST_ENTRIES = 250_000
"""Of one folder: more take minutes to list and compare, and are better packed, or ignored."""
MOST_DEPTH = 100
"""Folders in one another."""
MOST_SKIPPED = 1000
"""Kept of what is skipped, with its reason; the rest is counted."""
PART = ".nbprov-part."
"""How the names of unfinished files begin; they are no part of a folder's content."""
KEEP_FROM = 1_000_000
"""Bytes from which the unfinished part of a file is kept for the next run: sending less again is quicker than asking what is there."""
SMALL = 32 * 1024
"""Bytes up to which files travel many at a time: one message, and one piece of content for all."""
PACKED_FILES, PACKED_BYTES = 128, 256 * 1024
"""The most of them at a time: the other side writes some while the next are read."""
STALE_SECONDS = 7 * 86400
"""After so long nobody comes back for an unfinished file."""

if TYPE_CHECKING:
    Row = list[Any]
    """`[name, kind (f, d, l), size, mtime ns, ctime ns, mode, where a link leads]`."""


class Trouble(Exception):
    """Something that does not work on this side; `code` tells the kind apart: missing, permission, full, busy, many, digest, changed, foul, io."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code, self.why = code, why


def trouble_of(error: OSError) -> Trouble:
    """An error of the system, by kind."""
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
        return Trouble("full", "the disk is full")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Trouble(
            "permission",
            "may not be {}".format(
                "written: read-only" if error.errno == errno.EROFS else "read or written"
            ),
        )
    if error.errno == errno.EISDIR:
        return Trouble("io", "a folder stands in its place")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return Trouble("missing", "is not there any more")
    return Trouble("io", (error.strerror or str(error)).lower())


# ---------------------------------------------------------------- frames

_HEAD = struct.Struct(">cI")


def message(**content: Any) -> bytes:
    """A J frame."""
    data = json.dumps(content, separators=(",", ":")).encode("ascii")
    return _HEAD.pack(b"J", len(data)) + data


class Frames:
    """Takes bytes as they come and gives whole frames: dicts, and bytes of files."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def has_begun(self) -> bool:
        """Whether there are bytes of a frame that is not whole yet, or was not taken."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> Iterator[Any]:
        """The frames that these bytes complete.

        Raises
        ------
        Trouble
            `foul`, if they are none of ours.
        """
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= _HEAD.size:
                kind, length = _HEAD.unpack_from(self._buffer, at)
                if kind not in (b"J", b"D") or length > MOST_FRAME:
                    raise Trouble("foul", "what came is no message of a sync")
                end = at + _HEAD.size + length
                if end > len(self._buffer):
                    break
                payload = bytes(memoryview(self._buffer)[at + _HEAD.size : end])
                at = end
                yield payload if kind == b"D" else _object(payload)
        finally:
            del self._buffer[:at]


def _object(payload: bytes) -> dict[str, Any]:
    try:
        content = json.loads(payload)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Trouble("foul", "what came is no message of a sync")
    return content


def new_digest() -> Any:
    """A fresh digest: processors of these years compute SHA-256 twice as fast as BLAKE2, by instructions of its own."""
    return hashlib.sha256()


# ---------------------------------------------------------------- names

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def why_not_name(name: str) -> str:
    """Why a name cannot be one below a folder; empty if it can."""
    parts = name.split("/")
    if len(name) > 255 and (
        len(name) > 4096 or len(parts) > MOST_DEPTH or max(map(len, parts)) > 255
    ):
        return "a name that is too long"
    if not name.isprintable() and _CONTROL.search(name):
        return "control characters in its name"
    if "" in parts or "." in parts or ".." in parts:
        return "a name that leads out of the folder"
    return (
        "a name of our unfinished files"
        if PART in name and any(part.startswith(PART) for part in parts)
        else ""
    )


def why_not_link(name: str, target: str) -> str:
    """Why a link is not taken along; empty if it stays inside whatever the links on its way are.

    `..` only at its beginning: behind another link it would not lead where it seems to.
    """
    parts = target.split("/")
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    if not target or len(target) > 4096 or _CONTROL.search(target):
        return "a link that leads nowhere"
    if (
        target.startswith(("/", "\\"))
        or target[1:2] == ":"
        or ".." in parts[ups:]
        or ups > name.count("/")
    ):
        return "a link that leads out of the folder"
    return ""


class Rules:
    """Ignore rules as they travel: `[pattern, is negated, folders only]`; the last that fits decides. `folds` takes `A` and `a` for one."""

    def __init__(self, rules: Iterable[list[Any]], folds: bool = False) -> None:
        flags = re.DOTALL | (re.IGNORECASE if folds else 0)
        self._rules = [
            (re.compile(pattern, flags), negated, folders) for pattern, negated, folders in rules
        ]

    def ignores(self, name: str, is_folder: bool) -> bool:
        """Whether this is left out; a `.git` always is, wherever it lies."""
        verdict = name == ".git" or name.endswith("/.git")
        for pattern, negated, folders in () if verdict else self._rules:
            if (is_folder or not folders) and pattern.match(name):
                verdict = not negated
        return verdict


class Survey:
    """What a folder holds. `is_whole` is False where a part of it could not be read."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.skipped: list[tuple[str, str]] = []
        self.more_skipped = 0
        self.ignored: list[str] = []
        self.ignored_count = 0
        self.is_whole = True

    def skip(self, name: str, why: str) -> None:
        """Note what is not taken along."""
        if len(self.skipped) < MOST_SKIPPED:
            self.skipped.append((name, why))
        else:
            self.more_skipped += 1


# ---------------------------------------------------------------- a folder

_NOFOLLOW = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


class Folder:
    """One folder on this side. Names are relative to it, with `/`; no function follows a link below it.

    `is_over`, once set, ends digests that are being taken in other threads: nobody waits for them any more.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(
            os.path.join(os.path.expanduser("~"), os.path.expanduser(path))
        )
        self._real = {""}
        self._prefixes: dict[str, tuple[int, Any]] = {}
        self.is_over = False
        self.standing: dict[str, tuple[int, int, int]] | None = None

    def must_stand(self, name: str, path: str) -> None:
        """Refuse where a file is not as it was listed: a person, or an editor that saves by itself, has been there meanwhile.

        Only where `standing` has been set: the size and times of each file that was listed.
        """
        if self.standing is None:
            return
        try:
            info = os.lstat(path)
            now = (
                (info.st_size, info.st_mtime_ns, info.st_ctime_ns)
                if stat.S_ISREG(info.st_mode)
                else None
            )
        except FileNotFoundError:
            now = None
        if now != self.standing.get(name):
            raise Trouble("kept", "changed here meanwhile, and was left alone")

    def is_home_or_above(self) -> bool:
        """Whether it holds the whole home: keys, settings and all."""
        home = os.path.realpath(os.path.expanduser("~"))
        return home == self.path or home.startswith(self.path.rstrip(os.sep) + os.sep)

    def make(self, *, as_root: bool = False) -> None:
        """Make it, with the folders above it; `as_root` where that is not allowed otherwise, and it is the person's afterwards."""
        try:
            os.makedirs(self.path, exist_ok=True)
        except PermissionError as error:
            if not (as_root and self._make_as_root()):
                raise trouble_of(error) from None
        except (FileExistsError, FileNotFoundError, NotADirectoryError):
            raise Trouble("permission", "may not be made") from None
        except OSError as error:
            raise trouble_of(error) from None

    def _make_as_root(self) -> bool:
        if sys.platform == "win32":
            return False
        else:
            import subprocess

            own = "{}:{}".format(os.getuid(), os.getgid())
            steps = (["mkdir", "-p", "--", self.path], ["chown", own, "--", self.path])
            try:
                return not any(
                    subprocess.call(["sudo", "-n", *step], stdin=subprocess.DEVNULL, stdout=2)
                    for step in steps
                )
            except OSError:  # there is no sudo
                return False

    def survey(self, rules: Rules) -> Survey:
        """List it, unfinished files of ours aside."""
        found, waiting = Survey(), [""]
        while waiting:
            prefix = waiting.pop()
            try:
                entries = sorted(
                    os.scandir(os.path.join(self.path, prefix)), key=lambda entry: entry.name
                )
            except OSError as error:
                found.is_whole = False
                found.skip(prefix.rstrip("/") or ".", trouble_of(error).why)
                continue
            for entry in entries:
                row = self._row(found, rules, prefix + entry.name, entry)
                if row is not None:
                    found.rows.append(row)
                    if row[1] == "d":
                        waiting.append(prefix + entry.name + "/")
            if len(found.rows) > MOST_ENTRIES:
                raise Trouble("many", "holds more than {:,} entries".format(MOST_ENTRIES))
        return found

    def _row(self, found: Survey, rules: Rules, name: str, entry: os.DirEntry[str]) -> Row | None:
        try:
            info = entry.stat(follow_symlinks=False)
            if entry.name.startswith(PART):
                if stat.S_ISREG(info.st_mode) and info.st_mtime < time.time() - STALE_SECONDS:
                    os.unlink(entry.path)
                return None
            is_folder = stat.S_ISDIR(info.st_mode)
            if rules.ignores(name, is_folder):
                found.ignored_count += 1
                if len(found.ignored) < 3:
                    found.ignored.append(name + ("/" if is_folder else ""))
                return None
            kind = (
                "d"
                if is_folder
                else "f"
                if stat.S_ISREG(info.st_mode)
                else "l"
                if stat.S_ISLNK(info.st_mode)
                else ""
            )
            target = os.readlink(entry.path) if kind == "l" else ""
        except OSError as error:
            found.skip(name, trouble_of(error).why)
            return None
        why = (
            "neither a file nor a folder"
            if not kind
            else why_not_name(name) or (why_not_link(name, target) if kind == "l" else "")
        )
        if not why and kind == "f" and not os.access(entry.path, os.R_OK):
            why = "may not be read"
        if why:
            found.skip(name, why)
            return None
        return [
            name,
            kind,
            info.st_size if kind == "f" else 0,
            info.st_mtime_ns,
            _changed(info),
            info.st_mode & 0o777,
            target,
        ]

    def place(self, name: str, *, make: bool = False) -> str:
        """The path of a name, all folders on its way being real ones; with `make` they are made."""
        why = why_not_name(name)
        if why:
            raise Trouble("foul", why)
        parts = name.split("/")
        for depth in range(1, len(parts)):
            above = "/".join(parts[:depth])
            if above in self._real:
                continue
            path = os.path.join(self.path, above)
            try:
                if make and not os.path.lexists(path):
                    os.mkdir(path)
                if not stat.S_ISDIR(os.lstat(path).st_mode):
                    raise Trouble("io", "{} stands in its way".format(above))
            except OSError as error:
                raise trouble_of(error) from None
            self._real.add(above)
        return os.path.join(self.path, *parts)

    def open(self, name: str) -> BinaryIO:
        """A file to read."""
        try:
            file = os.fdopen(os.open(self.place(name), os.O_RDONLY | _NOFOLLOW), "rb", buffering=0)
        except OSError as error:
            raise trouble_of(error) from None
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise Trouble("io", "is not a file any more")
        return file

    def digest(self, name: str, length: int | None = None) -> str:
        """Digest of a file, or of its first bytes; empty where it cannot be read."""
        made, left = new_digest(), length
        try:
            with self.open(name) as file:
                while left is None or left > 0:
                    if self.is_over:
                        return ""
                    data = file.read(CHUNK if left is None else min(CHUNK, left))
                    if not data:
                        return "" if left else str(made.hexdigest())
                    made.update(data)
                    left = None if left is None else left - len(data)
        except (OSError, Trouble):
            return ""
        return str(made.hexdigest())

    def part(self, name: str) -> tuple[int, str]:
        """How much of an unfinished file is here, and the digest of that."""
        made, length = new_digest(), 0
        try:
            with open(
                self.part_path(name, make=False),
                "rb",
                opener=lambda path, flags: os.open(path, flags | _NOFOLLOW),
            ) as file:
                while data := file.read(CHUNK):
                    made.update(data)
                    length += len(data)
        except (OSError, Trouble):
            return 0, ""
        self._prefixes[name] = (length, made)
        return length, made.hexdigest()

    def part_path(self, name: str, *, make: bool) -> str:
        """Where the unfinished file of a name lies: beside it, so that it becomes it in one step."""
        path = self.place(name, make=make)
        return os.path.join(
            os.path.dirname(path),
            PART + hashlib.blake2b(os.fsencode(name), digest_size=12).hexdigest(),
        )

    def known_prefix(self, name: str, length: int) -> Any:
        """The digest so far of an unfinished file that `part` looked at."""
        known, made = self._prefixes.pop(name, (-1, None))
        if known != length:
            raise Trouble("foul", "its unfinished part is another one")
        return made

    def delete(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Remove files and links, then folders that are empty by then; `(name, why)` of what is not removed."""
        for name in sorted(names, reverse=True):
            try:
                path = self.place(name)
                if stat.S_ISDIR(os.lstat(path).st_mode):
                    os.rmdir(path)
                    self._real.discard(name)
                else:
                    self.must_stand(name, path)
                    os.unlink(path)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                    yield name, trouble_of(error).why
            except Trouble as trouble:
                if trouble.code != "missing":
                    yield name, trouble.why

    def outgoing(self, files: Iterable[Row]) -> Iterator[bytes]:
        """The frames of files: `[name, offset, size, mtime ns, mode]`. One that changes meanwhile ends in an error of its own."""
        heads: list[Row] = []
        contents: list[bytes] = []
        held = 0
        for row in files:
            name, offset, size, mtime, mode = row
            if size > SMALL or offset:
                yield from self._alone(row)
                continue
            try:
                content = self._small(name, size)
            except Trouble as trouble:
                yield message(put=name, offset=0, size=size, mtime=mtime, mode=mode)
                yield message(end=name, code=trouble.code, why=trouble.why)
                continue
            made = new_digest()
            made.update(content)
            heads.append([name, size, mtime, mode, made.hexdigest()])
            contents.append(content)
            held += size
            if held >= PACKED_BYTES or len(heads) >= PACKED_FILES:
                yield _packed(heads, contents)
                heads, contents, held = [], [], 0
        if heads:
            yield _packed(heads, contents)

    def _small(self, name: str, size: int) -> bytes:
        try:
            fd = os.open(self.place(name), os.O_RDONLY | _NOFOLLOW)
            try:
                before = os.fstat(fd)
                if not stat.S_ISREG(before.st_mode):
                    raise Trouble("io", "is not a file any more")
                content = os.read(fd, size) if size else b""
                _must_be_whole(size - len(content), size, before, os.fstat(fd))
            finally:
                os.close(fd)
        except OSError as error:
            raise Trouble("io", trouble_of(error).why) from None
        return content

    def _alone(self, row: Row) -> Iterator[bytes]:
        name, offset, size, mtime, mode = row
        yield message(put=name, offset=offset, size=size, mtime=mtime, mode=mode)
        made, left = new_digest(), size
        try:
            with self.open(name) as file:
                before = os.fstat(file.fileno())
                while left:
                    data = file.read(min(CHUNK, left))
                    if not data:
                        break
                    made.update(data)
                    left -= len(data)
                    fresh = data[max(0, offset - (size - left - len(data))) :]
                    if fresh:
                        yield _HEAD.pack(b"D", len(fresh)) + fresh
                _must_be_whole(left, size, before, os.fstat(file.fileno()))
        except OSError as error:
            yield message(end=name, code="io", why=trouble_of(error).why)
        except Trouble as trouble:
            yield message(end=name, code=trouble.code, why=trouble.why)
        else:
            yield message(end=name, digest=made.hexdigest())


def _packed(heads: list[Row], contents: list[bytes]) -> bytes:
    content = b"".join(contents)
    return message(files=heads) + (_HEAD.pack(b"D", len(content)) + content if content else b"")


def _must_be_whole(left: int, size: int, before: os.stat_result, after: os.stat_result) -> None:
    """Refuse a file that changed while it was read. What only grew, as a log does, is whole as far as it was listed; the rest comes the next time."""
    is_touched = (after.st_mtime_ns, _changed(after)) != (before.st_mtime_ns, _changed(before))
    if left or after.st_size < size or (is_touched and after.st_size == size):
        raise Trouble("changed", "changed while it was read")


def _changed(info: os.stat_result) -> int:
    # On Windows this is when it was made, which says nothing of later changes, and does no harm.
    return info.st_ctime_ns
