"""Write the package's log to a file.

Output of a background thread would otherwise appear in whichever cell ran last.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
from pathlib import Path

from nbprov.model.paths import UnsafeHome, make_folder, open_private
from nbprov.model.text.plain import printable

MOST_BYTES = 2_000_000
"""A log longer than this is moved aside when it is opened, and a new one is begun."""


class _PlainFormatter(logging.Formatter):
    """Writes records without anything that controls the terminal of whoever reads the file."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as plain text."""
        return printable(super().format(record))


class _Quiet(logging.FileHandler):
    """A file handler that does not print a traceback for each line that it cannot write."""

    def _open(self) -> io.TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        return open(open_private(self.baseFilename, flags), "a", encoding=self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        """Drop the record."""


class LogFile(logging.Handler):
    """Writes warnings and errors to one file, which is created with the first record."""

    def __init__(self, path: Path) -> None:
        super().__init__(logging.WARNING)
        self.path = path
        self._file: logging.FileHandler | None = None
        self.setFormatter(_PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record to the file."""
        # A full disk has no room for that either, and a home of others gets none of it.
        with contextlib.suppress(OSError, UnsafeHome):
            if self._file is None:
                self._file = self._open()
            self._file.emit(record)

    def _open(self) -> logging.FileHandler:
        make_folder(self.path.parent)
        if self.path.exists() and self.path.stat().st_size > MOST_BYTES:
            self.path.replace(self.path.with_suffix(".old.log"))
        made = _Quiet(self.path, encoding="utf-8")
        made.setFormatter(self.formatter)
        return made

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        super().close()
