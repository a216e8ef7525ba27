"""Plans: the candidates of a spec in the order of attempts, and what was dropped by which rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from .clock import Instant
from .offers import Candidate, Offer
from .spec import Spec


class RuleKind(StrEnum):
    """Why a rule drops offers."""

    PLACE = "place"
    NEEDLESS_GPU = "needless-gpu"
    PRICE = "price"
    DISABLED = "disabled"
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
        Why a cloud is not set up, in a few words; empty for other rules.
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
    """What a cloud that is not set up would offer.

    Attributes
    ----------
    offer
        Its cheapest offer for the spec.
    reason
        Why it cannot be used, in a few words.
    """

    offer: Offer
    reason: str


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
    unusable
        What clouds that are not set up would offer, one line each. No launch takes these.
    """

    spec: Spec
    candidates: Sequence[Candidate]
    dearest: Candidate | None = None
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    made_at: Instant = 0.0
    unusable: tuple[Unusable, ...] = ()

    @property
    def chosen(self) -> Candidate | None:
        """The candidate that is tried first."""
        return self.candidates[0] if self.candidates else None
