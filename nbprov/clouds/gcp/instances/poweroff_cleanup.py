"""Machines that powered themselves off. Google stops them and keeps their disks, whatever was wanted; the rest is ours.

On EC2 a machine can be told to end when it powers itself off. On Compute Engine it cannot: `instanceTerminationAction` is for preemption and
`maxRunDuration` alone, and a machine that is to delete itself would need a service account, which machines of nbprov do not have. So a machine
whose launch said "terminate" bears the label `nbprov-poweroff=delete`, and whoever lists it next ends it, once Google's own record says that
the guest did it: an operation `compute.instances.guestTerminate` since its last start, and no stop that was asked for. One that a person or
Google stopped, or of which nothing is recorded, stays.
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
"""What Google has not recorded of a stop by then it never will: it is not asked again at every list. (It keeps operations for weeks, not for ever.)"""
PREEMPTED = "compute.instances.preempted"
STOPPED = ("TERMINATED", "STOPPED")
GOING = "STOPPING"
REASONS = {
    GUEST: "it powered itself off",
    PREEMPTED: "Google took the spot machine back",
    "compute.instances.hostError": "the computer it was on failed",
    "compute.instances.terminateOnHostMaintenance": "Google maintains the computer it was on",
    "stop": "it was stopped",
    "suspend": "it was suspended",
}
"""Operations that stop a machine, and what a person is told of them; the first that is there is the reason."""


class PoweroffCleanup:
    """Why machines are stopped, by machine and stop; asked once each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str, str], frozenset[str]] = {}

    def kinds(self, compute: Compute, deadline: Deadline, row: Mapping[str, Any]) -> frozenset[str]:
        """The operations that stopped a machine since its last start. Empty where nothing is recorded or Google cannot say now: asked again then."""
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
    """Why a machine is stopped, for a person; empty where it is not known."""
    return next(
        (
            words
            for kind, words in REASONS.items()
            if kind in kinds and (kind != GUEST or kinds == {GUEST})
        ),
        "",
    )


def ends_now(row: Mapping[str, Any], kinds: frozenset[str]) -> bool:
    """Whether a machine powered itself off, by nobody's wish but its own, and was to end with that."""
    return kinds == {GUEST} and (row.get("labels") or {}).get(labels.POWEROFF) == labels.DELETE


def is_spot(row: Mapping[str, Any]) -> bool:
    """Whether Google may take it back."""
    return (row.get("scheduling") or {}).get("provisioningModel") == "SPOT"


def is_taken_back(row: Mapping[str, Any], kinds: frozenset[str]) -> bool:
    """Whether Google is taking a spot machine back for good: what it calls STOPPING then ends with the machine gone."""
    deletes = (row.get("scheduling") or {}).get("instanceTerminationAction") == "DELETE"
    return row.get("status") == GOING and PREEMPTED in kinds and deletes
