"""The order of a plan: doubtful prices and out of stock last, then tier, then `prefer`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nbprov.market import Pool, Stock, StockLevel, SuccessModel
from nbprov.market.success_model import REFUSED_SECONDS
from nbprov.model.places import Market
from nbprov.model.run_policies import OrderPolicy

if TYPE_CHECKING:
    from .lookup.catalog_columns import Bools, CatalogColumns, Ints

Floats = NDArray[np.float64]

LOW_MARKUP = 0.25
"""A place with little stock stands where it would at a price higher by this share.

A refusal costs half a minute, and a different market or region often costs more. So among prices
that differ by less, the place that surely has the machine is the better choice.
"""


@dataclass(frozen=True, slots=True)
class StockOutlook:
    """What is known of the stock of each row.

    Attributes
    ----------
    likely
        P(success).
    is_out, is_low
        What the cloud just reported: there is none, or there is little.
    """

    likely: Floats
    is_out: Bools
    is_low: Bools


def stock_outlook(table: CatalogColumns, rows: Ints, success_model: SuccessModel) -> StockOutlook:
    """Estimate the stock of each row.

    Only pools of which something is known are looked at one by one; all others have the prior of
    their market.
    """
    is_spot = table.of("is_spot", rows)
    likely: Floats = np.where(
        is_spot, success_model.prior(Market.SPOT.value), success_model.prior(Market.ON_DEMAND.value)
    )
    is_out, is_low = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
    at = np.flatnonzero(are_known(table, rows, success_model))
    if len(at):
        pools = pools_of(table, rows[at])
        likely[at] = [success_model.success(pool) for pool in pools]
        if success_model.stock:
            said = [success_model.stock.fresh(pool) for pool in pools]
            is_out[at], is_low[at] = _are(said, StockLevel.NONE), _are(said, StockLevel.LOW)
    return StockOutlook(likely, is_out, is_low)


def _are(said: Sequence[Stock | None], level: StockLevel) -> list[bool]:
    return [stock is not None and stock.level is level for stock in said]


def pools_of(table: CatalogColumns, rows: Ints) -> list[Pool]:
    """The pool of each row."""
    columns = []
    for name in ("cloud", "region", "zone", "instance_type"):
        texts = table.names(name)
        columns.append([texts[code] for code in table.of(name, rows).tolist()])
    markets = [
        Market.SPOT.value if spot else Market.ON_DEMAND.value
        for spot in table.of("is_spot", rows).tolist()
    ]
    return [Pool(*pool) for pool in zip(*columns, markets, strict=True)]


def are_known(table: CatalogColumns, rows: Ints, success_model: SuccessModel) -> NDArray[np.bool_]:
    """Which rows may be known to the success model.

    A row is if something is known of its type, or if its cloud reported on all types. The success
    model itself knows exactly.
    """
    known = success_model.known_types
    if not known:
        return np.zeros(len(rows), dtype=bool)
    kinds = np.zeros(len(table.names("instance_type")) + 1, dtype=bool)
    clouds = np.zeros(len(table.names("cloud")) + 1, dtype=bool)
    for cloud, kind, _ in known:
        if kind:
            kinds[table.code("instance_type", kind)] = True
        else:
            clouds[table.code("cloud", cloud) if cloud else slice(None)] = True
    kinds[-1] = clouds[-1] = False  # index -1 stands for names that no row has
    return np.asarray(kinds[table.of("instance_type", rows)] | clouds[table.of("cloud", rows)])


def plan_order(
    table: CatalogColumns,
    rows: Ints,
    requests: Sequence[tuple[int, int]],
    owners: Ints,
    policy: OrderPolicy,
    success_model: SuccessModel,
    seen: StockOutlook,
) -> Ints:
    """Positions of the rows in the plan's order.

    They are sorted by: a price that moved by more than half last, out of stock last, tier, the
    spec's `prefer`, request, US regions first, then by name. Out of stock comes before the tier: a
    cloud that has none now would only refuse.

    Parameters
    ----------
    requests
        Tier and index of each request.
    owners
        The request that takes each row, a position in `requests`.
    """
    tiers = _dense([tier for tier, _ in requests])[owners]
    indices = _dense([index for _, index in requests])[owners]
    wanted = _keys_in_tier(table, rows, policy, success_model, seen)
    keys = (indices, *reversed(wanted), tiers, seen.is_out, table.is_price_doubtful(rows))
    # Most keys are the same for all rows, and each one costs a sort.
    return np.lexsort((table.rank(rows), *(key for key in keys if (key != key[:1]).any())))


def _keys_in_tier(
    table: CatalogColumns,
    rows: Ints,
    policy: OrderPolicy,
    success_model: SuccessModel,
    seen: StockOutlook,
) -> tuple[Ints | Floats, ...]:
    """The sort keys inside a tier, the most important first.

    `cheapest` sorts by price, then P(success); `soonest` by the expected seconds to ready, then
    price; `balanced` by price over P(success), then price. In all three, little stock raises the
    price that is compared and lowers P(success).
    """
    hourly, likely = table.of("hourly", rows), seen.likely
    if seen.is_low.any():
        # Whole micros make the order the same on every machine; at equal prices low stock is
        # later.
        hourly = np.where(seen.is_low, np.rint(hourly * (1 + LOW_MARKUP)), hourly)
    if policy is OrderPolicy.SOONEST:
        clouds = np.array([success_model.ready_seconds(name) for name in table.names("cloud")])
        # Whole seconds: places that differ by less are equally soon, and the cheaper one is
        # first.
        expected = np.rint(clouds[table.of("cloud", rows)] + REFUSED_SECONDS * (1 / likely - 1))
        return (expected, hourly, seen.is_low, -likely)
    if policy is OrderPolicy.BALANCED:
        return (np.rint(table.of("hourly", rows) / likely), hourly, seen.is_low, -likely)
    return (hourly, seen.is_low, -likely)


def _dense(values: Sequence[int]) -> Ints:
    """Small numbers in the same order."""
    places = {value: place for place, value in enumerate(sorted(set(values)))}
    return np.array([places[v] for v in values], dtype=np.int32)
