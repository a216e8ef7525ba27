"""What a machine has downloaded into a folder, so that it does not come again."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import threading
from typing import Any

STATE = ".nbprov/fetched"
"""Below the home: a file for each folder, of names, sizes, times and ETags."""


class Known:
    """What has been fetched into a folder: `{name: [etag, size, mtime ns]}`, kept between runs."""

    def __init__(self, folder: str) -> None:
        key = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
        self._path = os.path.join(os.path.expanduser("~"), *STATE.split("/"), key + ".json")
        self._files: dict[str, list[Any]] = {}
        self._lock = threading.Lock()
        try:
            with open(self._path, encoding="ascii") as file:
                content = json.load(file)
            self._files = {str(name): list(row) for name, row in content["files"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            self._files = {}  # it costs a download, and no more

    def etag(self, name: str, path: str) -> str:
        """Return the ETag of a file that is as it was fetched, else an empty text."""
        row = self._files.get(name, [])
        try:
            info = os.lstat(path)
        except OSError:
            return ""
        same = (
            len(row) == 3
            and stat.S_ISREG(info.st_mode)
            and row[1:] == [info.st_size, info.st_mtime_ns]
        )
        return str(row[0]) if same else ""

    def note(self, name: str, etag: str, path: str) -> None:
        """Remember a file."""
        info = os.lstat(path)
        with self._lock:
            self._files[name] = [etag, info.st_size, info.st_mtime_ns]

    def save(self) -> None:
        """Write it to the disk in one step; a full disk only costs a download the next time."""
        with self._lock:
            text = json.dumps({"files": self._files}, separators=(",", ":"))
        beside = f"{self._path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with open(beside, "w", encoding="ascii") as file:
                file.write(text)
            os.replace(beside, self._path)
        except OSError as error:
            sys.stderr.write(f"what was fetched could not be noted: {error.strerror}\n")
