"""Check that a cluster's name still means the cluster of this kernel's last cell there."""

from __future__ import annotations

import weakref
from typing import Any

from nbprov.api import session
from nbprov.api.errors import OtherCluster

_used: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()
"""For each session, the run that each name belonged to at the last cell."""


def check_same_cluster(name: str) -> None:
    """Refuse the first cell that would unknowingly run on another cluster of the same name.

    A cluster that this kernel launched itself is no surprise and is not refused.

    Raises
    ------
    OtherCluster
        Once; the next cell runs on the new cluster.
    """
    here = session()
    row = here.engine.ledger.clusters.named(name)
    if row is None:
        return  # running the cell raises the error
    used = _used.setdefault(here, {})
    before, used[name] = used.get(name, row.run_id), row.run_id
    own = here.runs.get(name)
    if before != row.run_id and (own is None or own.run_id != row.run_id):
        raise OtherCluster(
            f"{name} is now another cluster than the one this notebook used, which has ended"
            " together with its variables and files",
            hint="nothing was run; run the cell again to use the new cluster",
        )
