"""The errors of a sync, and how names and texts of a machine may be shown."""

from __future__ import annotations

from nbprov.remote.errors import RemoteError

MOST_WORDS = 200
"""Characters of a machine's own words in an error."""


class SyncError(RemoteError):
    """A folder could not be brought into step.

    Its code tells why: `sync.missing` (no such folder), `sync.full` (a disk), `sync.permission`,
    `sync.busy` (another sync), `sync.many` (too many entries), `sync.foul` (the machine broke the
    protocol), `sync.lost` (the connection), `sync.slow` (less than 1 kB a second for a minute, or
    longer than a day), `sync.failed` (some files).
    """

    code = "sync"


def shown(text: str, most: int = 100) -> str:
    """Return a machine's text as it may be shown, without control characters.

    Nothing in it moves a cursor, colours, or reverses the direction of the text.

    Examples
    --------
    >>> shown("a\\x1b[31m.txt")
    'a\\\\x1b[31m.txt'
    """
    safe = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii")
        for c in text[: most + 1]
    )
    return safe if len(safe) <= most else safe[: most - 1] + "…"
