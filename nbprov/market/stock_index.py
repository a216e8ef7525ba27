"""What clouds said of their stock, looked up by pool: of several statements the closest one counts, and only while it is fresh."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from nbprov.model.clock import Instant, Seconds
from nbprov.model.stock import Level, Pool, Stock

FRESH_SECONDS: Seconds = 5 * 60.0
"""So long a statement decides the order of a plan: about as long as a place that was refused is left alone, and no longer than a person looks at a plan."""
REMEMBERED: Seconds = 60 * 60.0
"""So long a statement says anything of the chance there."""

_SCARCEST_LAST = (Level.HIGH, Level.MEDIUM, Level.LOW, Level.NONE)

_Named = tuple[bool, ...]


class Said:
    """Statements of stock at one instant, of whole clouds as of single pools; a look-up costs the same however many there are.

    Parameters
    ----------
    stock
        In any order, of any age: what is older than `REMEMBERED` is left out.
    now
        The instant that ages are counted from.

    Examples
    --------
    >>> pool = Pool("runpod", "CZ", "EU-CZ-1", "1x_L40S_SECURE", "on-demand")
    >>> said = Said([Stock(0.0, pool._replace(zone=""), Level.HIGH), Stock(0.0, pool, Level.NONE)], now=20.0)
    >>> said.fresh(pool).level, said.fresh(pool._replace(zone="EU-CZ-2")).level
    (<Level.NONE: 'none'>, <Level.HIGH: 'high'>)
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
        # The closest first: one of a zone knows more than one of its region.
        self._shapes = sorted(self._by_shape, key=lambda shape: (-sum(shape), shape))

    def __bool__(self) -> bool:
        return bool(self._by_shape)

    @property
    def types(self) -> frozenset[tuple[str, str, str]]:
        """(cloud, type, market) of all that was said; empty stands for all."""
        return frozenset(
            (said.pool.cloud, said.pool.instance_type, said.pool.market)
            for by_key in self._by_shape.values()
            for some in by_key.values()
            for said in some
        )

    def of(self, pool: Pool) -> Iterator[Stock]:
        """All that was said of a pool, the closest first."""
        for shape in self._shapes:
            yield from self._by_shape[shape].get(_key(pool, shape), ())

    def fresh(self, pool: Pool) -> Stock | None:
        """The statement that counts for a pool now: of the fresh ones the closest, then the latest, then the scarcest; None where there is none."""
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
