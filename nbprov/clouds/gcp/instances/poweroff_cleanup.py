"""Deletion of machines that powered themselves off and were to end with that.

An EC2 machine can be told to terminate when it powers itself off. On Compute Engine it cannot:
Google stops it and keeps its disk. `instanceTerminationAction` is only for preemption and
`maxRunDuration`, and a machine that deletes itself would need a service account, which nbprov's
machines do not have. So a machine whose launch said "terminate" has the label
`nbprov-poweroff=delete`. Whoever lists it next deletes it, once Google's own record shows that the
guest powered it off: an operation `compute.instances.guestTerminate` since its last start, and no
stop that was requested. A machine that a person or Google stopped, or without any record, stays.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from nbprov.clouds.gcp import labels
from nbprov.clouds.gcp.account.clients import Compute, Deadline
from nbprov.clouds.gcp.instances.listing import instant
from nbprov.model.clock import Seconds
from nbprov.model.failures import CloudError

GUEST = "compute.instances.guestTerminate"
RECORDED_SECONDS: Seconds = 3600.0
"""After this time Google will record nothing more about a stop, so it is not asked again at every
listing. (It keeps operations for weeks, not for ever.)"""
PREEMPTED = "compute.instances.preempted"
STOPPED = ("TERMINATED", "STOPPED")
GOING = "STOPPING"
REASONS = {
    GUEST: "it powered itself off",
    PREEMPTED: "Google took the spot machine back",
    "compute.instances.hostError": "the host it ran on failed",
    "compute.instances.terminateOnHostMaintenance": "Google maintains the host it ran on",
    "stop": "it was stopped",
    "suspend": "it was suspended",
}
"""Operations that stop a machine, with the reason shown to people; the first one found counts."""


class PoweroffCleanup:
    """Finds out why machines are stopped; each stop is looked up once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str, str], frozenset[str]] = {}

    def kinds(self, compute: Compute, deadline: Deadline, row: Mapping[str, Any]) -> frozenset[str]:
        """Return the operations that stopped a machine since its last start.

        Empty if nothing is recorded or Google cannot tell now; then it is asked again.
        """
        if row.get("status") not in STOPPED and not (row.get("status") == GOING and is_spot(row)):
            return frozenset()
        key = (
            str(row.get("id")),
            str(row.get("lastStartTimestamp") or ""),
            str(row.get("lastStopTimestamp") or ""),
        )
        with self._lock:
            if key in self._known:
                return self._known[key]
        try:
            found = self._asked(compute, deadline, row)
        except CloudError:
            return frozenset()
        if found or time.time() - instant(row.get("lastStopTimestamp")) > RECORDED_SECONDS:
            with self._lock:
                self._known[key] = found
        return found

    @staticmethod
    def _asked(compute: Compute, deadline: Deadline, row: Mapping[str, Any]) -> frozenset[str]:
        zone, name = labels.last(row.get("zone")), str(row["name"])
        since = instant(row.get("lastStartTimestamp") or row.get("creationTimestamp"))
        found = set()
        for page in compute.pages(
            "ZoneOperations", "list", deadline, zone=zone, filter=f"targetId = {row['id']}"
        ):
            for operation in page.get("items") or ():
                kind = str(operation.get("operationType") or "")
                when = instant(operation.get("startTime") or operation.get("insertTime"))
                if (
                    kind in REASONS
                    and labels.last(operation.get("targetLink")) == name
                    and when >= since
                ):
                    found.add(kind)
        return frozenset(found)


def reason_of(kinds: frozenset[str]) -> str:
    """Say why a machine is stopped; empty if that is not known."""
    return next(
        (
            words
            for kind, words in REASONS.items()
            if kind in kinds and (kind != GUEST or kinds == {GUEST})
        ),
        "",
    )


def ends_now(row: Mapping[str, Any], kinds: frozenset[str]) -> bool:
    """Whether a machine powered itself off, unasked, and was to be deleted with that."""
    return kinds == {GUEST} and (row.get("labels") or {}).get(labels.POWEROFF) == labels.DELETE


def is_spot(row: Mapping[str, Any]) -> bool:
    """Whether Google may preempt the machine."""
    return (row.get("scheduling") or {}).get("provisioningModel") == "SPOT"


def is_taken_back(row: Mapping[str, Any], kinds: frozenset[str]) -> bool:
    """Whether Google is preempting a spot machine: its STOPPING then ends with the machine gone."""
    deletes = (row.get("scheduling") or {}).get("instanceTerminationAction") == "DELETE"
    return row.get("status") == GOING and PREEMPTED in kinds and deletes
