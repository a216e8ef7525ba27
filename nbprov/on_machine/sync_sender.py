"""The sending side of a sync: the frames of whole files. Used on both sides."""

from __future__ import annotations

import os
import stat

from .sync_files import NOFOLLOW, SyncFolder, changed_at
from .sync_protocol import (
    CHUNK,
    PACKED_BYTES,
    PACKED_FILES,
    SMALL,
    SyncFailure,
    data_frame,
    message,
    new_digest,
    trouble_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator

    Row = list[Any]


def outgoing(folder: SyncFolder, files: Iterable[Row]) -> Iterator[bytes]:
    """Yield the frames of files, each `[name, offset, size, mtime ns, mode]`.

    A file that changes meanwhile ends in an error of its own.
    """
    heads: list[Row] = []
    contents: list[bytes] = []
    held = 0
    for row in files:
        name, offset, size, mtime, mode = row
        if size > SMALL or offset:
            yield from _alone(folder, row)
            continue
        try:
            content = _small(folder, name, size)
        except SyncFailure as trouble:
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


def _small(folder: SyncFolder, name: str, size: int) -> bytes:
    try:
        fd = os.open(folder.place(name), os.O_RDONLY | NOFOLLOW)
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                raise SyncFailure("io", "is not a file any more")
            content = os.read(fd, size) if size else b""
            _must_be_whole(size - len(content), size, before, os.fstat(fd))
        finally:
            os.close(fd)
    except OSError as error:
        raise SyncFailure("io", trouble_of(error).why) from None
    return content


def _alone(folder: SyncFolder, row: Row) -> Iterator[bytes]:
    name, offset, size, mtime, mode = row
    yield message(put=name, offset=offset, size=size, mtime=mtime, mode=mode)
    made, left = new_digest(), size
    try:
        with folder.open(name) as file:
            before = os.fstat(file.fileno())
            while left:
                data = file.read(min(CHUNK, left))
                if not data:
                    break
                made.update(data)
                left -= len(data)
                fresh = data[max(0, offset - (size - left - len(data))) :]
                if fresh:
                    yield data_frame(fresh)
            _must_be_whole(left, size, before, os.fstat(file.fileno()))
    except OSError as error:
        yield message(end=name, code="io", why=trouble_of(error).why)
    except SyncFailure as trouble:
        yield message(end=name, code=trouble.code, why=trouble.why)
    else:
        yield message(end=name, digest=made.hexdigest())


def _packed(heads: list[Row], contents: list[bytes]) -> bytes:
    content = b"".join(contents)
    return message(files=heads) + (data_frame(content) if content else b"")


def _must_be_whole(left: int, size: int, before: os.stat_result, after: os.stat_result) -> None:
    """Refuse a file that changed while it was read.

    What only grew, as a log does, is whole as far as it was listed; the rest comes next time.
    """
    is_touched = (after.st_mtime_ns, changed_at(after)) != (before.st_mtime_ns, changed_at(before))
    if left or after.st_size < size or (is_touched and after.st_size == size):
        raise SyncFailure("changed", "changed while it was read")
