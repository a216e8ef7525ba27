"""State files: small JSON objects, each replaced as a whole."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .json_types import Json


def write_json(path: Path, value: Json) -> bool:
    """Replace a state file, and return whether that worked.

    A full disk must stop neither the guards nor a job, so a failure is only logged.
    """
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.write_text(json.dumps(value, indent=1))
        fresh.replace(path)
    except OSError as error:
        print(f"{path} could not be written: {error}", file=sys.stderr, flush=True)
        return False
    return True


def read_json(path: Path) -> Json | None:
    """Return what a state file holds, or None if it holds no JSON object."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
