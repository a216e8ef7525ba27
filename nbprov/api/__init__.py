"""The typed Python API; the magics are thin over it."""

from __future__ import annotations

from .cluster import Cluster, Done
from .run import Run
from .session import Cost, DoesNotFit, Prices, Session

__all__ = ["Cluster", "Cost", "DoesNotFit", "Done", "Prices", "Run", "Session", "close", "session"]

_session: Session | None = None


def session() -> Session:
    """The session of this process, made on first use."""
    global _session
    if _session is None:
        _session = Session()
    return _session


def close() -> None:
    """End the session of this process, if there is one: leases are given up, machines and their guards go on."""
    global _session
    if _session is not None:
        _session.close()
        _session = None
