"""Watches of stock: asked again and again until a cloud has it, and cancelled on request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shelf_world import LONG, Shelf, only

import nbprov
from nbprov import api
from nbprov.api.services.stock_watch import StockWatch
from nbprov.clouds import registry
from nbprov.model.errors import UsageError
from nbprov.model.stock import StockLevel
from nbprov.notebook.arguments import MagicParser
from nbprov.notebook.commands import watch as watch_command


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    made = Shelf(level=lambda pool: StockLevel.NONE)
    monkeypatch.setattr(registry, "_points", lambda: only(made))
    monkeypatch.setattr(registry, "_made", {})
    monkeypatch.setattr("nbprov.api.services.stock_watch.ASKED_AGAIN", 0.05)
    monkeypatch.setattr("nbprov.api.services.stock_watch.STOCK_SECONDS", 0.0)
    monkeypatch.setattr("nbprov.market.stock_probe.ASKED_AGAIN", 0.01)
    yield made
    made.telling.set()


@pytest.fixture
def session(shelf: Shelf, nbprov_home: Path) -> Iterator[api.Session]:
    try:
        yield nbprov.session()
    finally:
        api.close()
        watch_command._watches.clear()


def run(line: str) -> None:
    parser = MagicParser("%nbprov watch", "")
    watch_command.arguments(parser)
    watch_command.run(None, parser.parse_line(line), None)


async def watching_tasks() -> list[asyncio.Task[Any]]:
    """The watches that go on in this loop."""
    watch = StockWatch._watch.__qualname__
    return [t for t in asyncio.all_tasks() if getattr(t.get_coro(), "__qualname__", "") == watch]


def test_a_watch_ends_with_what_is_in_stock_cheapest_first(
    session: api.Session, shelf: Shelf
) -> None:
    looked = threading.Event()
    watch = session.watch_stock("L40S:1")
    watch.on_look = looked.set
    assert looked.wait(LONG)
    assert not watch.done
    shelf.level = lambda pool: StockLevel.LOW if pool.market == "on-demand" else None
    found = watch.wait(LONG)
    assert found
    assert all(
        one.stock.level is StockLevel.LOW and one.offer.market.value == "on-demand" for one in found
    )
    assert [one.offer.hourly for one in found] == sorted(one.offer.hourly for one in found)
    assert watch.looks >= 2
    assert shelf.creates == [], "nothing is launched"


def test_a_price_that_is_asked_for_holds(session: api.Session, shelf: Shelf) -> None:
    shelf.level = lambda pool: StockLevel.HIGH
    dear = session.watch_stock("L40S:1", market="on-demand").wait(LONG)
    cap = dear[0].offer.hourly
    assert all(
        one.offer.hourly <= cap
        for one in session.watch_stock("L40S:1", market="on-demand", max_hourly=cap).wait(LONG)
    )
    with pytest.raises(UsageError):
        session.watch_stock("L40S:1", max_hourly=1)


def test_a_watch_gives_up_in_time(session: api.Session) -> None:
    assert session.watch_stock("L40S:1", seconds=0.2).wait(LONG) == ()


def test_what_nobody_tells_cannot_be_watched(session: api.Session, shelf: Shelf) -> None:
    with pytest.raises(UsageError, match="no cloud that is set up tells the stock of this"):
        session.watch_stock("T4:1")


def test_the_command_lists_and_ends_watches(
    session: api.Session, shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    # Whether the first answer is there by then is a matter of milliseconds.
    run("L40S:1 --for 1h")
    assert "watching L40S:1" in capsys.readouterr().out
    run("")
    assert "watching L40S:1" in capsys.readouterr().out
    watching = session.engine.thread.call(watching_tasks()).result(LONG)
    assert len(watching) == 1
    run("--stop L40S:1")
    assert capsys.readouterr().out == "L40S:1: no longer watched\n"
    run("")
    assert capsys.readouterr().out == "nothing is watched\n"
    _, pending = session.engine.thread.call(asyncio.wait(watching, timeout=LONG)).result(2 * LONG)
    assert not pending, "nobody is asked any more"
    shelf.level = lambda pool: StockLevel.HIGH
    run("L40S:1 --max-price 50 --wait")
    told = capsys.readouterr().out
    assert "▲ L40S:1 at most $50.00/h is in stock: runpod/" in told
    assert "(high)" in told
