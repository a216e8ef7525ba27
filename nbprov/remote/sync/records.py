"""Remember in a file which files a sync or a pull found the same on both sides."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nbprov.model.paths import make_folder

from .listing import Stamp
from .plan import SyncRecord

FRESH_NS = 2_000_000_000
"""A file that changed within so long is compared again next time.

It may change again within one tick of its file system's clock, which is 2 s at the coarsest.
"""


def record(here: Stamp, there: Stamp, digest: str, changed: int) -> SyncRecord:
    """Return the record of a file that is the same on both sides.

    Parameters
    ----------
    changed
        When it was written last, in ns since the epoch.
    """
    return SyncRecord(here, there, digest, time.time_ns() - changed > FRESH_NS)


def load(memory: Path | None) -> dict[str, SyncRecord]:
    """Read what is remembered.

    An unreadable file counts as empty: then files are compared by digest, which only takes time.
    """
    found: dict[str, SyncRecord] = {}
    if memory is None:
        return found
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
        content: Any = json.loads(memory.read_text(encoding="ascii"))
        for name, (here, there, digest, is_sure) in content["files"].items():
            found[name] = SyncRecord(_stamp(here), _stamp(there), str(digest), is_sure is True)
    return found


def _stamp(numbers: Sequence[Any]) -> Stamp:
    size, mtime, ctime = map(int, numbers)
    return size, mtime, ctime


def save(memory: Path | None, known: Mapping[str, SyncRecord], present: set[str]) -> None:
    """Write the records of the files in `present`, atomically and readable by the user alone."""
    if memory is None:
        return
    make_folder(memory.parent)
    content = {
        "files": {
            name: [one.here, one.there, one.digest, one.is_sure]
            for name, one in known.items()
            if name in present
        }
    }
    descriptor, name = tempfile.mkstemp(dir=memory.parent, prefix=".sync-")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            # `json.dump` to the file is ten times as slow.
            file.write(json.dumps(content, separators=(",", ":")))
        os.replace(name, memory)
    except OSError:
        os.unlink(name)
        raise
