"""Where the package's log goes in a notebook: to a file. What a background thread prints would land in whichever cell ran last."""

from __future__ import annotations

import logging
from pathlib import Path

MOST_BYTES = 2_000_000
"""A log longer than this when it is opened is begun anew, the old one kept beside it."""


class LogFile(logging.Handler):
    """Writes warnings and worse to one file, made when there is something to write."""

    def __init__(self, path: Path) -> None:
        super().__init__(logging.WARNING)
        self.path = path
        self._file: logging.FileHandler | None = None
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record."""
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
