"""The answer to a price question."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Instant
from nbprov.model.errors import UsageError
from nbprov.model.money import format_usd
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.stock import Pool, Stock

if TYPE_CHECKING:
    from nbprov.catalog import Catalog, Query
    from nbprov.catalog.accelerators_on_sale import AcceleratorList
    from nbprov.market import StockIndex

_WRITTEN = ("accelerator", "count", "count_at_least", "device_gib", "device_at_least", "maker")
"""Fields of a `Query` that the text of a question may set."""


class Prices:
    """A sequence of offers, cheapest first, built when looked at.

    Attributes
    ----------
    remarks
        Notes on the answer, such as a cloud that did not tell its current prices.
    said
        What clouds said of their stock; None where they were not asked (see `live`).

    Examples
    --------
    >>> nbprov.prices("A100:8").to_frame()  # doctest: +SKIP
    """

    def __init__(self, catalog: Catalog, query: Query, remarks: Sequence[str] = ()) -> None:
        self.catalog = catalog
        self.query = query
        self.rows = catalog.select(query)
        self.remarks = tuple(remarks)
        self.said: StockIndex | None = None
        self._asked_at: Instant = 0.0

    def learn(self, stock: Iterable[Stock], now: Instant) -> None:
        """Take in what clouds said of their stock."""
        from nbprov.market import StockIndex

        self.said, self._asked_at = StockIndex(stock, now=now), now

    def stock_of(self, offer: Offer) -> Stock | None:
        """What its cloud said of an offer's stock within the last five minutes, or None."""
        return self.said.fresh(offer.pool) if self.said is not None else None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Offer:
        return self.catalog.offer(int(self.rows[index]))

    def offers(self, limit: int | None = None) -> list[Offer]:
        """The offers, cheapest first; at most `limit` of them."""
        return self.rows.offers(limit)

    def first_of_clouds(self, most: int, clouds: Collection[str]) -> list[Offer]:
        """The cheapest offers of each of these clouds, at most `most` of one."""
        found: list[Offer] = []
        for cloud in sorted(clouds):
            found += (
                self.catalog.offers(replace(self.query, cloud=(cloud,)), most)
                if self._may_hold(cloud)
                else []
            )
        return found

    def _may_hold(self, cloud: str) -> bool:
        from nbprov.catalog.query import names

        wanted = {name.casefold() for name in names(self.query.cloud)}
        return not wanted or cloud in wanted

    def accelerators(self) -> AcceleratorList:
        """The accelerators of these offers: counts, memory, cheapest prices, and who sells them.

        Examples
        --------
        >>> [one.name for one in nbprov.prices(region="eu").accelerators()]  # doctest: +SKIP
        """
        from nbprov.catalog.accelerators_on_sale import accelerators_of

        return accelerators_of(self.rows)

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row an offer, cheapest first.

        The page on the Python API lists its columns. Prices (`hourly`) are US dollars an hour a
        node as float64, and `as_of` is datetime64. Where clouds were asked for their stock
        there are two more columns: `stock` (`none`, `low`, `medium`, `high`, or None) and
        `stock_age_s`, its age in seconds (or NaN).
        """
        frame = self.catalog.to_frame(self.rows)
        if self.said is None:
            return frame
        names = ("cloud", "region", "zone", "instance_type", "market")
        pools = zip(*(frame[name].astype(str).tolist() for name in names), strict=True)
        said = [self.said.fresh(Pool(*pool)) for pool in pools]
        frame["stock"] = [None if stock is None else stock.level.value for stock in said]
        frame["stock_age_s"] = [
            math.nan if stock is None else max(0.0, self._asked_at - stock.at) for stock in said
        ]
        return frame

    def __repr__(self) -> str:
        return f"<{len(self):,} offers{f', the cheapest: {_words(self[0])}' if len(self) else ''}>"


def _words(offer: Offer) -> str:
    what = f"{offer.gpus} {offer.instance_type}" if offer.accelerator else offer.instance_type
    return f"{what} {offer.market} in {offer.place} at {format_usd(offer.hourly)}/h"


def narrowed(query: Query, conditions: dict[str, Any]) -> Query:
    """A question with further conditions, given by the names of a `Query`'s fields.

    Raises
    ------
    UsageError
        If there is no such field, with the closest one, or no such market.

    Examples
    --------
    >>> from nbprov.catalog import Query
    >>> narrowed(Query(), {"market": "spot", "region": ["eu"]}).region
    ('eu',)
    """
    known = [field.name for field in fields(query)]
    for name in conditions:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise UsageError(
                f"a price question has no condition {name!r}",
                hint=f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}",
            )
    made: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list | set) else value
        for name, value in conditions.items()
    }
    if isinstance(made.get("market"), str):
        try:
            made["market"] = Market(made["market"])
        except ValueError:
            raise UsageError(
                f"there is no market {made['market']!r}", hint=f"markets are {' and '.join(Market)}"
            ) from None
    return replace(query, **made)


def with_accelerator(catalog: Catalog, text: str, query: Query, *, fuzzy: bool) -> Query:
    """A question with the accelerators that a text names; the rest of it stays as it is.

    Raises
    ------
    UnknownName, AmbiguousName, QueryError
        As `Catalog.query`. The hint says so where the text names an instance type.
    """
    from nbprov.catalog import UnknownName

    if not text.strip():
        return query
    try:
        read = catalog.query(text, fuzzy=fuzzy)
    except UnknownName as error:
        if catalog.has_instance_type(text.strip()):
            name = text.strip()
            error.hint = (
                f"it is an instance type: %prices --type {name}, or prices(instance_type={name!r})"
            )
        raise
    said = {name: getattr(read, name) for name in _WRITTEN if getattr(read, name)}
    return replace(query, **said)
