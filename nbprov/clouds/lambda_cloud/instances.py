"""Translation of Lambda's machines, tags and firewall rules into the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nbprov.clouds.base import LOGIN_LABEL, SSH_PORT_LABEL
from nbprov.clouds.pricing.region_fetch import expect
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.places import Place

from . import images
from .stock import hourly

SSH_PORT = 22
MOST_KEY, MOST_VALUE, MOST_NAME = 55, 128, 64
"""The most characters of a tag's key, its value and a machine's name (RequestedTagEntry,
InstanceLaunchRequest of the OpenAPI document)."""
RESERVED = "lambda-ai-"
"""Prefix of Lambda's own tags."""
_KEY = re.compile(r"[a-z][a-z0-9:-]+")

STATES = {
    "booting": InstanceState.PENDING,
    "active": InstanceState.RUNNING,
    # It is billed, and Lambda does not say whether it will come back.
    "unhealthy": InstanceState.UNKNOWN,
    "terminating": InstanceState.ENDING,
    "terminated": InstanceState.GONE,
    # Lambda took it back; it is gone once the list lacks it.
    "preempted": InstanceState.ENDING,
}
"""States by InstanceStatus of the OpenAPI document; any other status is `unknown`."""


def read(cloud: str, data: Any) -> list[Instance]:
    """Read the answer of `GET /instances`: all of it or an error, so that no machine is overlooked.

    Raises
    ------
    CloudError
        `transient` if an entry does not have the documented shape.
    """
    return [
        _instance(cloud, expect(entry, dict, "a machine of Lambda's"))
        for entry in expect(data, list, "Lambda's list of machines")
    ]


def _instance(cloud: str, entry: Mapping[str, Any]) -> Instance:
    said = str(entry.get("status"))
    tagged = {
        str(tag.get("key")): str(tag.get("value"))
        for tag in entry.get("tags") or ()
        if isinstance(tag, dict)
    }
    sort = entry.get("instance_type") if isinstance(entry.get("instance_type"), dict) else {}
    region = entry.get("region") if isinstance(entry.get("region"), dict) else {}
    type_name = str(sort.get("name") or "") if sort else ""
    host = str(entry.get("ip") or "")
    port = tagged.get(SSH_PORT_LABEL, "")
    return Instance(
        cloud=cloud,
        id=expect(entry.get("id"), str, "the id of a machine"),
        token=tagged.get("nbprov-token", ""),
        owner=tagged.get("nbprov-owner", ""),
        place=Place(cloud, str(region.get("name") or "") if region else ""),
        instance_type=type_name,
        state=STATES.get(said, InstanceState.UNKNOWN),
        host=host,
        port=(int(port) if port.isdecimal() else SSH_PORT) if host else 0,
        private_host=str(entry.get("private_ip") or ""),
        user=tagged.get(LOGIN_LABEL) or images.LOGIN,
        name=str(entry.get("name") or ""),
        reason="" if said in ("booting", "active") else f"Lambda says: {said}",
        hourly=hourly({type_name: {"instance_type": sort}}, type_name),
    )


def tags(wanted: Mapping[str, str], *, exact: Sequence[str] = ()) -> list[dict[str, str]]:
    """Return a launch's tags as Lambda accepts them.

    Keys are in lower case with dashes for other characters; keys and values are cut to their
    length.

    Parameters
    ----------
    exact
        Keys that nbprov reads back, whose values are never cut.

    Raises
    ------
    CloudError
        `bad_request` if the value of one of those is too long.

    Examples
    --------
    >>> tags({"Team/ML": "vision", "1st": "x"})
    [{'key': 'team-ml', 'value': 'vision'}, {'key': 'x1st', 'value': 'x'}]
    """
    made: dict[str, str] = {}
    for name, value in wanted.items():
        if name in exact and len(value) > MOST_VALUE:
            raise CloudError(
                Failure(
                    Cause.BAD_REQUEST,
                    f"the label {name} is longer than {MOST_VALUE} characters",
                    "label",
                )
            )
        # A label that becomes equal to one of nbprov's keys once it is cleaned does not replace it.
        if (key := clean_key(name)) not in made or name in exact:
            made[key] = value[:MOST_VALUE]
    return [{"key": key, "value": value} for key, value in made.items()]


def clean_key(name: str) -> str:
    """Turn a label's name into a tag key."""
    key = re.sub(r"[^a-z0-9:-]", "-", name.lower())
    key = key if key[:1].isalpha() and not key.startswith(RESERVED) else f"x{key}"
    return (key if _KEY.fullmatch(key) else f"{key}x")[:MOST_KEY]


def clean_name(name: str) -> str:
    """Turn a cluster's name into a machine's: one line of at most 64 characters."""
    return " ".join(name.split())[:MOST_NAME]


def ssh_rule(rules: Any) -> str:
    """Say who has access to port 22 according to the account's inbound rules."""
    open_to = (
        [str(rule.get("source_network")) for rule in rules if _lets_ssh_in(rule)]
        if isinstance(rules, list)
        else []
    )
    if not open_to:
        return (
            "no inbound rule allows ssh (22/tcp): add one at cloud.lambda.ai, Firewall, or "
            "no machine can be reached"
        )
    return f"ssh (22/tcp) is open to {', '.join(dict.fromkeys(open_to))}"


def _lets_ssh_in(rule: Any) -> bool:
    if not isinstance(rule, dict) or rule.get("protocol") not in ("tcp", "all"):
        return False
    ports = rule.get("port_range")
    return rule["protocol"] == "all" or (
        isinstance(ports, list) and len(ports) == 2 and ports[0] <= SSH_PORT <= ports[1]
    )
