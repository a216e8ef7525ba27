"""What a cloud says of its stock: pools of like machines, and how much there is of each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from .clock import Instant

if TYPE_CHECKING:
    from .offers import Offer


class Pool(NamedTuple):
    """Machines of one kind in one place and market: what is in stock or out of it together."""

    cloud: str
    region: str
    zone: str
    instance_type: str
    market: str

    @staticmethod
    def of(offer: Offer) -> Pool:
        """The pool an offer is taken from."""
        return Pool(offer.cloud, offer.region, offer.zone, offer.instance_type, offer.market.value)


class Level(StrEnum):
    """How much is in stock, as far as a cloud says."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Stock:
    """What a cloud said of a pool's stock, and when. An empty region, zone or type in the pool means all of the cloud's."""

    at: Instant
    pool: Pool
    level: Level
