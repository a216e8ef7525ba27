"""A cache of small facts that hold for a day, such as images and which zone sells what.

It lives in nbprov's home, so that a launch need not ask for them again.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.paths import home, make_folder, open_private

DAY: Seconds = 24 * 3600.0

_lock = threading.Lock()


def path(name: str) -> Path:
    """Return the file for one kind of fact."""
    return home() / "cache" / "aws" / f"{name}.json"


def read(name: str, key: str, *, newer_than: Seconds = DAY) -> Any:
    """Return a fact that is at most `newer_than` seconds old, or None.

    A damaged or foreign file counts as empty.
    """
    entry = _all(name).get(key)
    if not isinstance(entry, dict) or not isinstance(entry.get("at"), (int, float)):
        return None
    # A time in the future was written before the clock was set back; it counts as old.
    return entry.get("value") if 0 <= time.time() - entry["at"] < newer_than else None


def write(name: str, values: dict[str, Any]) -> None:
    """Store facts under their keys.

    A disk that cannot be written costs one more request later, and never a launch.
    """
    _change(name, {key: {"at": time.time(), "value": value} for key, value in values.items()}, "")


def drop(name: str, key: str) -> None:
    """Remove a fact."""
    _change(name, {}, key)


def _change(name: str, added: dict[str, Any], dropped: str) -> None:
    now = time.time()
    with _lock, contextlib.suppress(OSError):
        entries = {
            k: v
            for k, v in _all(name).items()
            if k != dropped and isinstance(v, dict) and now - float(v.get("at") or 0) < DAY
        }
        entries |= added
        file = path(name)
        make_folder(file.parent)
        draft = file.with_name(f"{file.name}.{os.getpid()}-{threading.get_ident()}.new")
        with open(draft, "w", encoding="utf-8", opener=open_private) as out:
            json.dump(entries, out)
        draft.replace(file)


def _all(name: str) -> dict[str, Any]:
    try:
        found = json.loads(path(name).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
