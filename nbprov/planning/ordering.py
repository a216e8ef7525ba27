"""The order of a plan: what is out of stock last of all, then the tiers, and inside a tier `prefer: cheapest | soonest | balanced`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nbprov.market import Chances, Level, Pool, Stock
from nbprov.market.success_model import REFUSED_SECONDS
from nbprov.model.places import Market
from nbprov.model.spec import Policy

if TYPE_CHECKING:
    from .lookup.catalog_columns import Bools, Ints, Table

Floats = NDArray[np.float64]

LOW_MARKUP = 0.25
"""A place whose cloud says that little is left stands where it would if it cost so much more: among prices that differ by less, the one that
is surely to be had is the better bargain, since a refusal costs half a minute and, with another market or region, often more than that."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of the rows' stock, a figure a row.

    Attributes
    ----------
    likely
        P(success).
    is_out, is_low
        What the cloud said just now: there is none, there is little.
    """

    likely: Floats
    is_out: Bools
    is_low: Bools


def outlook(table: Table, rows: Ints, chances: Chances) -> Outlook:
    """What is known of each row. Only pools of which something is known are looked at one by one; all others have their market's prior."""
    is_spot = table.of("is_spot", rows)
    likely: Floats = np.where(
        is_spot, chances.prior(Market.SPOT.value), chances.prior(Market.ON_DEMAND.value)
    )
    is_out, is_low = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
    at = np.flatnonzero(are_known(table, rows, chances))
    if len(at):
        pools = pools_of(table, rows[at])
        likely[at] = [chances.success(pool) for pool in pools]
        if chances.said:
            said = [chances.said.fresh(pool) for pool in pools]
            is_out[at], is_low[at] = _are(said, Level.NONE), _are(said, Level.LOW)
    return Outlook(likely, is_out, is_low)


def _are(said: Sequence[Stock | None], level: Level) -> list[bool]:
    return [stock is not None and stock.level is level for stock in said]


def pools_of(table: Table, rows: Ints) -> list[Pool]:
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


def are_known(table: Table, rows: Ints, chances: Chances) -> NDArray[np.bool_]:
    """Which rows are of a type that something is known of, or of a cloud that spoke of all its types: at least these, `chances` knows exactly."""
    known = chances.known_types
    if not known:
        return np.zeros(len(rows), dtype=bool)
    kinds = np.zeros(len(table.names("instance_type")) + 1, dtype=bool)
    clouds = np.zeros(len(table.names("cloud")) + 1, dtype=bool)
    for cloud, kind, _ in known:
        if kind:
            kinds[table.code("instance_type", kind)] = True
        else:
            clouds[table.code("cloud", cloud) if cloud else slice(None)] = True
    kinds[-1] = clouds[-1] = False  # where a name that no row has was noted
    return np.asarray(kinds[table.of("instance_type", rows)] | clouds[table.of("cloud", rows)])


def ranking(
    table: Table, rows: Ints, policy: Policy, chances: Chances, seen: Outlook
) -> tuple[Ints | Floats, ...]:
    """What rows are sorted by inside a tier, most important first.

    `cheapest`: price, then P(success). `soonest`: expected seconds to ready, then price. `balanced`: price over P(success), then price.
    Little stock counts in all three: as a mark-up on the price, and through P(success).
    """
    hourly, likely = table.of("hourly", rows), seen.likely
    if seen.is_low.any():
        # Whole micros, and what is low after what is not where they meet: the order is the same on every machine.
        hourly = np.where(seen.is_low, np.rint(hourly * (1 + LOW_MARKUP)), hourly)
    if policy is Policy.SOONEST:
        clouds = np.array([chances.ready_seconds(name) for name in table.names("cloud")])
        # Whole seconds: two places that differ by less are equally soon, and then the cheaper is better.
        expected = np.rint(clouds[table.of("cloud", rows)] + REFUSED_SECONDS * (1 / likely - 1))
        return (expected, hourly, seen.is_low, -likely)
    if policy is Policy.BALANCED:
        return (np.rint(table.of("hourly", rows) / likely), hourly, seen.is_low, -likely)
    return (hourly, seen.is_low, -likely)
