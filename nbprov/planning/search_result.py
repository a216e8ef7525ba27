"""The result of a candidate search: its rows, and what became of the other offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from nbprov.model.blocks import Block
from nbprov.model.offers import DropRule
from nbprov.model.resources import PlaceGlob

if TYPE_CHECKING:
    from .lookup.catalog_columns import Ints
    from .lookup.resolved_request import ResolvedRequest


class SearchStage(StrEnum):
    """The last stage that offers of a request reached."""

    HARDWARE = "hardware"
    PLACE = "place"
    CLOUD = "cloud"
    CAPABILITY = "capability"
    MACHINE = "machine"
    PRICE = "price"
    BLOCKED = "blocked"
    TAKEN = "taken"
    PLACED = "placed"


@dataclass(slots=True)
class SearchResult:
    """The rows of a plan, and counts of the others.

    Attributes
    ----------
    rows, request_of
        In the plan's order.
    stages
        The stage at which the offers of each request ended.
    dropped
        Number of offers by rule.
    blocked
        Number of offers by block.
    idle
        Allowed patterns without an offer, of requests that have offers elsewhere.
    unusable
        By cloud that is not set up, the cheapest row that satisfies a request.
    sold_out
        How many rows are out of stock by their cloud's report; they are the last ones.
    """

    rows: Ints
    request_of: Ints
    stages: list[SearchStage]
    dropped: dict[DropRule, int] = field(default_factory=dict)
    blocked: Sequence[tuple[Block, int]] = ()
    blocked_requests: frozenset[int] = frozenset()
    idle: Sequence[tuple[ResolvedRequest, PlaceGlob]] = ()
    unusable: Mapping[str, int] = field(default_factory=dict)
    sold_out: int = 0
