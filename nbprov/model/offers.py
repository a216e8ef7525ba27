"""Offers (what a cloud sells), candidates (offers that satisfy a request), and plans of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from .clock import Instant
from .money import Micros, format_usd
from .places import Market, Place
from .resources import Request
from .spec import Spec
from .stock import Pool, Stock, StockLevel

MOVED_SHARE = 0.5
"""A price that changed by more than this share of the one before counts as moved.

List prices of one machine changed by 44 % at most in the cuts that clouds announced.
"""


def is_moved(price: Micros, before: Micros) -> bool:
    """Whether a price differs by more than half from the one before.

    Examples
    --------
    >>> is_moved(4_420_000, 88_490_000), is_moved(55_000_000, 98_320_000)
    (True, False)
    """
    return abs(price - before) > before * MOVED_SHARE


def moved_words(moved_from: Micros, hourly: Micros) -> str:
    """Say why a price is in doubt, by the price before; empty for one that is not.

    Examples
    --------
    >>> moved_words(2_000_000, 500_000), moved_words(2_000_000, 2_000_000)
    ('was $2.00/h', 'of other hardware than before')
    """
    if not moved_from:
        return ""
    if not is_moved(hourly, moved_from):
        return "of other hardware than before"
    return f"was {format_usd(moved_from)}/h"


SIMULATED = "simulated"
"""The source of prices that nobody pays."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One purchasable row in one market at one price.

    Attributes
    ----------
    cloud, region, zone
        Where it is; the zone is empty if any zone of the region will do.
    instance_type
        The cloud's own name of the machine.
    accelerator, accelerator_count, accelerator_memory_gib
        Empty, 0 and None if the machine has none; the memory is that of one device.
    vcpus, memory_gib
        None if the source does not say.
    arch
        The architecture of the processor; empty if the source does not say.
    hourly
        Price of one node per hour.
    quota_family
        The group of types that the cloud counts against one limit; empty if it has none.
    source, as_of
        Where the price comes from, and its date (`YYYY-MM-DD`).
    moved_from
        The price before, if the price in the list moved by more than half or its type has other
        hardware than before; else 0. Such an offer is bought only if its cloud confirms the price,
        or the user accepted it.
    """

    cloud: str
    region: str
    zone: str
    instance_type: str
    accelerator: str
    accelerator_count: float
    vcpus: float | None
    memory_gib: float | None
    market: Market
    hourly: Micros
    quota_family: str = ""
    accelerator_memory_gib: float | None = None
    arch: str = ""
    source: str = ""
    as_of: str = ""
    moved_from: Micros = 0

    @property
    def is_simulated(self) -> bool:
        """Whether nobody pays the price: it is one of a cloud that simulates its machines."""
        return self.source == SIMULATED

    @property
    def moved_words(self) -> str:
        """Why the price is in doubt, such as the price before; else empty."""
        return moved_words(self.moved_from, self.hourly)

    @property
    def place(self) -> Place:
        """Where the offer is."""
        return Place(self.cloud, self.region, self.zone)

    @property
    def pool(self) -> Pool:
        """The pool of machines that the offer is taken from."""
        return Pool(self.cloud, self.region, self.zone, self.instance_type, self.market.value)

    @property
    def gpus(self) -> str:
        """The accelerators as people write them, `A100:8`; a dash if there is none."""
        return f"{self.accelerator}:{self.accelerator_count:g}" if self.accelerator else "–"

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What distinguishes this offer from every other, apart from the price."""
        return (self.cloud, self.region, self.zone, self.instance_type, self.market.value)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An offer that satisfies a request, for one account and node count.

    Attributes
    ----------
    rank
        Its place in the plan; 0 is tried first.
    count
        Number of nodes: all are made, or none.
    account
        The account that it would be bought with.
    success
        Probability that an attempt is accepted, 0 to 1; None if nothing is known.
    standing
        Why it has this rank, in a few words; its chance apart.
    stock
        What its cloud reported about its stock just before the plan; None if it reported nothing.
        It is not stored.
    """

    offer: Offer
    request: Request
    rank: int
    count: int = 1
    account: str = ""
    success: float | None = None
    standing: str = ""
    stock: Stock | None = field(default=None, compare=False)

    @property
    def chance(self) -> str:
        """Its probability of success in words; empty if nothing is known."""
        return "" if self.success is None else f"{self.success:.0%} likely"

    @property
    def why(self) -> str:
        """Why it has this rank, with its chance."""
        return ", ".join(words for words in (self.standing, self.chance) if words)

    @property
    def hourly(self) -> Micros:
        """Price of the whole cluster per hour."""
        return self.offer.hourly * self.count

    @property
    def key(self) -> tuple[str, ...]:
        """What distinguishes it from every other candidate of its spec."""
        return (*self.offer.key, str(self.request.index))

    @property
    def is_sold_out(self) -> bool:
        """Whether its cloud just reported that there is none left."""
        return self.stock is not None and self.stock.level is StockLevel.NONE


class RuleKind(StrEnum):
    """Why a rule drops offers."""

    PLACE = "place"
    NEEDLESS_GPU = "needless-gpu"
    PRICE = "price"
    DISABLED = "disabled"
    SILENT = "silent"
    UNNAMED = "unnamed"
    BLOCKED = "blocked"
    MULTI_NODE = "multi-node"
    SPOT = "spot"
    DOCKER = "docker"
    MACHINE_IMAGE = "machine-image"
    IMAGE_REGION = "image-region"
    DISK_TIER = "disk-tier"
    PREMIUM_DISK = "premium-disk"
    NETWORK_TIER = "network-tier"
    FAST_NETWORK = "fast-network"
    LOCAL_DISK = "local-disk"
    ACCELERATOR_ARGS = "accelerator-args"
    PORTS = "ports"


CLOSED = (RuleKind.DISABLED, RuleKind.SILENT)
"""Rules that drop all offers of a cloud, since it is not set up or does not answer."""


@dataclass(frozen=True, slots=True)
class DropRule:
    """A rule that drops offers from a plan.

    Attributes
    ----------
    words
        What it says to a person.
    subject
        The cloud that it is about, or for `BLOCKED` the cause; empty if it is about none.
    detail
        Why a cloud is not set up, or what is known of its silence, in a few words; empty for other
        rules.
    """

    kind: RuleKind
    words: str
    subject: str = ""
    detail: str = ""

    @property
    def name(self) -> str:
        """A short name: the kind, and the subject if there is one."""
        return f"{self.kind}:{self.subject}" if self.subject else str(self.kind)


@dataclass(frozen=True, slots=True)
class Dropped:
    """How many offers a rule took out of the plan."""

    rule: DropRule
    count: int

    @property
    def words(self) -> str:
        """The rule in words."""
        return self.rule.words


@dataclass(frozen=True, slots=True)
class Unusable:
    """What a cloud that is not set up, or does not answer, would offer.

    Attributes
    ----------
    offer
        Its cheapest offer for the spec.
    reason
        Why it cannot be used, in a few words.
    silent
        Whether the cloud only does not answer.
    """

    offer: Offer
    reason: str
    silent: bool = False


PLAN_ROWS = 5000
"""So many of a plan's first candidates are shown in a table and can be put first by a person. Each
is built separately, and few scroll further."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The ordered candidates of a spec, the chosen one first, and what was dropped by which rule.

    Attributes
    ----------
    candidates
        In the order of attempts. It builds its members when they are asked for: a plan for `cpus:
        4+` has tens of thousands, and a launch looks at a few.
    dearest
        The dearest candidate that a launch may take. Launch consents to its price.
    dropped
        What was left out, by rule.
    notes
        What else a person should know of the plan, a line each.
    made_at
        When it was made.
    unusable
        What clouds that are not set up would offer, one line each. No launch takes these.
    unknown
        GPUs as the spec writes them that no cloud sells.
    is_kept
        False for the launch of an earlier kernel: the ledger has its attempts, and not its plan.
    silent
        Clouds without an answer, which may have what the spec asks for.
    preferred
        How many of the first candidates a person put there.
    """

    spec: Spec
    candidates: Sequence[Candidate]
    dearest: Candidate | None = None
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    made_at: Instant = 0.0
    unusable: tuple[Unusable, ...] = ()
    unknown: tuple[str, ...] = ()
    is_kept: bool = True
    silent: tuple[str, ...] = ()
    preferred: int = 0

    @property
    def is_simulated(self) -> bool:
        """Whether nobody pays for any of its places."""
        return bool(self.candidates) and all(c.offer.is_simulated for c in self.candidates)

    @property
    def chosen(self) -> Candidate | None:
        """The candidate that is tried first."""
        return self.candidates[0] if self.candidates else None
