"""Names, labels and ids: what Google allows, and what nbprov reads back from them."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping

from nbprov.model.launches import Launch

OWNER = "nbprov-owner"
TOKEN = "nbprov-token"
PRINT = "nbprov-print"
"""A label with a hash of what was requested, so that a token that returns with another request is
detected."""
POWEROFF = "nbprov-poweroff"
DELETE = "delete"
"""The value of the poweroff label of a machine that is to be deleted when it powers itself off."""
LABEL = 63
_SPACE = uuid.UUID("6d1f9a34-8d3c-4a55-9b0e-5f3b7c2e8a10")
_ID = re.compile(r"([a-z]+-[a-z]+\d+-[a-z0-9]+)/([a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)", re.ASCII)


def short(text: str, length: int = 8) -> str:
    """Return a few hex digits that stand for a text in a name."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def clean(value: str) -> str:
    """Turn a text into a label value: at most 63 lower-case letters, digits, `-` and `_`.

    A changed value gets a hash, so that different texts have different values.

    Examples
    --------
    >>> clean("dev"), clean("Dev box"), len(clean("x" * 99))
    ('dev', 'dev-box-cd65e7f6', 63)
    """
    found = re.sub(r"[^a-z0-9_-]", "-", value.lower())
    if found == value and len(value) <= LABEL:
        return value
    return f"{found[: LABEL - 9]}-{short(value)}"


def clean_key(name: str) -> str:
    """Turn a text into a label name, which is like a value and begins with a letter."""
    found = clean(name)
    return found if found[:1].isalpha() else clean(f"x{name}")


def labels(launch: Launch, fingerprint: str) -> dict[str, str]:
    """Return all labels of a launch's machines: the spec's, overridden by ours."""
    found = {clean_key(name): clean(value) for name, value in launch.tags.items()}
    return {**found, OWNER: clean(launch.owner), TOKEN: launch.token, PRINT: fingerprint}


def base_name(launch: Launch) -> str:
    """Return the common beginning of the names of a launch's machines.

    It holds the cluster's name for people and the token for uniqueness.

    Examples
    --------
    >>> re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", "nbprov-dev-0123456789ab-0") is not None
    True
    """
    words = re.sub(r"[^a-z0-9]+", "-", launch.name.lower()).strip("-")[:24].rstrip("-") or "x"
    return f"nbprov-{words}-{launch.token[:12]}"


def names(launch: Launch) -> list[str]:
    """Return the machines' names by node.

    They are chosen by us, so that a repeated create meets the first one's machines. A replacement
    gets a name that no lost machine had.
    """
    base = base_name(launch) + (f"-r{launch.part}" if launch.part else "")
    return [f"{base}-{node}" for node in launch.numbers]


def node_of(name: str) -> int:
    """Return the node number in a machine's name; 0 if there is none."""
    found = re.search(r"-(\d{1,4})$", name)
    return int(found[1]) if found else 0


def request_id(token: str, *salt: str) -> str:
    """Return the UUID that makes a call idempotent at Google.

    It is the same for the same launch and request, and different for any other.
    """
    return str(uuid.uuid5(_SPACE, "\n".join((token, *salt))))


def instance_id(zone: str, name: str) -> str:
    """Return our id of a machine: its zone and its name."""
    return f"{zone}/{name}"


def parts(ids: str) -> tuple[str, str] | None:
    """Return the zone and the name in an id; None if it is not an id of this cloud.

    Examples
    --------
    >>> parts("us-central1-a/nbprov-dev-0123456789ab-0"), parts("i-000000000000")
    (('us-central1-a', 'nbprov-dev-0123456789ab-0'), None)
    """
    found = _ID.fullmatch(ids)
    return (found[1], found[2]) if found else None


def region_of(zone: str) -> str:
    """Return the region of a zone.

    Examples
    --------
    >>> region_of("us-central1-a")
    'us-central1'
    """
    return zone.rpartition("-")[0]


def last(url: object) -> str:
    """Return the last part of a Google resource address: the resource's name."""
    return str(url or "").rstrip("/").rpartition("/")[2]


def owner_tag(owner: str) -> str:
    """Return the network tag of all machines of an owner, at which the firewall rules aim."""
    return f"nbprov-{short(owner)}"


def is_owner_tag(tag: str) -> bool:
    """Whether a network tag is an owner's; users may put tags of their own on a machine.

    Examples
    --------
    >>> is_owner_tag(owner_tag("owner-1")), is_owner_tag("teamweb-12345678")
    (True, False)
    >>> is_owner_tag(launch_tag("0123456789abcdef"))
    False
    """
    return re.fullmatch(r"nbprov-[0-9a-f]{8}", tag) is not None


def launch_tag(token: str) -> str:
    """Return the network tag of one launch's machines."""
    return f"nbprov-{token[:12]}"


def fingerprint(wishes: Mapping[str, object]) -> str:
    """Hash what was requested of Google, without the start script and the deadlines."""
    return short(repr(sorted(wishes.items())), 12)
