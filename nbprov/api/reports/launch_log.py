"""The provision log of a launch, which this home keeps."""

from __future__ import annotations

import os
from pathlib import Path

MOST_BYTES = 64 * 1024
"""The most that `end_of_log` reads: several hundred lines."""


def log_path(home: Path, run_id: str) -> Path:
    """Return the path of the provision log of a launch."""
    return home / "logs" / f"{run_id}.log"


def end_of_log(path: Path) -> str:
    """Return the last lines of a log; empty where there is none any more."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MOST_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return text if size <= MOST_BYTES else text.partition("\n")[2]
