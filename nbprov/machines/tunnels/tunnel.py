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
    """A snapshot of a tunnel.

    Attributes
    ----------
    cluster, node, port
        The port of that node's own 127.0.0.1 that the tunnel leads to.
    local
        The port of 127.0.0.1 on this computer.
    open_now, carried
        The connections that are open now, and all so far.
    sent, received
        Bytes to the machine and from it.
    paused
        Why the tunnel does not listen now (`dev is stopped`); empty while it does.
    trouble
        Why the last connection failed; empty if it did not.
    what
        The service at the port, if nbprov started it: `the Dask dashboard`.
    scheme
        The scheme of the URL; `http` unless it is known to be another.
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
        """The address for a browser, or for the service's own client, on this computer."""
        return f"{self.scheme}://127.0.0.1:{self.local}"


@dataclass(frozen=True, slots=True)
class PrivateService:
    """A service of an engine, which listens only at a machine's private address."""

    what: str
    scheme: str = "http"


class PersistentTunnel:
    """One tunnel from its opening to its end.

    It outlives ssh connections, and the times when its cluster is stopped.
    """

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
        """Return a snapshot. Any thread."""
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
    """Return a line for each tunnel: `http://127.0.0.1:8081 is port 8080 of dev`.

    Examples
    --------
    >>> in_words([TunnelView("dev", "c1", 0, 8080, 8081)])
    ['http://127.0.0.1:8081 is port 8080 of dev']
    """
    return [
        f"{v.url} is {v.what or f'port {v.port}'} of {v.cluster}"
        + (f" node {v.node}" if v.node else "")
        + (f" ({v.paused})" if v.paused else "")
        for v in views
    ]
