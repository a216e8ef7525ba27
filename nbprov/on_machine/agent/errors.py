"""The agent's refusal of a request, and the words for a disk that does not take what it should."""

from __future__ import annotations

import errno

NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""What the system says where the disk, its inodes or the user's share of it are used up."""


class RequestError(Exception):
    """A request cannot be done; the client is told its code and message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def disk_trouble(error: OSError) -> str:
    """Return what is wrong with the disk, for people."""
    if is_no_room(error):
        return "the disk of the machine is full"
    if error.errno == errno.EROFS:
        return "the disk of the machine can only be read"
    return f"the disk of the machine cannot be written ({error.strerror or error})"


def is_no_room(error: BaseException) -> bool:
    """Return whether an error says that the disk is full."""
    return isinstance(error, OSError) and error.errno in NO_ROOM


def disk_refusal(error: OSError) -> RequestError:
    """Return the refusal of what the disk did not take."""
    return RequestError("disk-full" if is_no_room(error) else "disk", disk_trouble(error))
