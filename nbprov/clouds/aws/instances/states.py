"""Translation of EC2's descriptions of machines into the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from nbprov.clouds.aws import errors
from nbprov.clouds.aws.network.security_groups import SSH
from nbprov.clouds.base import LOGIN_LABEL, SSH_PORT_LABEL
from nbprov.model.clock import Instant
from nbprov.model.failures import Cause, Failure
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.places import Place

CLOUD = "aws"
LOGIN = "ubuntu"
"""The user of Ubuntu's images, and so of all images that nbprov chooses."""
NODE_TAG, KEY_TAG = "nbprov-node", "nbprov-key"
"""Tags of a machine that replaces a lost one: its node number, and the key of its create."""
POWERED_OFF = "Client.InstanceInitiatedShutdown"
ASKED_FOR = frozenset({"", POWERED_OFF, "Client.UserInitiatedShutdown"})
"""Reasons of machines that were ended on purpose."""
_TIME = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) GMT\)")
_STATES = {
    "pending": InstanceState.PENDING,
    "running": InstanceState.RUNNING,
    "stopping": InstanceState.STOPPING,
    "stopped": InstanceState.STOPPED,
    "shutting-down": InstanceState.ENDING,
    "terminated": InstanceState.GONE,
}


def state_of(row: Mapping[str, Any]) -> InstanceState:
    """Return the state of a machine; unknown states count as billed.

    Examples
    --------
    >>> state_of({"State": {"Name": "shutting-down"}}).value
    'ending'
    >>> state_of({"State": {"Name": "hibernating"}}).value
    'unknown'
    """
    return _STATES.get(str(row.get("State", {}).get("Name", "")), InstanceState.UNKNOWN)


def tags_of(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of anything that EC2 lists."""
    return {str(tag["Key"]): str(tag.get("Value", "")) for tag in row.get("Tags", [])}


def reason_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the code and the text of the reason for a machine's state; empty while it runs.

    `StateReason` is the newer field and begins with `Client.` or `Server.`; the older field
    contains the time.
    """
    told = row.get("StateReason") or {}
    code, words = str(told.get("Code", "")), str(told.get("Message", ""))
    if not words and state_of(row) not in (InstanceState.PENDING, InstanceState.RUNNING):
        words = str(row.get("StateTransitionReason", ""))
    return code, words


def stopped_at(row: Mapping[str, Any]) -> Instant:
    """Return when a machine was stopped or ended; 0 where EC2 does not tell.

    Examples
    --------
    >>> why = "User initiated (2026-07-18 13:27:28 GMT)"
    >>> stopped_at({"State": {"Name": "stopped"}, "StateTransitionReason": why})
    1784381248.0
    """
    told = _TIME.search(str(row.get("StateTransitionReason", "")))
    if told is None or state_of(row).is_billed:
        return 0.0
    return datetime.strptime(told[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()


def failure_of(row: Mapping[str, Any]) -> Failure | None:
    """Return why a machine ended unasked; None if it did not end, or somebody ended it."""
    code, words = reason_of(row)
    if state_of(row) not in (InstanceState.ENDING, InstanceState.GONE) or code in ASKED_FOR:
        return None
    failure = errors.of_state(code, words)
    return None if failure.cause is Cause.CANCELLED else failure


def instance_of(row: Mapping[str, Any], region: str, zone_id: str) -> Instance:
    """Translate a machine as EC2 describes it.

    Parameters
    ----------
    zone_id
        The id of its zone, which older answers leave out.
    """
    tags = tags_of(row)
    code, words = reason_of(row)
    login, port = tags.get(LOGIN_LABEL, ""), tags.get(SSH_PORT_LABEL, "")
    host = str(row.get("PublicIpAddress") or "") or str(row.get("Ipv6Address") or "")
    launched = row.get("LaunchTime")
    return Instance(
        cloud=CLOUD,
        id=str(row["InstanceId"]),
        token=tags.get("nbprov-token", ""),
        owner=tags.get("nbprov-owner", ""),
        place=Place(CLOUD, region, zone_id),
        instance_type=str(row.get("InstanceType", "")),
        state=state_of(row),
        host=host,
        port=ssh_port(port) if host else 0,
        private_host=str(row.get("PrivateIpAddress") or ""),
        user=login or LOGIN,
        node=node_of(row, tags),
        name=tags.get("nbprov-name", "") or tags.get("Name", ""),
        spot=row.get("InstanceLifecycle") == "spot",
        launched_at=launched.timestamp() if isinstance(launched, datetime) else 0.0,
        stopped_at=stopped_at(row),
        reason=words if code in words else f"{code}: {words}" if words else code,
        failure=failure_of(row),
        by_itself=code == POWERED_OFF,
    )


def node_of(row: Mapping[str, Any], tags: Mapping[str, str]) -> int:
    """Return the node number of a machine.

    Its tag if it replaced another one, else its index in the create.

    Examples
    --------
    >>> node_of({"AmiLaunchIndex": 2}, {}), node_of({"AmiLaunchIndex": 0}, {"nbprov-node": "3"})
    (2, 3)
    """
    said = tags.get(NODE_TAG, "")
    return (
        int(said)
        if said.isascii() and said.isdecimal() and len(said) < 5
        else int(row.get("AmiLaunchIndex") or 0)
    )


def ssh_port(text: str) -> int:
    """Return the port of sshd that a label names; 22 if it names no valid port."""
    return int(text) if text.isdecimal() and 1 <= int(text) <= 65535 else SSH
