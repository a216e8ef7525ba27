"""Checks of prices and stock: dollars an hour everywhere, and levels that follow what is left."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from nbprov.model.money import format_usd
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.stock import StockLevel

from .checks import check, needs
from .relay import PAGE, RelayFault
from .subject import CloudUnderTest

UNREADABLE = (RelayFault(500, PAGE), RelayFault(429, b"", {"Retry-After": "0"}), RelayFault())
NEAR = 2.0
"""How far a shipped price may be from today's: a price in cents, a month or for each GPU is not."""


@check
def a_price_is_asked_again(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    before = subject.cloud.quote(launch.candidate)
    needs(before, "it quotes no price (`quote` returns None)")
    assert before is not None
    assert before.hourly == launch.candidate.offer.hourly, "dollars of one node for an hour"
    subject.change_price(1.5)
    after = subject.make().quote(launch.candidate)
    assert after is not None
    assert after.hourly == round(before.hourly * 1.5)


@check
def a_machine_costs_what_its_offer_does(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    (machine,) = subject.running(launch)
    needs(machine.hourly is not None, "its listing tells no price")
    assert machine.hourly == launch.candidate.offer.hourly, (
        f"expected {launch.candidate.offer.hourly} micro-dollars an hour, got {machine.hourly}"
    )


@check
def offers_have_the_units_of_the_catalogue(subject: CloudUnderTest) -> None:
    found = subject.cloud.offers()
    needs(found is not None, "its prices are the catalogue's (`offers` returns None)")
    wanted = subject.launch().candidate.offer
    same = [o for o in found or () if _same(o, wanted) and o.market is wanted.market]
    assert len(same) == 1, f"expected one offer of {wanted}, got {same}"
    _compare(same[0], wanted)


def _same(offer: Offer, wanted: Offer) -> bool:
    return (offer.region, offer.zone, offer.instance_type) == (
        wanted.region,
        wanted.zone,
        wanted.instance_type,
    )


def _compare(offer: Offer, wanted: Offer) -> None:
    assert wanted.hourly / NEAR <= offer.hourly <= wanted.hourly * NEAR, (
        f"{wanted.instance_type}: expected about {format_usd(wanted.hourly)} an hour,"
        f" got {format_usd(offer.hourly)}"
    )
    for name in ("accelerator", "accelerator_count", "vcpus", "memory_gib"):
        was, expected = getattr(offer, name), getattr(wanted, name)
        assert was is None or was == expected, f"{name}: expected {expected}, got {was}"


@check
def a_fetched_list_has_the_units_of_the_catalogue(subject: CloudUnderTest) -> None:
    found, wanted = subject.price_list(), subject.launch().candidate.offer
    needs(found, "its price list is read from elsewhere (`price_list` returns None)")
    assert found is not None
    rows = [
        row
        for row in found.rows
        if row.instance_type == wanted.instance_type
        and row.region in ("", wanted.region)
        and row.zone in ("", wanted.zone)
        and (row.on_demand if wanted.market is Market.ON_DEMAND else row.spot) is not None
    ]
    assert rows, f"the fetched list has no price of {wanted.instance_type} in {wanted.place}"
    for row in rows:
        assert row.on_demand == wanted.hourly, (
            f"{wanted.instance_type}: expected {wanted.hourly} micro-dollars of a machine for an"
            f" hour, fetched {row.on_demand}"
        )
        for name, was, expected in (
            ("accelerator", row.accelerator, wanted.accelerator),
            ("count", row.count, wanted.accelerator_count),
            ("vcpus", row.vcpus, wanted.vcpus),
            ("memory_gib", row.memory_gib, wanted.memory_gib),
        ):
            assert was is None or was == expected, f"{name}: expected {expected}, fetched {was}"


@check
def a_price_list_that_cannot_be_read_is_not_empty(subject: CloudUnderTest) -> None:
    needs(subject.price_list(), "its price list is read from elsewhere (`price_list` returns None)")
    empty: list[RelayFault] = []
    for fault in UNREADABLE:
        script = subject.relay.scripted(lambda *_, fault=fault: fault)
        with script, contextlib.suppress(Exception):
            found = subject.price_list()
            is_told = found is not None and (found.rows or found.failed)
            empty += [] if is_told else [fault]
    assert empty == [], (
        "for a price list: expected an error, or the regions that could not be read; got an empty"
        f" list, which says that nothing is sold, where the answer was {empty}"
    )


@check
def stock_that_cannot_be_asked_is_not_told(subject: CloudUnderTest) -> None:
    needs(subject.cloud.capabilities.stock_probe, "stock_probe is False")
    offer = subject.launch().candidate.offer
    for fault in UNREADABLE:
        with subject.relay.scripted(lambda *_, fault=fault: fault):
            try:
                told = [*subject.make().stock([offer], 1)]
            except Exception as error:
                subject.cloud.classify(error)
                continue
        assert told == [], f"{fault} for stock: expected an error or no answer, got {told}"


@check
def stock_follows_what_is_left(subject: CloudUnderTest) -> None:
    needs(subject.cloud.capabilities.stock_probe, "stock_probe is False")
    needs(subject.tells_stock, "it tells the stock of another market alone (`tells_stock`)")
    offer = subject.launch().candidate.offer
    odd = replace(offer, instance_type="type-nobody-knows")
    levels = []
    for left in (20, 0, 20):
        subject.leave(left)
        told = {one.pool: one.level for one in subject.make().stock([offer, odd], 1)}
        odd_level = told.get(odd.pool, StockLevel.NONE)
        assert odd_level is StockLevel.NONE, f"a type that nobody knows is in stock: {told}"
        levels.append(next((level for pool, level in told.items() if _covers(pool, offer)), None))
    assert levels[0] not in (None, StockLevel.NONE), f"with 20 left: got {levels[0]}"
    assert levels[1] is StockLevel.NONE, f"with none left: expected none, got {levels[1]}"
    assert levels[2] not in (None, StockLevel.NONE), f"with 20 again: got {levels[2]}"


def _covers(pool: tuple[str, ...], offer: Offer) -> bool:
    return all(said in ("", mine) for said, mine in zip(pool, offer.pool, strict=True))
