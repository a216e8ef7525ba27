"""Translation of Google's descriptions of machines into the model."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nbprov.clouds.base import LOGIN_LABEL, SSH_PORT_LABEL
from nbprov.clouds.gcp import errors, labels
from nbprov.clouds.gcp.catalog.machine_types import DEVICES
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.places import Place

NAME = "gcp"
LOGIN = "nbprov"
"""The user that logs in; the start script creates it."""
STATES: Mapping[str, InstanceState] = {
    "PENDING": InstanceState.PENDING,
    "PROVISIONING": InstanceState.PENDING,
    "STAGING": InstanceState.PENDING,
    "RUNNING": InstanceState.RUNNING,
    "REPAIRING": InstanceState.PENDING,
    "PENDING_STOP": InstanceState.STOPPING,
    "STOPPING": InstanceState.STOPPING,
    "SUSPENDING": InstanceState.STOPPING,
    "SUSPENDED": InstanceState.STOPPED,
    "STOPPED": InstanceState.STOPPED,
    "TERMINATED": InstanceState.STOPPED,
    "DEPROVISIONING": InstanceState.ENDING,
}
"""States by Google's status (Discovery document, `Instance.status`). TERMINATED means stopped: the
machine and its disk are kept and may start again."""
REASONS = {
    "REPAIRING": "Google repairs the host it runs on",
    "SUSPENDED": "it was suspended",
    "TERMINATED": "it is stopped; its disk is kept and billed",
    "STOPPED": "it is stopped; its disk is kept and billed",
}
_NAMES = {device.api_name: device.name for device in DEVICES}


def instance(
    row: Mapping[str, Any],
    owner: str,
    *,
    ending: bool = False,
    reason: str = "",
    by_itself: bool = False,
) -> Instance:
    """Translate a machine of the listing.

    Parameters
    ----------
    ending
        nbprov asked it to end, so Google's STOPPING means that it is ending.
    reason
        Why it is in its state, if more is known than its status.
    by_itself
        It powered itself off.
    """
    tags = row.get("labels") or {}
    zone, name = labels.last(row.get("zone")), str(row["name"])
    status = str(row.get("status") or "")
    state = STATES.get(status, InstanceState.UNKNOWN)
    if ending and state is not InstanceState.PENDING:
        state = InstanceState.ENDING
    link: Mapping[str, Any] = next(iter(row.get("networkInterfaces") or ()), {})
    outside = next((str(a["natIP"]) for a in link.get("accessConfigs") or () if a.get("natIP")), "")
    said = str(tags.get(SSH_PORT_LABEL) or "")
    port = int(said) if said.isdecimal() else 22
    shown = state is InstanceState.RUNNING and bool(outside)
    spot = (row.get("scheduling") or {}).get("provisioningModel") == "SPOT"
    told = str(row.get("statusMessage") or "")
    was_taken = not (ending or by_itself or state.is_billed)
    return Instance(
        cloud=NAME,
        id=labels.instance_id(zone, name),
        token=str(tags.get(labels.TOKEN) or ""),
        owner=owner,
        place=Place(NAME, labels.region_of(zone), zone),
        instance_type=type_of(row),
        state=state,
        host=outside if shown else "",
        port=port if shown else 0,
        private_host=str(link.get("networkIP") or ""),
        user=str(tags.get(LOGIN_LABEL) or LOGIN),
        node=labels.node_of(name),
        name=str(tags.get("nbprov-name") or name),
        spot=spot,
        launched_at=instant(row.get("creationTimestamp")),
        stopped_at=0.0 if state.is_billed else instant(row.get("lastStopTimestamp")),
        reason=reason
        or told
        or REASONS.get(status, "" if status in STATES else f"its status at Google is {status}"),
        failure=errors.of_state(told, spot=spot) if was_taken and told else None,
        by_itself=by_itself,
    )


def type_of(row: Mapping[str, Any]) -> str:
    """Return the machine type as in the catalogue: with the accelerators attached to its host.

    Examples
    --------
    >>> device = {"acceleratorType": "…/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 1}
    >>> host = "zones/z/machineTypes/n1-standard-4"
    >>> type_of({"machineType": host, "guestAccelerators": [device]})
    'n1-standard-4+1xT4'
    """
    host = labels.last(row.get("machineType"))
    attached = next(iter(row.get("guestAccelerators") or ()), None)
    if attached is None or not host.startswith("n1-"):
        return host
    device = labels.last(attached.get("acceleratorType"))
    return f"{host}+{int(attached.get('acceleratorCount') or 1)}x{_NAMES.get(device, device)}"


def instant(text: object) -> float:
    """Return one of Google's times as seconds since the epoch; 0 if there is none."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0
