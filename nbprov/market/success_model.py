"""P(success): how likely an attempt at an offer is to be accepted, and how soon it is ready.

Each market has a Beta prior. Observations of the type in the cloud, in the region and in the zone
sharpen it level by level, and count less as they age. The model is simple on purpose: capacity
changes within hours, so the last hour says most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from nbprov.model.clock import Instant, Seconds
from nbprov.model.places import Market
from nbprov.model.stock import Pool, Stock, StockLevel

from .observations import ACCEPTED, OUT_OF_STOCK, Observation
from .stock_index import StockIndex

PRIOR: Mapping[str, float] = {Market.ON_DEMAND.value: 0.75, Market.SPOT.value: 0.6}
"""Mean of the prior by market.

Spot V100s in five AWS zones were obtainable 60 % of a month; on-demand GPUs on market places about
75 %.
"""
STRENGTH = 1.0
"""Weight of each level's prior, in observations: one fresh answer moves the estimate half way."""
HALF_LIFE: Seconds = 2 * 3600.0
"""Age at which an observation counts half. On real stock histories any value from one to four hours
predicts about equally well.
"""
FORGOTTEN: Seconds = 24 * HALF_LIFE
STOCK_WEIGHT = 4.0
"""Weight of a cloud's report on its own stock, in observations."""
STOCK_HALF_LIFE: Seconds = 10 * 60.0
STOCK_MEANS: Mapping[StockLevel, float] = {
    StockLevel.NONE: 0.03,
    StockLevel.LOW: 0.5,
    StockLevel.MEDIUM: 0.85,
    StockLevel.HIGH: 0.96,
}
USUAL_READY: Seconds = 120.0
"""Time from request to ready for a cloud that has not been used yet: what large clouds usually take
for a GPU machine.
"""
REFUSED_SECONDS: Seconds = 30.0
"""What one refusal costs: the answer, and the way to the next place."""
LEAST, MOST = 0.01, 0.99


@dataclass(slots=True)
class _Seen:
    """Weights at one level: of the acceptances, and of all answers."""

    accepted: float = 0.0
    all: float = 0.0

    def add(self, weight: float, success: float) -> None:
        self.accepted += weight * success
        self.all += weight

    def mean(self, prior: float) -> float:
        return (prior * STRENGTH + self.accepted) / (STRENGTH + self.all)


class SuccessModel:
    """Estimates at one instant, for clusters of one size.

    Parameters
    ----------
    observations
        Answers to attempts, of any age and in any order.
    stock
        What clouds reported about their stock.
    now
        The instant the estimates are for.
    count
        Number of machines wanted together. A refusal of fewer machines counts in full and one of
        more does not count; an acceptance of fewer counts half.

    Attributes
    ----------
    stock
        What clouds reported about their stock, by pool.

    Examples
    --------
    >>> pool = Pool("aws", "us-east-1", "use1-az1", "p3.2xlarge", "spot")
    >>> refused = Observation(at=0.0, pool=pool, outcome="capacity")
    >>> SuccessModel(now=0.0).success(pool) > SuccessModel([refused], now=60.0).success(pool)
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
        self.stock = StockIndex(stock, now=now)
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
        """(cloud, type, market) of all that was observed or reported.

        An empty cloud or type stands for all. All others have `prior`.
        """
        return frozenset({*self._types, *self.stock.types})

    def knows(self, pool: Pool) -> bool:
        """Whether anything was observed or reported about this pool's type."""
        clouds, kinds, markets = (
            {"", value} for value in (pool.cloud, pool.instance_type, pool.market)
        )
        return not self.known_types.isdisjoint(product(clouds, kinds, markets))

    @staticmethod
    def prior(market: str) -> float:
        """The estimate where nothing was observed."""
        return PRIOR[market]

    def success(self, pool: Pool) -> float:
        """The probability, 0.01 to 0.99, that an attempt in this pool is accepted now."""
        mean = PRIOR[pool.market]
        for level in (
            self._types.get((pool.cloud, pool.instance_type, pool.market)),
            self._regions.get((pool.cloud, pool.region, pool.instance_type, pool.market)),
            self._pools.get(pool),
        ):
            if level is not None:
                mean = level.mean(mean)
        total, weights = mean, 1.0
        for said in self.stock.of(pool):
            weight = STOCK_WEIGHT * 0.5 ** (max(0.0, self._now - said.at) / STOCK_HALF_LIFE)
            total, weights = total + weight * STOCK_MEANS[said.level], weights + weight
        return min(MOST, max(LEAST, total / weights))

    def expected_seconds(self, pool: Pool) -> Seconds:
        """Expected seconds until a machine is ready, the likely refusals before it included."""
        return self.ready_seconds(pool.cloud) + REFUSED_SECONDS * (1 / self.success(pool) - 1)

    def ready_seconds(self, cloud: str) -> Seconds:
        """Seconds from a request to a ready machine, as this cloud usually takes them."""
        seen = self._ready.get(cloud)
        if not seen:
            return USUAL_READY
        total = sum(weight for weight, _ in seen)
        return (USUAL_READY + sum(weight * (seconds + USUAL_READY) for weight, seconds in seen)) / (
            1 + total
        )
