"""Boxes: files through which variables pass between a notebook and a kernel of this machine."""

from __future__ import annotations

import binascii
import contextlib
import os
import re
import shutil
import time
from pathlib import Path

from .errors import RequestError
from .json_types import Json
from .system import boottime

BOX_PIECE = 8 * 1024 * 1024
BOXES_BYTES = 1024 * 1024 * 1024
"""Variables on their way, all together: ten copies of what may travel at once."""
BOX_SECONDS = 900.0
"""A box that nobody touched for so long belongs to a notebook that is gone.

Clients look for a lost machine for 600 s."""


class Boxes:
    """The boxes of this machine. Each holds one copy and is removed when that has been read.

    What is written says where it belongs, so a piece that is sent twice is there once. A box whose
    notebook is gone is removed by its age. All are removed when the agent starts anew, since the
    kernels that were to read them are gone.

    Attributes
    ----------
    changed
        When one was last used, which is activity.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "boxes"
        self.changed = 0.0
        shutil.rmtree(self._folder, ignore_errors=True)

    def put(self, frame: Json) -> Json:
        """Write a piece at its offset; return how much there is now, and where.

        Nothing is written where pieces before it are missing.

        Raises
        ------
        RequestError
            `boxes-full` or `no-room`.
        """
        path, offset = self._path(frame), int(frame["offset"])
        data = binascii.a2b_base64(frame["data"])
        if sum(stat.st_size for stat in self._all().values()) + len(data) > BOXES_BYTES:
            raise RequestError(
                "boxes-full", f"more than {BOXES_BYTES >> 20} MB of variables are on their way"
            )
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            opened = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with open(opened, "r+b", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if 0 <= offset <= size:
                    file.truncate(offset)
                    file.seek(offset)
                    size = offset + file.write(data)
        except OSError as error:
            raise RequestError(
                "no-room", f"variables cannot be written on the machine: {error}"
            ) from None
        return {"size": size, "path": str(path)}

    def get(self, frame: Json) -> Json:
        """Return at most `size` bytes of a box from `offset` on.

        Raises
        ------
        RequestError
            `no-box`, if it is not there any more.
        """
        path, offset, size = self._path(frame), int(frame["offset"]), int(frame["size"])
        try:
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read(max(0, min(size, BOX_PIECE)))
            os.utime(str(path))
        except OSError as error:
            raise RequestError("no-box", f"the variables on their way are gone: {error}") from None
        return {"data": binascii.b2a_base64(data, newline=False).decode()}

    def drop(self, frame: Json) -> None:
        """Remove a box; one that is not there is no error."""
        self._remove(self._path(frame))

    def drop_old(self) -> None:
        """Remove the boxes that nobody comes for any more."""
        for path, stat in self._all().items():
            if not -BOX_SECONDS < time.time() - stat.st_mtime < BOX_SECONDS:
                self._remove(path)

    def _path(self, frame: Json) -> Path:
        name = str(frame["box"])
        if not re.match(r"[0-9a-f]{32}\Z", name):
            raise RequestError("bad-box", f"{name!r} is not a name of a box")
        self.changed = boottime()
        return self._folder / name

    def _all(self) -> dict[Path, os.stat_result]:
        found = {}
        for path in self._folder.glob("*"):
            with contextlib.suppress(OSError):
                found[path] = path.stat()
        return found

    def _remove(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink()
