"""One folder of a sync: lists it, takes digests, and sends whole files. Used on both sides."""
# What the machine needs now and then only is imported where it is needed, and `typing` never: the
# start is a third of what a folder of small files takes.

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import sys
import time

from .sync_protocol import (
    CHUNK,
    PART,
    Skip,
    SyncFailure,
    new_digest,
    trouble_of,
    why_not_link,
    why_not_name,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Iterable, Iterator

    Row = list[Any]
    """`[name, kind (f, d, l), size, mtime ns, ctime ns, mode, where a link leads]`."""

ROWS = 500
"""Entries of one message."""
MOST_ENTRIES = 250_000
"""Of one folder: more take minutes to list and compare, and are better packed, or ignored."""
MOST_SKIPPED = 1000
"""Skipped entries kept with their reasons; the rest is counted."""
KEEP_FROM = 1_000_000
"""Bytes from which the unfinished part of a file is kept for the next run.

Sending less again is quicker than asking what is there."""
STALE_SECONDS = 7 * 86400
"""An unfinished file is removed after so long."""


class Rules:
    """Ignore rules as they travel: `[pattern, is negated, folders only]`. The last match decides.

    With `folds` upper and lower case are the same.
    """

    def __init__(self, rules: Iterable[list[Any]], folds: bool = False) -> None:
        flags = re.DOTALL | (re.IGNORECASE if folds else 0)
        self._rules = [
            (re.compile(pattern, flags), negated, folders) for pattern, negated, folders in rules
        ]

    def ignores(self, name: str, is_folder: bool) -> bool:
        """Return whether a file or folder is left out; every `.git` is."""
        verdict = name == ".git" or name.endswith("/.git")
        for pattern, negated, folders in () if verdict else self._rules:
            if (is_folder or not folders) and pattern.match(name):
                verdict = not negated
        return verdict


class Survey:
    """What a folder holds. `is_whole` is False if a part of it could not be read."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.skipped: list[tuple[str, str]] = []
        self.more_skipped = 0
        self.ignored: list[str] = []
        self.ignored_count = 0
        self.is_whole = True

    def skip(self, name: str, why: str) -> None:
        """Note what is not copied."""
        if len(self.skipped) < MOST_SKIPPED:
            self.skipped.append((name, why))
        else:
            self.more_skipped += 1


NOFOLLOW = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


class SyncFolder:
    """One folder on this side.

    Names are relative to it, with `/`; no function follows a link below it.

    Attributes
    ----------
    modes
        What the mode of a file that is new here may be at most.
    is_over
        Ends digests that other threads are taking, once set.
    standing
        Size and times of each file as it was listed; with it, a file that is not so any more is
        neither replaced nor deleted.
    """

    modes = 0o777

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(
            os.path.join(os.path.expanduser("~"), os.path.expanduser(path))
        )
        self._real = {""}
        self._prefixes: dict[str, tuple[int, Any]] = {}
        self.is_over = False
        self.standing: dict[str, tuple[int, int, int]] | None = None

    def must_stand(self, name: str, path: str) -> None:
        """Refuse a file that is not as it was listed: a person or an editor has changed it.

        Raises
        ------
        Trouble
            `kept`. Never if `standing` is not set.
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
            raise SyncFailure("kept", "changed here meanwhile, and was left alone")

    def is_home_or_above(self) -> bool:
        """Return whether it holds the whole home, with keys and settings."""
        home = os.path.realpath(os.path.expanduser("~"))
        return home == self.path or home.startswith(self.path.rstrip(os.sep) + os.sep)

    def make(self, *, as_root: bool = False) -> None:
        """Make it, with the folders above it.

        With `as_root` sudo makes it where that is not allowed otherwise, and gives it to us.
        """
        try:
            os.makedirs(self.path, exist_ok=True)
        except PermissionError as error:
            if not (as_root and self._make_as_root()):
                raise trouble_of(error) from None
        except (FileExistsError, FileNotFoundError, NotADirectoryError):
            raise SyncFailure("permission", "may not be made") from None
        except OSError as error:
            raise trouble_of(error) from None

    def _make_as_root(self) -> bool:
        if sys.platform == "win32":
            return False
        else:
            import subprocess

            own = f"{os.getuid()}:{os.getgid()}"
            steps = (["mkdir", "-p", "--", self.path], ["chown", own, "--", self.path])
            try:
                return not any(
                    subprocess.call(["sudo", "-n", *step], stdin=subprocess.DEVNULL, stdout=2)
                    for step in steps
                )
            except OSError:  # there is no sudo
                return False

    def survey(self, rules: Rules) -> Survey:
        """List it without unfinished files of ours."""
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
                raise SyncFailure("many", f"holds more than {MOST_ENTRIES:,} entries")
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
            Skip.SPECIAL
            if not kind
            else why_not_name(name) or (why_not_link(name, target) if kind == "l" else "")
        )
        if not why and kind == "f" and not os.access(entry.path, os.R_OK):
            why = Skip.UNREADABLE
        if why:
            found.skip(name, why)
            return None
        return [
            name,
            kind,
            info.st_size if kind == "f" else 0,
            info.st_mtime_ns,
            changed_at(info),
            info.st_mode & 0o777,
            target,
        ]

    def place(self, name: str, *, make: bool = False) -> str:
        """Return the path of a name, whose folders are real ones; with `make` they are made."""
        why = why_not_name(name)
        if why:
            raise SyncFailure("foul", why)
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
                    raise SyncFailure("io", f"{above} stands in its way")
            except OSError as error:
                raise trouble_of(error) from None
            self._real.add(above)
        return os.path.join(self.path, *parts)

    def open(self, name: str) -> BinaryIO:
        """Open a file to read."""
        try:
            file = os.fdopen(os.open(self.place(name), os.O_RDONLY | NOFOLLOW), "rb", buffering=0)
        except OSError as error:
            raise trouble_of(error) from None
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise SyncFailure("io", "is not a file any more")
        return file

    def digest(self, name: str, length: int | None = None) -> str:
        """Return the digest of a file or of its first bytes; empty if it cannot be read."""
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
        except (OSError, SyncFailure):
            return ""
        return str(made.hexdigest())

    def part(self, name: str) -> tuple[int, str]:
        """Return how much of an unfinished file is here, and the digest of that."""
        made, length = new_digest(), 0
        try:
            with open(
                self.part_path(name, make=False),
                "rb",
                opener=lambda path, flags: os.open(path, flags | NOFOLLOW),
            ) as file:
                while data := file.read(CHUNK):
                    made.update(data)
                    length += len(data)
        except (OSError, SyncFailure):
            return 0, ""
        self._prefixes[name] = (length, made)
        return length, made.hexdigest()

    def part_path(self, name: str, *, make: bool) -> str:
        """Return the path of a name's unfinished file, which lies beside its place."""
        path = self.place(name, make=make)
        return os.path.join(
            os.path.dirname(path),
            PART + hashlib.blake2b(os.fsencode(name), digest_size=12).hexdigest(),
        )

    def known_prefix(self, name: str, length: int) -> Any:
        """Return the digest so far of an unfinished file that `part` looked at."""
        known, made = self._prefixes.pop(name, (-1, None))
        if known != length:
            raise SyncFailure("foul", "its unfinished part is another one")
        return made

    def delete(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Remove files and links, then folders that are empty by then.

        Yields `(name, why)` of what is not removed.
        """
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
            except SyncFailure as trouble:
                if trouble.code != "missing":
                    yield name, trouble.why


def changed_at(info: os.stat_result) -> int:
    """Return when a file was changed, content or mode."""
    # On Windows this is when it was made, which tells nothing of later changes and does no harm.
    return info.st_ctime_ns
