"""`%prices`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from nbprov.api import Prices, session
from nbprov.model.clock import Seconds
from nbprov.model.errors import UsageError
from nbprov.model.money import usd
from nbprov.model.places import Market
from nbprov.notebook.panels import PriceTable
from nbprov.notebook.rendering import TableData

if TYPE_CHECKING:
    from nbprov.catalog import Catalog, Query

LISTED = 40_000
"""Offers that go to the browser: what its table sorts and scrolls without a pause."""
CHECK_PATIENCE: Seconds = 1.0
"""A list of prices waits so long for clouds to say whether they can be used: rows of those that have not are as any others."""
NAMED = 4
"""Accelerators that a title names where the question means several."""


class PriceResult(PriceTable):
    """The table in the cell, and the data behind it: `_.to_frame()`, `len(_)`, `_[0]`."""

    def __init__(self, prices: Prices, title: str, off: Mapping[str, str] | None = None) -> None:
        self.prices = prices
        table = TableData.from_offers(
            prices.offers(LISTED), stock=prices.stock_of, off=off, total=len(prices)
        )
        super().__init__(table, title=title, now=time.time())

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row an offer; prices in US dollars an hour a node."""
        return self.prices.to_frame()

    def __len__(self) -> int:
        return len(self.prices)

    def __getitem__(self, index: int) -> Any:
        return self.prices[index]


def list_prices(shell: Any, arguments: argparse.Namespace) -> Any:
    """The answer to a `%prices` line: a table, shown because it is the cell's value; with `x = %prices …` a pandas DataFrame."""
    here = session()
    prices = here.prices(
        arguments.accelerator, query=_query(arguments), live=arguments.live, fuzzy=True
    )
    for remark in prices.remarks:
        print(f"note: {remark}")
    say_problems(prices.catalog)
    if not prices and arguments.fresh is not None:
        print(
            f"note: no such price is of the last {arguments.fresh:g} days; %nbprov catalog refresh renews what can be renewed"
        )
    if is_assigned(shell):
        return prices.to_frame()
    what = f"prices of {_subject(arguments, prices)}"
    off = here.why_not(seconds=CHECK_PATIENCE)
    return PriceResult(prices, f"{what}: {len(prices):,} offers" if len(prices) else what, off)


def _query(arguments: argparse.Namespace) -> Query:
    from nbprov.catalog import Query

    return Query(
        cloud=tuple(arguments.cloud),
        region=tuple(arguments.region),
        zone=tuple(arguments.zone),
        instance_type=tuple(arguments.type),
        market=Market.SPOT if arguments.spot else Market.ON_DEMAND if arguments.on_demand else None,
        min_hourly=None if arguments.min_price is None else usd(arguments.min_price),
        max_hourly=None if arguments.max_price is None else usd(arguments.max_price),
        cpus=_quantity("cpus", arguments.cpus),
        memory=_quantity("memory", arguments.memory),
        fresh_days=arguments.fresh,
        unusual=bool(arguments.type or arguments.cpus or arguments.memory),
    )


def _quantity(flag: str, text: str | None) -> Any:
    if text is None:
        return None
    from nbprov.spec.reading import units
    from nbprov.spec.yaml.diagnostics import InvalidValue

    try:
        return getattr(units, flag)(text.strip())
    except InvalidValue as bad:
        raise UsageError(f"%prices: --{flag}: {bad.message}", hint=bad.hint) from None


def _subject(arguments: argparse.Namespace, prices: Prices) -> str:
    """What the question is about; the names that a pattern or a fragment turned out to mean."""
    written = str(arguments.accelerator).strip()
    found = prices.query.accelerator
    if not written:
        return ", ".join(arguments.type) or "everything"
    if isinstance(found, str) or len(found) < 2:
        return written
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"{written} ({', '.join(found[:NAMED])}{more})"


def say_problems(catalog: Catalog) -> None:
    """Print, once each, what is wrong with price and override files."""
    news = session().catalogue.untold(catalog.problems())
    if not news:
        return
    more = f"; and {len(news) - 1} more" if len(news) > 1 else ""
    print(f"note: {news[0]}{more}; %nbprov catalog shows how the prices stand")


def is_assigned(shell: Any) -> bool:
    """Whether the magic that runs now stands right of a `=`: what the cell does next with its value is to store it.

    A magic is not told. Where the code cannot be read, as under some debuggers, the answer is no.
    """
    import dis

    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals is not shell.user_ns:
        frame = frame.f_back
    if frame is None:
        return False
    following = (i.opname for i in dis.get_instructions(frame.f_code) if i.offset > frame.f_lasti)
    return next(
        (name for name in following if name not in ("CACHE", "NOP", "EXTENDED_ARG")), ""
    ).startswith("STORE_")
