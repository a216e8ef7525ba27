"""`%nbprov watch`: report when a GPU is in stock. Nothing is launched."""

from __future__ import annotations

import argparse
from typing import Any

from nbprov.api import session
from nbprov.api.services.stock_watch import WATCH_SECONDS, StockedOffer, StockWatch
from nbprov.model.errors import Interrupted, NbprovError, UsageError
from nbprov.model.money import exact_usd, usd
from nbprov.model.places import Market
from nbprov.notebook.arguments import MagicParser, at_least_one, dollars
from nbprov.notebook.panels.output_line import OutputLine
from nbprov.notebook.rendering.formatting import format_place, format_utc, per_hour
from nbprov.notebook.terminal import say

from .lifecycle import seconds_of

NAMED = 5
"""The most places that are named when there is stock; the others are counted."""

_watches: dict[str, StockWatch] = {}


def arguments(parser: MagicParser) -> None:
    """Add the arguments of `%nbprov watch`."""
    parser.add_argument(
        "accelerator",
        nargs="?",
        default="",
        help="as for %%prices: H100:8, A100, 80GB+:8; without it the watches are listed",
    )
    parser.add_argument(
        "--cloud",
        action="append",
        default=[],
        metavar="CLOUD",
        help="only this cloud (may be repeated)",
    )
    parser.add_argument(
        "--region",
        action="append",
        default=[],
        metavar="REGION",
        help="only this region or country (may be repeated)",
    )
    parser.add_argument(
        "--spot", action="store_true", help="only the spot market (default: on-demand)"
    )
    parser.add_argument(
        "--max-price",
        type=dollars,
        default=None,
        metavar="USD",
        help="at most this many dollars per hour and node",
    )
    parser.add_argument(
        "--nodes",
        type=at_least_one,
        default=1,
        metavar="N",
        help="how many machines are needed at once",
    )
    parser.add_argument(
        "--for",
        dest="seconds",
        default="",
        metavar="TIME",
        help="how long to watch: 30m, 2d (default: 6h)",
    )
    parser.add_argument("--wait", action="store_true", help="block until it is in stock")
    parser.add_argument(
        "--stop", action="store_true", help="end this watch; without an accelerator, end all"
    )


def run(shell: Any, arguments: argparse.Namespace, cell: str | None) -> None:
    """Begin a watch with a line that reports its state, list the watches, or end some."""
    _forget_the_done()
    if arguments.stop:
        _stop(arguments.accelerator)
    elif not arguments.accelerator:
        say(
            "\n".join(_words(name, watch) for name, watch in _watches.items())
            or "nothing is watched"
        )
    else:
        _begin(arguments)


def _begin(arguments: argparse.Namespace) -> None:
    here, name = session(), arguments.accelerator
    if name in _watches:
        _watches.pop(name).cancel()  # it is replaced, perhaps by one with another price
    conditions: dict[str, Any] = {"market": Market.SPOT if arguments.spot else Market.ON_DEMAND}
    conditions |= {
        key: tuple(getattr(arguments, key))
        for key in ("cloud", "region")
        if getattr(arguments, key)
    }
    if arguments.max_price is not None:
        conditions["max_hourly"] = usd(arguments.max_price)
    watch = here.watch_stock(
        name,
        nodes=arguments.nodes,
        seconds=seconds_of(arguments.seconds, "--for") or WATCH_SECONDS,
        **conditions,
    )
    _watches[name] = watch
    cap = (
        f" at most {exact_usd(usd(arguments.max_price))}/h"
        if arguments.max_price is not None
        else ""
    )
    title = f"{arguments.nodes} x {name}{cap}" if arguments.nodes > 1 else f"{name}{cap}"
    line = OutputLine(_words(title, watch))
    publisher = here.engine.publisher

    def replace(text: str) -> None:
        publisher.mark(("watch", id(line)), lambda: line.replace(text))

    watch.on_look = lambda: replace(_words(title, watch))
    watch.on_look()  # it may have looked already
    watch.when_done(lambda told: replace(_end_words(title, told)))
    if arguments.wait:
        try:
            say(_end_words(title, watch.wait()))
        except KeyboardInterrupt:
            watch.cancel()
            raise Interrupted(f"{title}: no longer watched") from None


def _stop(name: str) -> None:
    if name and name not in _watches:
        raise UsageError(
            f"{name} is not watched", hint=f"watched: {', '.join(_watches) or 'nothing'}"
        )
    if not _watches:
        say("nothing is watched")
    for one in [name] if name else list(_watches):
        _watches.pop(one).cancel()
        say(f"{one}: no longer watched")


def _forget_the_done() -> None:
    for name in [name for name, watch in _watches.items() if watch.done]:
        del _watches[name]


def _words(title: str, watch: StockWatch) -> str:
    asked = ", ".join(watch.clouds)
    if watch.last is None:
        return f"watching {title}: asking {asked} …"
    silent = f"; no stock report: {'; '.join(watch.last.silent)}" if watch.last.silent else ""
    return (
        f"watching {title} until {format_utc(watch.until)}: none in stock; asked {asked}"
        f" {watch.looks} time{'' if watch.looks == 1 else 's'}, last at"
        f" {format_utc(watch.last.at)}{silent}"
    )


def _end_words(title: str, told: tuple[StockedOffer, ...] | BaseException | None) -> str:
    if told is None:
        return f"{title}: no longer watched"
    if isinstance(told, BaseException):
        return (
            f"{title}: no longer watched: {told.message if isinstance(told, NbprovError) else told}"
        )
    if not told:
        return f"{title}: was not in stock at any time while it was watched"
    places = [
        f"{format_place(one.offer.place)} {one.offer.instance_type}"
        f" at {per_hour(one.offer.hourly)} ({one.stock.level.value})"
        for one in told[:NAMED]
    ]
    more = f"; and {len(told) - NAMED} more" if len(told) > NAMED else ""
    return (
        f"▲ {title} is in stock: {'; '.join(places)}{more}. Stock can be gone in minutes:"
        " run your %%provision cell now"
    )
