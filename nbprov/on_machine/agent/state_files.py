"""State files: small JSON objects, each replaced as a whole."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

from .errors import NO_ROOM
from .json_types import Json

BLOCK_BYTES = 512
"""The unit in which the system tells how much room a file has."""

_unwritten: dict[str, Json] = {}


def write_json(path: Path, value: Json) -> bool:
    """Replace a state file, and return whether that worked.

    A full or broken disk must stop neither the guards nor a job. So what cannot be written is kept
    in memory, where `read_json` finds it, until `write_unwritten` succeeds.
    """
    data = json.dumps(value, indent=1).encode()
    try:
        _replace(path, data)
    except OSError as error:
        if str(path) not in _unwritten:
            print(f"{path} could not be written: {error}", file=sys.stderr, flush=True)
        _unwritten[str(path)] = value
        return False
    _unwritten.pop(str(path), None)
    return True


def write_unwritten() -> None:
    """Write what could not be written before."""
    for path, value in list(_unwritten.items()):
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        write_json(Path(path), value)


def forget_json(path: Path) -> None:
    """Do not write a state file any more; what is on the disk stays."""
    _unwritten.pop(str(path), None)


def read_json(path: Path) -> Json | None:
    """Return what a state file holds, or None if it holds no JSON object."""
    if str(path) in _unwritten:
        return _unwritten[str(path)]
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _replace(path: Path, data: bytes) -> None:
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.write_bytes(data)
        fresh.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        if error.errno not in NO_ROOM or not _overwrite(path, data):
            raise


def _overwrite(path: Path, data: bytes) -> bool:
    """Write a file in place, within the room that it has already; return whether that worked.

    So the guards' clocks reach a full disk, and an agent that is killed there goes on from them.
    """
    try:
        room = path.stat().st_blocks * BLOCK_BYTES
        if len(data) > room:
            return False
        with path.open("r+b", buffering=0) as file:
            file.write(data)
            file.truncate()
    except OSError:
        return False
    return True
