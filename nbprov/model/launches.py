"""What is sent to a cloud and what it returns: launches, operations and instances."""

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
    """Everything that one create call needs.

    Attributes
    ----------
    token
        The cloud's idempotency key where it has one; it also stands in a tag or the name
        everywhere. 32 lower-case hex digits.
    owner
        This ledger's id. Only machines that bear it are ever touched.
    name
        The cluster's name, for people.
    user_data_template, template_values
        The start script with `@@name@@` markers, and the values for them. Only the template is
        stored, because the values hold key material.
    public_key
        OpenSSH line of the cluster's client key.
    answer_by
        The cloud must not begin the create after this instant.
    image
        The image for this place; empty for the cloud's usual image.
    terminate_after
        Seconds after which the cloud itself ends the machine, if its capabilities include that.
    disk_tier
        `low` to `ultra`, `best`, or empty for the cloud's usual disk.
    network_best, accelerator_args
        As in `Request`.
    nodes
        Numbers of the requested nodes; empty for all nodes of the cluster, from 0.
    part
        0 for the create that makes a cluster; else the number of the replacement under this token.
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
    template_values: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
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
        """The idempotency key of this create: 32 lower-case hex digits, always the same.

        It is the token, and for a replacement a value of its own, so that the cloud never returns
        the machines of the first create instead.
        """
        return (
            self.token
            if not self.part
            else hashlib.sha256(f"{self.token}/{self.part}".encode()).hexdigest()[:32]
        )

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the nodes that are made, in order."""
        return self.nodes or tuple(range(self.count))

    def user_data(self) -> str:
        """The start script with its values. It is never stored and never logged."""
        text = self.user_data_template
        for name, value in self.template_values.items():
            text = text.replace(f"@@{name}@@", value)
        return text


@dataclass(frozen=True, slots=True)
class CreateOperation:
    """A create that a cloud has taken note of, in a form that can be stored before it is polled.

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
    """The cloud made the machines: all of them, or it would have refused."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The cloud did not make the machines."""

    failure: Failure


PollResult = Pending | Accepted | Refused


class InstanceState(StrEnum):
    """The states of a machine in a cloud's listing.

    Only `GONE` in a listing, or absence from it, ends the bill.
    """

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    ENDING = "ending"
    GONE = "gone"
    UNKNOWN = "unknown"

    @property
    def is_billed(self) -> bool:
        """Whether the compute price runs. An unknown state counts as billed until a listing says
        otherwise.
        """
        return self in (InstanceState.PENDING, InstanceState.RUNNING, InstanceState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Instance:
    """One machine as its cloud lists it.

    Attributes
    ----------
    token, owner
        Read back from the tag or the name.
    host, port
        Where sshd answers. Both may change at every start; empty and 0 until known.
    private_host
        The address that the cluster's other nodes use.
    user
        The login name; empty if the machine belongs to the user of the notebook, as on `local`.
    node
        0 is the head node.
    stopped_at
        When it was last stopped or ended, as the cloud tells; 0 while it is on the bill, and where
        the cloud does not tell. The kernel may look much later.
    reason
        Why it is in this state, in the cloud's words.
    hourly
        What the cloud charges an hour, if it says so. It is booked, and compared with what was
        agreed to.
    failure
        Why it ended without us, if the cloud says so and the adapter knows the cause: capacity that
        was gone after all, or a spot machine taken back.
    by_itself
        It powered itself off, or its own timer ended it: a guard or a person on the machine wanted
        that, and the cloud did not take it away.
    mapped
        (port, host, outside port) of each open port that the cloud maps to another number; empty if
        ports keep their numbers at `host`.
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
    stopped_at: Instant = 0.0
    reason: str = ""
    hourly: Micros | None = None
    failure: Failure | None = None
    by_itself: bool = False
    mapped: tuple[tuple[int, str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SideObject:
    """An object that a launch leaves beside its machines: a disk, an address, a security group, a
    key.

    Attributes
    ----------
    kind
        One word of the cloud's: `volume`, `address`, `security-group`, `firewall`, `key` or
        `spot-request`.
    token
        The launch it was made for; empty if it serves several.
    shared
        It serves all launches of this owner, outlives clusters and costs nothing.
    """

    cloud: str
    region: str
    kind: str
    id: str
    token: str = ""
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    """A price that was asked again just before a create."""

    hourly: Micros
    source: str
    as_of: Instant


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one cheap authenticated call found out about a cloud.

    Attributes
    ----------
    credential
        Which credential was used, masked.
    account
        Whose account it is.
    problem
        Why the cloud is not enabled; None if it is.
    details
        Balance, quota and the like, as short lines.
    zone_names
        (zone id, zone name, region) where the account has its own names for zones, as on AWS.
    """

    cloud: str
    enabled: bool
    account: str = ""
    credential: str = ""
    problem: Failure | None = None
    details: tuple[str, ...] = ()
    zone_names: tuple[tuple[str, str, str], ...] = ()
