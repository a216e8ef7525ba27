"""What both sides of a sync or download send each other: frames, errors, digests and names.

A frame is a letter (J: a JSON object, D: bytes of the file that was begun last), a 4-byte
big-endian length, and so many bytes.
"""

from __future__ import annotations

import enum
import errno
import hashlib
import json
import re
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

MARKER = b"\0nbprov-sync 1\0"
"""What the machine's side says first; what a login script prints before it is skipped."""
CHUNK = 256 * 1024
"""Bytes that are read and written at once, and of a frame."""
MOST_FRAME = 4 * 1024 * 1024
"""Bytes of a frame; a side that announces more is not one of ours."""
MOST_DEPTH = 100
"""Folders within one another."""
SMALL = 32 * 1024
"""Bytes up to which files travel many at a time, in one message and one piece of content."""
PACKED_FILES, PACKED_BYTES = 128, 256 * 1024
"""The most of them at a time: the other side writes some while the next are read."""
PART = ".nbprov-part."
"""Begins the names of unfinished files, which are no part of a folder's content."""


class SyncFailure(Exception):
    """Something does not work on this side.

    Parameters
    ----------
    code
        Its kind: missing, permission, full, busy, many, digest, changed, kept, foul, io.
    why
        What is said of the file or folder, as the end of a sentence.
    """

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code, self.why = code, why


def trouble_of(error: OSError) -> SyncFailure:
    """Return what an error of the system means."""
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
        return SyncFailure("full", "the disk is full")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return SyncFailure(
            "permission",
            "may not be {}".format(
                "written: read-only" if error.errno == errno.EROFS else "read or written"
            ),
        )
    if error.errno == errno.EISDIR:
        return SyncFailure("io", "a folder stands in its place")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return SyncFailure("missing", "is not there any more")
    return SyncFailure("io", (error.strerror or str(error)).lower())


_HEAD = struct.Struct(">cI")


def message(**content: Any) -> bytes:
    """Return the frame of a JSON object."""
    data = json.dumps(content, separators=(",", ":")).encode("ascii")
    return _HEAD.pack(b"J", len(data)) + data


def data_frame(data: bytes) -> bytes:
    """Return the frame of bytes of the file that was begun last."""
    return _HEAD.pack(b"D", len(data)) + data


class Frames:
    """Takes bytes as they come, and gives whole frames: objects, and bytes of files."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def has_begun(self) -> bool:
        """Whether there are bytes of a frame that is not whole yet, or was not taken."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield the frames that these bytes complete.

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
                    raise SyncFailure("foul", "what came is no message of a sync")
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
        raise SyncFailure("foul", "what came is no message of a sync")
    return content


def new_digest() -> Any:
    """Return a fresh digest: processors have instructions for SHA-256, and none for BLAKE2."""
    return hashlib.sha256()


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


class Skip(str, enum.Enum):
    """Why a file or folder is left out. Its value is for people; its name travels."""

    SPECIAL = "neither a file nor a folder"
    UNREADABLE = "may not be read"
    TOO_LONG = "a name that is too long"
    CONTROL = "control characters in its name"
    OUTSIDE = "a name that leads out of the folder"
    UNFINISHED = "a name of our unfinished files"
    LINK_NOWHERE = "a link that leads nowhere"
    LINK_OUTSIDE = "a link that leads out of the folder"
    GIT_FOLDER = "a .git folder: what a machine writes there could run here"
    RUNS = "new here, and its ending is not one of data; --keep-names brings it"
    REPOSITORY = "would make a git repository or change one, whose settings git runs as commands"
    IGNORE_FILE = "an ignore file: it says what leaves this computer"
    IGNORED = "ignored here, and listed by the machine all the same"
    FOLDER_MISSING = "in a folder that is not listed, or does not come here"
    SAME_NAME = "its name is that of another one here"
    LETTER_CASE = "differs from another name in the case of letters alone"
    FOLDER_OR_FILE = "a folder on one side, and none on the other"
    WINDOWS_NAME = "a name that Windows cannot have"
    WINDOWS_LINK = "a link, which Windows needs rights for"

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, form: str) -> str:
        return format(str(self.value), form)


def why_not_name(name: str) -> str:
    """Return why a name cannot be one below a folder; empty if it can."""
    parts = name.split("/")
    if len(name) > 255 and (
        len(name) > 4096 or len(parts) > MOST_DEPTH or max(map(len, parts)) > 255
    ):
        return Skip.TOO_LONG
    if not name.isprintable() and _CONTROL.search(name):
        return Skip.CONTROL
    if "" in parts or "." in parts or ".." in parts:
        return Skip.OUTSIDE
    return Skip.UNFINISHED if PART in name and any(part.startswith(PART) for part in parts) else ""


def why_not_link(name: str, target: str) -> str:
    """Return why a link is not copied; empty if it stays inside the folder.

    `..` may stand only at its beginning: behind another link it would lead elsewhere.
    """
    parts = target.split("/")
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    if not target or len(target) > 4096 or _CONTROL.search(target):
        return Skip.LINK_NOWHERE
    if (
        target.startswith(("/", "\\"))
        or target[1:2] == ":"
        or ".." in parts[ups:]
        or ups > name.count("/")
    ):
        return Skip.LINK_OUTSIDE
    return ""
