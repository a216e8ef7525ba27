"""`%prices`: the table of offers."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, MutableMapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from nbprov.api import Prices, session
from nbprov.model.clock import Seconds
from nbprov.model.errors import UsageError
from nbprov.model.money import usd
from nbprov.model.places import Market
from nbprov.notebook.panels.price_table import PriceTable
from nbprov.notebook.rendering.accelerator_data import accelerator_table
from nbprov.notebook.rendering.offer_columns import table_of_prices
from nbprov.notebook.terminal import say

from .stock_updater import StockUpdater

if TYPE_CHECKING:
    from nbprov.catalog import Catalog, Query
    from nbprov.catalog.accelerators_on_sale import AcceleratorList

CHECK_PATIENCE: Seconds = 1.0
"""How long to wait for clouds to report whether they can be used. The rows of a cloud that does not
answer in time are not greyed."""
FRAME = "offers"
"""The variable that the table's button makes."""
NAMED = 4
"""The most accelerators in a title, where the question matches several."""


class PriceResult(PriceTable):
    """The table in the cell with the data behind it: `_.to_frame()`, `len(_)`, `_[0]`.

    Parameters
    ----------
    names
        Where the DataFrame goes that a person asks for in the table: the notebook's variables.
    """

    def __init__(
        self,
        prices: Prices,
        title: str,
        off: Mapping[str, str] | None = None,
        names: MutableMapping[str, Any] | None = None,
    ) -> None:
        self.prices = prices
        self._names = names
        stock_updater = StockUpdater(session(), prices, self.renew_column)
        table = table_of_prices(prices, off)
        super().__init__(table, title=title, on_look=stock_updater.look, now=time.time())

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per offer, with prices in USD per hour and node."""
        return self.prices.to_frame()

    def _make_frame(self, ranks: Sequence[int]) -> str:
        if self._names is None:
            return super()._make_frame(ranks)
        frame = self.to_frame()
        self._names[FRAME] = frame.iloc[list(ranks)].reset_index(drop=True)
        return f"{FRAME} is a DataFrame of {len(ranks):,} offers now"

    def __len__(self) -> int:
        return len(self.prices)

    def __getitem__(self, index: int) -> Any:
        return self.prices[index]


class AcceleratorResult(PriceTable):
    """The accelerators in the cell with the data behind it: `_.to_frame()`, `len(_)`, `_[0]`."""

    def __init__(self, accelerators: AcceleratorList, title: str) -> None:
        self.accelerators = accelerators
        super().__init__(accelerator_table(accelerators), title=title, now=time.time())

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row an accelerator; prices in USD per hour."""
        return self.accelerators.to_frame()

    def __len__(self) -> int:
        return len(self.accelerators)

    def __getitem__(self, index: int) -> Any:
        return self.accelerators[index]


def list_prices(shell: Any, arguments: argparse.Namespace) -> Any:
    """Return the table that answers a `%prices` line; with `x = %prices …` a pandas DataFrame."""
    here = session()
    prices = here.prices(
        arguments.accelerator, query=_query(arguments), live=arguments.live, fuzzy=True
    )
    for remark in prices.remarks:
        say(f"note: {remark}")
    print_catalog_problems(prices.catalog)
    if not prices and arguments.fresh is not None:
        say(
            f"note: no matching price is from the last {arguments.fresh:g} days;"
            " %nbprov catalog refresh renews the prices that can be renewed"
        )
    if arguments.gpus:
        found = prices.accelerators()
        if is_assigned(shell):
            return found.to_frame()
        return AcceleratorResult(found, f"accelerators on sale: {len(found)}, cheapest prices")
    if is_assigned(shell):
        return prices.to_frame()
    what = f"prices of {_subject(arguments, prices)}"
    off = here.why_not(seconds=CHECK_PATIENCE)
    title = f"{what}: {len(prices):,} offers" if len(prices) else what
    return PriceResult(prices, title, off, shell.user_ns)


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
    from nbprov.spec.reading import literals
    from nbprov.spec.yaml.diagnostics import InvalidValue

    try:
        return getattr(literals, flag)(text.strip())
    except InvalidValue as bad:
        raise UsageError(f"%prices: --{flag}: {bad.message}", hint=bad.hint) from None


def _subject(arguments: argparse.Namespace, prices: Prices) -> str:
    """Return what was asked for, with the names that a pattern or a part of a name matches."""
    written = str(arguments.accelerator).strip()
    found = prices.query.accelerator
    if not written:
        return ", ".join(arguments.type) or "everything"
    if isinstance(found, str) or len(found) < 2:
        return written
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"{written} ({', '.join(found[:NAMED])}{more})"


def print_catalog_problems(catalog: Catalog) -> None:
    """Print the problems of price and override files, each once."""
    news = session().catalogue.untold(catalog.problems())
    if not news:
        return
    more = f"; and {len(news) - 1} more" if len(news) > 1 else ""
    say(f"note: {news[0]}{more}; %nbprov catalog shows the state of the prices")


def is_assigned(shell: Any) -> bool:
    """Return whether the running magic stands right of a `=`.

    IPython does not tell a magic, so this looks at the next instruction of the cell. Where the
    code cannot be read, as under some debuggers, the answer is no.
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
