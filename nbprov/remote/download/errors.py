"""The errors of fetching files from buckets and the web."""

from __future__ import annotations

from nbprov.remote.errors import RemoteError


class FetchError(RemoteError):
    """Files of a bucket or of the web could not be brought to a machine.

    Its code tells why: `fetch.bucket` (no such bucket), `fetch.missing` (nothing there), `fetch.denied`, `fetch.library` (a package is missing
    here), `fetch.many`, `fetch.archived`, `fetch.name` (name resolution), `fetch.unreachable`, `fetch.certificate`, `fetch.full` (the disk),
    `fetch.damaged` (a digest), `fetch.changed`, `fetch.place` (the target), `fetch.stalled`, `fetch.lost` (the line to the machine),
    `fetch.foul` (the machine broke the rules), `fetch.failed` (anything else).
    """

    code = "fetch"


__all__ = ["FetchError"]
