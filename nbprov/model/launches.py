"""What goes to a cloud and what comes back: launches, operations, instances."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from .clock import Instant, Seconds
from .failures import Failure
from .money import Micros
from .offers import Candidate
from .places import Place


class OnShutdown(StrEnum):
    """What the cloud does when the machine powers itself off."""

    TERMINATE = "terminate"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything one create needs.

    Attributes
    ----------
    token
        The idempotency key where the cloud has one, and in a tag or the name everywhere. 32 lower-case hex digits.
    owner
        This ledger's id; only machines that bear it are ever touched.
    name
        The cluster's name, for people.
    user_data_template, fills
        The start script with `@@name@@` markers and what fills them. Only the template is stored; fills carry key material.
    public_key
        OpenSSH line of the cluster's client key.
    answer_by
        The cloud must not begin the create after this instant.
    image
        As the spec names it for this place; empty for the cloud's usual image.
    terminate_after
        Seconds after which the cloud itself should end the machine, where its capabilities say it can.
    disk_tier
        `low` to `ultra`, `best`, or empty for the cloud's usual disk.
    network_best, accelerator_args
        As in `Request`.
    nodes
        The numbers of the machines that are asked for; empty for all of a cluster, from 0 on.
    part
        0 for the create that makes a cluster, else which replacement of a lost machine under the same token it is.
    """

    token: str
    owner: str
    run_id: str
    name: str
    candidate: Candidate
    count: int
    disk_gb: int
    image: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    user_data_template: str = ""
    fills: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    public_key: str = ""
    ports: tuple[tuple[int, int], ...] = ()
    on_shutdown: OnShutdown = OnShutdown.TERMINATE
    terminate_after: Seconds | None = None
    answer_by: Instant = 0.0
    disk_tier: str = ""
    network_best: bool = False
    accelerator_args: tuple[tuple[str, str], ...] = ()
    nodes: tuple[int, ...] = ()
    part: int = 0

    @property
    def key(self) -> str:
        """What makes this create idempotent: the token, and of a replacement something of its own, so that it never gives the first create's machines.

        32 lower-case hex digits, the same whenever it is asked for.
        """
        return (
            self.token
            if not self.part
            else hashlib.sha256(f"{self.token}/{self.part}".encode()).hexdigest()[:32]
        )

    @property
    def numbers(self) -> tuple[int, ...]:
        """The node numbers of what is made, in order."""
        return self.nodes or tuple(range(self.count))

    def user_data(self) -> str:
        """The start script, filled in. Never stored, never logged."""
        text = self.user_data_template
        for name, value in self.fills.items():
            text = text.replace(f"@@{name}@@", value)
        return text


@dataclass(frozen=True, slots=True)
class Operation:
    """A create that a cloud took note of, in a form that can be stored before it is followed.

    Attributes
    ----------
    data
        What the adapter needs to poll it, as text.
    """

    cloud: str
    token: str
    id: str
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pending:
    """The cloud has not decided yet."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The cloud made the machines; all of them, or it would have refused."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The cloud did not make the machines."""

    failure: Failure


PollResult = Pending | Accepted | Refused


class InstanceState(StrEnum):
    """The life of a machine as a cloud's listing tells it. Only `GONE` in a listing, or absence from it, ends the bill."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    ENDING = "ending"
    GONE = "gone"
    UNKNOWN = "unknown"

    @property
    def is_billed(self) -> bool:
        """Whether the compute price runs. An unknown state counts: a bill is assumed until a listing says otherwise."""
        return self in (InstanceState.PENDING, InstanceState.RUNNING, InstanceState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Instance:
    """One machine as its cloud lists it.

    Attributes
    ----------
    token, owner
        Read back from the tag or the name.
    host, port
        Where sshd answers; may change at every start; empty and 0 until known.
    private_host
        The address other nodes of the cluster use.
    user
        Who logs in there; empty where the machine belongs to whoever runs the notebook, as on `local`.
    node
        0 is the head.
    reason
        Why it is in this state, in the cloud's words.
    hourly
        What the cloud charges, where it says so.
    failure
        Why it ended by itself, where its cloud says so and the adapter can name the cause: capacity that was gone after all, a spot machine taken back.
    by_itself
        It powered itself off, or its own timer ended it: a guard wanted that, or a person on it, and nobody took it away.
    mapped
        (port, host, number outside) of each open port, where the cloud gives them other numbers. Empty where a port keeps its own at `host`.
    """

    cloud: str
    id: str
    token: str
    owner: str
    place: Place
    instance_type: str
    state: InstanceState
    host: str = ""
    port: int = 0
    private_host: str = ""
    user: str = ""
    node: int = 0
    name: str = ""
    spot: bool = False
    launched_at: Instant = 0.0
    reason: str = ""
    hourly: Micros | None = None
    failure: Failure | None = None
    by_itself: bool = False
    mapped: tuple[tuple[int, str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SideObject:
    """Something a launch leaves beside its machines: a disk, an address, a security group, a key.

    Attributes
    ----------
    kind
        In one word of the cloud's: `volume`, `address`, `security-group`, `firewall`, `key`, `spot-request`.
    token
        The launch it was made for; empty where it serves many.
    shared
        It serves all launches of this owner and outlives clusters; it costs nothing.
    """

    cloud: str
    region: str
    kind: str
    id: str
    token: str = ""
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    """A price asked again just before a create."""

    hourly: Micros
    source: str
    as_of: Instant


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one cheap authenticated call found out about a cloud.

    Attributes
    ----------
    credential
        Which source was used, masked.
    account
        Whose account it is.
    problem
        Why the cloud is not enabled; None where it is.
    details
        Balance, quota and such, as short lines.
    zone_names
        (zone id, zone name, region) where this account has names of its own for zones, as on AWS.
    """

    cloud: str
    enabled: bool
    account: str = ""
    credential: str = ""
    problem: Failure | None = None
    details: tuple[str, ...] = ()
    zone_names: tuple[tuple[str, str, str], ...] = ()
