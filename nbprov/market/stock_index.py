"""Look up what clouds report about their stock by pool.

Of several reports the most specific one counts, and only while it is fresh.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from nbprov.model.clock import Instant, Seconds
from nbprov.model.stock import Pool, Stock, StockLevel

FRESH_SECONDS: Seconds = 5 * 60.0
"""How long a report decides the order of a plan: about as long as a refused place is blocked, and
no longer than a person looks at a plan.
"""
REMEMBERED: Seconds = 60 * 60.0
"""How long a report counts for the estimate of success."""

_SCARCEST_LAST = (StockLevel.HIGH, StockLevel.MEDIUM, StockLevel.LOW, StockLevel.NONE)

_Named = tuple[bool, ...]


class StockIndex:
    """Stock reports at one instant, for whole clouds or for single pools.

    A look-up takes the same time however many reports there are.

    Parameters
    ----------
    stock
        Reports in any order and of any age; those older than `REMEMBERED` are left out.
    now
        The instant that ages are counted from.

    Examples
    --------
    >>> pool = Pool("runpod", "CZ", "EU-CZ-1", "1x_L40S_SECURE", "on-demand")
    >>> high = Stock(0.0, pool._replace(zone=""), StockLevel.HIGH)
    >>> said = StockIndex([high, Stock(0.0, pool, StockLevel.NONE)], now=20.0)
    >>> said.fresh(pool).level, said.fresh(pool._replace(zone="EU-CZ-2")).level
    (<StockLevel.NONE: 'none'>, <StockLevel.HIGH: 'high'>)
    """

    def __init__(self, stock: Iterable[Stock] = (), *, now: Instant) -> None:
        self._now = now
        self._by_shape: dict[_Named, dict[tuple[str, ...], list[Stock]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for statement in stock:
            if now - statement.at < REMEMBERED:
                shape = tuple(map(bool, statement.pool))
                self._by_shape[shape][_key(statement.pool, shape)].append(statement)
        # The most specific first: a report on a zone knows more than one on its region.
        self._shapes = sorted(self._by_shape, key=lambda shape: (-sum(shape), shape))

    def __bool__(self) -> bool:
        return bool(self._by_shape)

    @property
    def types(self) -> frozenset[tuple[str, str, str]]:
        """(cloud, type, market) of all reports; an empty field stands for all."""
        return frozenset(
            (said.pool.cloud, said.pool.instance_type, said.pool.market)
            for by_key in self._by_shape.values()
            for some in by_key.values()
            for said in some
        )

    def of(self, pool: Pool) -> Iterator[Stock]:
        """All reports on a pool, the most specific first."""
        for shape in self._shapes:
            yield from self._by_shape[shape].get(_key(pool, shape), ())

    def fresh(self, pool: Pool) -> Stock | None:
        """The report that counts for a pool now; None if no fresh one exists.

        Among the fresh reports it is the most specific, then the latest, then the scarcest one.
        """
        for shape in self._shapes:
            fresh = [
                s
                for s in self._by_shape[shape].get(_key(pool, shape), ())
                if self._now - s.at <= FRESH_SECONDS
            ]
            if fresh:
                return max(fresh, key=lambda s: (s.at, _SCARCEST_LAST.index(s.level)))
        return None


def _key(pool: Pool, shape: _Named) -> tuple[str, ...]:
    return tuple(part for part, named in zip(pool, shape, strict=True) if named)
