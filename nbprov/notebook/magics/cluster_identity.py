"""Whether a cluster's name still means what it meant at this kernel's last cell there."""

from __future__ import annotations

import weakref
from typing import Any

from nbprov.api import session
from nbprov.api.errors import OtherCluster

_used: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()
"""Of each session: the run that each name belonged to at the last cell."""


def same_cluster(name: str) -> None:
    """Stop the first cell that would meet another cluster of the same name unawares.

    A cluster that this kernel launched itself is no surprise; the cell then says, where it matters, that no variables are there.

    Raises
    ------
    OtherCluster
        Once; the next cell means the new one.
    """
    here = session()
    row = here.engine.ledger.clusters.named(name)
    if row is None:
        return  # whoever runs the cell says so
    used = _used.setdefault(here, {})
    before, used[name] = used.get(name, row.run_id), row.run_id
    own = here.runs.get(name)
    if before != row.run_id and (own is None or own.run_id != row.run_id):
        raise OtherCluster(
            f"{name} is another cluster than the one this notebook used: that one has ended, with its variables and files",
            hint="nothing was run; run the cell again to use the new one",
        )
