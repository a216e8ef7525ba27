"""The typed Python API; the magics are thin over it.

`session.py` composes everything and is the place to start reading. `context.py` holds what services
share, `services/` what they do, `launching/` how launches begin and end; `cluster.py` and `run.py`
are the handles. It may import everything but `nbprov.notebook`.
"""

from __future__ import annotations

import atexit
import os
import threading

from .cluster import Cluster
from .errors import CloudTrouble, DoesNotFit, LaunchUnderWay, NotSettled, OtherCluster
from .launch_terms import Terms
from .operation import Operation
from .price_query import Prices
from .price_refresh import PriceFiles
from .reports.costs import AttemptRecord, Cost
from .run import Run
from .services.setups import ClusterSetup
from .session import Session

__all__ = [
    "AttemptRecord",
    "CloudTrouble",
    "Cluster",
    "ClusterSetup",
    "Cost",
    "DoesNotFit",
    "LaunchUnderWay",
    "NotSettled",
    "Operation",
    "OtherCluster",
    "PriceFiles",
    "Prices",
    "Run",
    "Session",
    "Terms",
    "close",
    "current",
    "session",
]

_lock = threading.Lock()
_session: Session | None = None
_parents: list[Session] = []


def session() -> Session:
    """The session of this process, made on first use and ended with the interpreter."""
    global _session
    with _lock:
        if _session is None:
            _session = Session()
            atexit.register(close)
        return _session


def current() -> Session | None:
    """The session of this process, if there is one."""
    return _session


def close() -> None:
    """End the session of this process, if there is one.

    Leases are given up; machines and their guards go on.
    """
    global _session
    with _lock:
        ended, _session = _session, None
    if ended is not None:
        atexit.unregister(close)
        ended.close()


def _reset_in_child() -> None:
    # A fork has no engine thread and must not use the ledger's connection. To close that here could
    # harm the parent's file, so it is kept and never touched again.
    global _session, _lock
    _lock = threading.Lock()
    if _session is not None:
        _parents.append(_session)
        _session = None
        atexit.unregister(close)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
