"""P(success): how likely an attempt at an offer is to be accepted now, and how soon its machine would be ready.

A Beta prior a market, sharpened level by level (the type in the cloud, in the region, in the zone) by what was seen; each
observation counts less as it ages. Simple on purpose: capacity comes and goes within hours, so what was seen an hour ago says most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from nbprov.model.clock import Instant, Seconds
from nbprov.model.places import Market
from nbprov.model.stock import Level, Pool, Stock

from .observations import ACCEPTED, OUT_OF_STOCK, Observation
from .stock_index import Said

PRIOR: Mapping[str, float] = {Market.ON_DEMAND.value: 0.75, Market.SPOT.value: 0.6}
"""Mean of the prior a market: spot V100s of five AWS zones were obtainable 60 % of a month; on-demand GPUs on market places some 75 %."""
STRENGTH = 1.0
"""Of each level's prior, in observations: a single fresh answer moves the estimate half of the way."""
HALF_LIFE: Seconds = 2 * 3600.0
"""After so long an observation counts half. On real histories of stock anything from one to four hours predicts about equally well."""
FORGOTTEN: Seconds = 24 * HALF_LIFE
STOCK_WEIGHT = 4.0
"""What a cloud says of its own stock, in observations."""
STOCK_HALF_LIFE: Seconds = 10 * 60.0
STOCK_MEANS: Mapping[Level, float] = {
    Level.NONE: 0.03,
    Level.LOW: 0.5,
    Level.MEDIUM: 0.85,
    Level.HIGH: 0.96,
}
USUAL_READY: Seconds = 120.0
"""From request to ready where a cloud has not been used yet: the middle of what the big clouds take for a GPU machine."""
REFUSED_SECONDS: Seconds = 30.0
"""What one more refusal on the way costs: the answer and the way to the next place."""
LEAST, MOST = 0.01, 0.99


@dataclass(slots=True)
class _Seen:
    """What was seen at one level: weight of the acceptances and of all answers."""

    accepted: float = 0.0
    all: float = 0.0

    def add(self, weight: float, success: float) -> None:
        self.accepted += weight * success
        self.all += weight

    def mean(self, prior: float) -> float:
        return (prior * STRENGTH + self.accepted) / (STRENGTH + self.all)


class Chances:
    """Estimates at one instant, for clusters of one size.

    Parameters
    ----------
    observations
        Answers to attempts, of any age and order.
    stock
        What clouds said of their stock.
    now
        The instant the estimates are for.
    count
        Machines wanted together. A refusal of fewer counts in full, one of more says nothing; an acceptance of fewer counts half.

    Attributes
    ----------
    said
        What clouds said of their stock, by pool.

    Examples
    --------
    >>> pool = Pool("aws", "us-east-1", "use1-az1", "p3.2xlarge", "spot")
    >>> refused = Observation(at=0.0, pool=pool, outcome="capacity")
    >>> Chances(now=0.0).success(pool) > Chances([refused], now=60.0).success(pool)
    True
    """

    def __init__(
        self,
        observations: Iterable[Observation] = (),
        *,
        stock: Iterable[Stock] = (),
        now: Instant,
        count: int = 1,
    ) -> None:
        self._types: dict[tuple[str, str, str], _Seen] = defaultdict(_Seen)
        self._regions: dict[tuple[str, str, str, str], _Seen] = defaultdict(_Seen)
        self._pools: dict[Pool, _Seen] = defaultdict(_Seen)
        self._ready: dict[str, list[tuple[float, Seconds]]] = defaultdict(list)
        self.said = Said(stock, now=now)
        self._now = now
        for seen in observations:
            self._add(seen, count)

    def _add(self, seen: Observation, count: int) -> None:
        age = self._now - seen.at
        if not 0 <= age < FORGOTTEN:
            return
        weight = 0.5 ** (age / HALF_LIFE)
        accepted = seen.outcome == ACCEPTED
        if accepted:
            if seen.seconds is not None:
                self._ready[seen.pool.cloud].append((weight, seen.seconds))
            weight *= 1.0 if seen.count >= count else 0.5
        elif seen.outcome not in OUT_OF_STOCK or seen.count > count:
            return
        pool = seen.pool
        for level in (
            self._types[pool.cloud, pool.instance_type, pool.market],
            self._regions[pool.cloud, pool.region, pool.instance_type, pool.market],
            self._pools[pool],
        ):
            level.add(weight, float(accepted))

    @cached_property
    def known_types(self) -> frozenset[tuple[str, str, str]]:
        """(cloud, type, market) of all that anything was seen or said of; an empty cloud or type stands for all. Others have `prior`."""
        return frozenset({*self._types, *self.said.types})

    def knows(self, pool: Pool) -> bool:
        """Whether anything was seen or said of this pool's type."""
        clouds, kinds, markets = (
            {"", value} for value in (pool.cloud, pool.instance_type, pool.market)
        )
        return not self.known_types.isdisjoint(product(clouds, kinds, markets))

    @staticmethod
    def prior(market: str) -> float:
        """The chance where nothing was seen."""
        return PRIOR[market]

    def success(self, pool: Pool) -> float:
        """The probability, 0.01 to 0.99, that an attempt there would be accepted now."""
        mean = PRIOR[pool.market]
        for level in (
            self._types.get((pool.cloud, pool.instance_type, pool.market)),
            self._regions.get((pool.cloud, pool.region, pool.instance_type, pool.market)),
            self._pools.get(pool),
        ):
            if level is not None:
                mean = level.mean(mean)
        total, weights = mean, 1.0
        for said in self.said.of(pool):
            weight = STOCK_WEIGHT * 0.5 ** (max(0.0, self._now - said.at) / STOCK_HALF_LIFE)
            total, weights = total + weight * STOCK_MEANS[said.level], weights + weight
        return min(MOST, max(LEAST, total / weights))

    def expected_seconds(self, pool: Pool) -> Seconds:
        """Seconds to a machine that is ready, with the refusals that are to be met on the way."""
        return self.ready_seconds(pool.cloud) + REFUSED_SECONDS * (1 / self.success(pool) - 1)

    def ready_seconds(self, cloud: str) -> Seconds:
        """Seconds from a request to its acceptance and on to a machine that is ready, as this cloud usually takes them."""
        seen = self._ready.get(cloud)
        if not seen:
            return USUAL_READY
        total = sum(weight for weight, _ in seen)
        return (USUAL_READY + sum(weight * (seconds + USUAL_READY) for weight, seconds in seen)) / (
            1 + total
        )
