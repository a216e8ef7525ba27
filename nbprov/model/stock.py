"""What a cloud reports about its stock: pools of like machines, and how much of each there is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from .clock import Instant


class Pool(NamedTuple):
    """Machines of one type in one place and market, which are in stock or out of it together."""

    cloud: str
    region: str
    zone: str
    instance_type: str
    market: str


class StockLevel(StrEnum):
    """How much is in stock, as far as a cloud says."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Stock:
    """A cloud's report on the stock of a pool, and when it was made.

    An empty region, zone or type in the pool means all of them.
    """

    at: Instant
    pool: Pool
    level: StockLevel
