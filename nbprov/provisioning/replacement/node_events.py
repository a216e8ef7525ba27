"""Events about lost machines of a cluster and the machines that replace them."""

from __future__ import annotations

import logging
from typing import Any

from nbprov.model.events import NODE_EVENTS, EventKind
from nbprov.provisioning.ledger import ClusterRow, Ledger

log = logging.getLogger("nbprov.lifecycle")


def note_once(ledger: Ledger, row: ClusterRow, kind: EventKind, text: str, **data: Any) -> bool:
    """Write an event, unless the last one about a node is of the same kind with the same data.

    Returns whether it was written.
    """
    with ledger.together():
        events = ledger.events.of_kinds(row.run_id, NODE_EVENTS)
        if events and (events[-1].kind, events[-1].data) == (kind, data):
            return False
        ledger.events.add(row.run_id, kind, text, row.token, **data)
    log.warning("%s: %s", row.name, text)
    return True
