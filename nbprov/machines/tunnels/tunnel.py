"""One tunnel to a port of a machine, and the snapshot of it that is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbprov.remote.ssh.port_forward import Forward

from .loopback_ports import LOOPBACK

if TYPE_CHECKING:
    from nbprov.provisioning.ledger import ClusterRow


@dataclass(frozen=True, slots=True)
class TunnelView:
    """A tunnel as it is now.

    Attributes
    ----------
    cluster, node, port
        Where it leads: a port of that node's own 127.0.0.1.
    local
        The port of 127.0.0.1 here.
    open_now, carried
        Connections that are open, and that came in so far.
    sent, received
        Bytes to the machine, and from it.
    paused
        Why nobody listens here now (`dev is stopped`); empty while somebody does.
    trouble
        Why the last connection was not carried; empty where it was.
    what
        What listens there, where nbprov started it: `the Dask dashboard`.
    scheme
        Of the address; `http` unless it is known to be something else.
    """

    cluster: str
    cluster_id: str
    node: int
    port: int
    local: int
    open_now: int = 0
    carried: int = 0
    sent: int = 0
    received: int = 0
    paused: str = ""
    trouble: str = ""
    what: str = ""
    scheme: str = "http"

    @property
    def url(self) -> str:
        """For a browser on this computer, or for the program that it is meant for."""
        return f"{self.scheme}://127.0.0.1:{self.local}"


@dataclass(frozen=True, slots=True)
class PrivateService:
    """What an engine has at the private address of a machine, and nowhere else: see `TunnelView`."""

    what: str
    scheme: str = "http"


class PersistentTunnel:
    """One tunnel, from its opening to its end; it outlives connections, and stops of its cluster."""

    def __init__(
        self, row: ClusterRow, node: int, port: int, service: PrivateService | None = None
    ) -> None:
        self.row, self.node, self.port, self.service = row, node, port, service
        self.at = LOOPBACK
        self.local = 0
        self.forward: Forward | None = None
        self.paused = ""
        self.is_closed = False
        self.resuming: asyncio.Task[None] | None = None

    def view(self) -> TunnelView:
        """A snapshot. Any thread."""
        view = TunnelView(
            self.row.name, self.row.cluster_id, self.node, self.port, self.local, paused=self.paused
        )
        if self.service is not None:
            view = replace(view, what=self.service.what, scheme=self.service.scheme)
        seen = self.forward
        if seen is None:
            return view
        return replace(
            view,
            open_now=seen.open_now,
            carried=seen.carried,
            sent=seen.sent,
            received=seen.received,
            trouble=seen.trouble,
        )


def in_words(views: Sequence[TunnelView]) -> list[str]:
    """A line a tunnel: `http://127.0.0.1:8081 is port 8080 of dev`.

    Examples
    --------
    >>> in_words([TunnelView("dev", "c1", 0, 8080, 8081)])
    ['http://127.0.0.1:8081 is port 8080 of dev']
    """
    return [
        f"{v.url} is {v.what or f'port {v.port}'} of {v.cluster}{f' node {v.node}' if v.node else ''}"
        + (f" ({v.paused})" if v.paused else "")
        for v in views
    ]
