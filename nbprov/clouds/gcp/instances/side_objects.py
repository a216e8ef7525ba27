"""Disks left by a failed create, or by a machine that was deleted without its disk."""

from __future__ import annotations

from nbprov.clouds.gcp import labels
from nbprov.clouds.gcp.account.clients import Compute, Deadline
from nbprov.clouds.gcp.instances.label_search import scopes
from nbprov.model.failures import CloudError
from nbprov.model.launches import SideObject

KIND = "disk"


def disks(compute: Compute, deadline: Deadline, owner: str) -> list[SideObject]:
    """Return the owner's disks that no machine uses, in all zones."""
    found = []
    value = labels.clean(owner)
    for scope in scopes(compute, deadline, "Disks", labels.OWNER, value):
        for row in scope.get("disks") or ():
            tags = row.get("labels") or {}
            if tags.get(labels.OWNER) != value or row.get("users"):
                continue
            zone = labels.last(row.get("zone"))
            token = str(tags.get(labels.TOKEN) or "")
            found.append(
                SideObject(
                    "gcp",
                    labels.region_of(zone),
                    KIND,
                    labels.instance_id(zone, str(row["name"])),
                    token,
                )
            )
    return found


def remove_disk(compute: Compute, deadline: Deadline, disk: str) -> bool:
    """Delete a disk. Returns False if a machine still uses it; one that is gone is skipped."""
    place = labels.parts(disk)
    if place is None:
        return True
    zone, name = place
    try:
        compute.call("Disks", "delete_unary", deadline, zone=zone, disk=name)
    except CloudError as error:
        code = error.failure.code
        if code in (
            "resourceInUseByAnotherResource",
            "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
            "resourceNotReady",
        ):
            return False
        if code not in ("notFound", "RESOURCE_NOT_FOUND", "404"):
            raise
    return True
