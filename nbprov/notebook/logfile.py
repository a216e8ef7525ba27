"""Write the package's log to a file.

Output of a background thread would otherwise appear in whichever cell ran last.
"""

from __future__ import annotations

import logging
from pathlib import Path

MOST_BYTES = 2_000_000
"""A log longer than this is moved aside when it is opened, and a new one is begun."""


class LogFile(logging.Handler):
    """Writes warnings and errors to one file, which is created with the first record."""

    def __init__(self, path: Path) -> None:
        super().__init__(logging.WARNING)
        self.path = path
        self._file: logging.FileHandler | None = None
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record to the file."""
        if self._file is None:
            self._file = self._open()
        self._file.emit(record)

    def _open(self) -> logging.FileHandler:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and self.path.stat().st_size > MOST_BYTES:
            self.path.replace(self.path.with_suffix(".old.log"))
        made = logging.FileHandler(self.path, encoding="utf-8")
        made.setFormatter(self.formatter)
        return made

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        super().close()
