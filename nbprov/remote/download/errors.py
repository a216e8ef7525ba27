"""The errors of downloading files from buckets and the web."""

from __future__ import annotations

from collections.abc import Mapping

from nbprov.remote.errors import RemoteError
from nbprov.remote.sync.errors import shown


class DownloadError(RemoteError):
    """Files of a bucket or of the web could not be brought to a machine.

    Its code tells why: `fetch.bucket` (no such bucket), `fetch.missing` (nothing there),
    `fetch.denied`, `fetch.library` (a package is missing here), `fetch.many`, `fetch.archived`,
    `fetch.name` (name resolution), `fetch.unreachable`, `fetch.certificate`, `fetch.full` (the
    disk), `fetch.damaged` (a digest), `fetch.changed`, `fetch.place` (the target), `fetch.stalled`,
    `fetch.lost` (the connection to the machine), `fetch.foul` (the machine broke the protocol),
    `fetch.failed` (anything else).
    """

    code = "fetch"


_AGAIN = "run the cell again: what has arrived is kept, and it goes on from there"
_CODES_AND_HINTS: Mapping[str, tuple[str, str]] = {
    "denied": (
        "denied",
        "who may read it? see that your log-in here may, or make it public;"
        " a link may have run out",
    ),
    "missing": ("missing", "see that the address is right, upper and lower case too"),
    "changed": ("changed", _AGAIN),
    "damaged": (
        "damaged",
        "ask whoever keeps it: what the server sends is not what its digest says",
    ),
    "length": ("failed", "fetch it in `setup` by a tool of your choice"),
    "full": ("full", "ask for more by disk_size in resources; what has arrived is kept"),
    "name": ("name", "is the host's name right, and does the machine reach the internet?"),
    "connect": ("unreachable", "does the machine reach that server?"),
    "silent": ("unreachable", _AGAIN),
    "cut": ("unreachable", _AGAIN),
    "http": ("failed", _AGAIN),
    "redirect": ("failed", "name the address that it leads to, if you trust it"),
    "certificate": ("certificate", "on a bare image: apt-get install ca-certificates"),
    "permission": ("place", "choose a target that the machine's user may write"),
    "place": ("place", "choose another target"),
    "io": ("place", "choose another target"),
    "foul": ("foul", "nothing was written here; end the machine if it is not to be trusted"),
    "busy": ("failed", "wait for the other run"),
    "stalled": ("stalled", _AGAIN),
    "lost": ("lost", _AGAIN),
}


def download_error(code: str, why: str, source: str, key: str) -> DownloadError:
    """Return the error for what a machine reports.

    Parameters
    ----------
    code, why
        The machine's.
    source
        What messages call the place it comes from.
    key
        Which file of it; empty for all.
    """
    kind, hint = _CODES_AND_HINTS.get(code, ("failed", _AGAIN))
    what = f" ({shown(key)})" if key and not source.endswith(key) else ""
    return DownloadError(f"{source}{what}: {why}", hint=hint, code=f"fetch.{kind}")
