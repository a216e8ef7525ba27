"""The agent's log, which cannot fail: on a full disk lines are lost, and nothing else is."""

from __future__ import annotations

import io
import os
import sys
import traceback

_reported: dict[str, str] = {}


class SafeLog(io.TextIOBase):
    """Writes to an open file at once, and ignores every error of the operating system.

    Where a line that tells of an error raised one itself, it would end whoever survived the first.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def fileno(self) -> int:
        """Return the open file."""
        return self._descriptor

    def write(self, text: str) -> int:
        """Write a text as far as there is room."""
        try:
            data = memoryview(text.encode("utf-8", "replace"))
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            pass  # there is nobody left to tell
        return len(text)


def use_safe_log() -> None:
    """Have everything that this process prints written to its stderr by a `SafeLog`."""
    sys.stdout = sys.stderr = SafeLog(2)


def report_error(where: str) -> None:
    """Print the exception that is being handled, unless it was the last one at this place.

    What is tried again every few seconds would fill the log, and the disk, with one error.
    """
    text = traceback.format_exc()
    if _reported.get(where) != text:
        _reported[where] = text
        print(f"{where} failed; it is tried again:\n{text}", file=sys.stderr, flush=True)


def forget_error(where: str) -> None:
    """Print the next exception of a place, whatever it is: this time it worked."""
    _reported.pop(where, None)
