"""Checks of stock: levels that follow what is left, for so many machines, in the place asked of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from nbprov.model.failures import CloudError
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.stock import Stock, StockLevel

from .checks import check, needs
from .relay import UNREADABLE
from .subject import CloudUnderTest

STOCK_CHECKS = (
    "stock_follows_what_is_left",
    "stock_is_for_so_many_machines",
    "stock_is_of_the_place_that_was_asked_for",
    "a_type_that_nobody_knows_is_not_in_stock",
    "stock_that_is_not_told_is_not_none",
)
"""The checks of levels: a cloud that tells none lists them in `does_not_apply`."""
TOLD = re.compile(
    rb'("(?:left|[^"]*(?:stock|availab|capacity|inventory|supply)[^"]*)"\s*:\s*)'
    rb'(?:"[^"]*"|-?\d[\d.]*|true|false)',
    re.IGNORECASE,
)
"""What a JSON document tells of stock, by the name of its field."""


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
    _needs_stock(subject)
    offer = subject.launch().candidate.offer
    levels = []
    for left in (20, 0, 20):
        subject.leave(left)
        levels.append(_level(subject, offer))
    spot = replace(offer, market=Market.SPOT)
    told = [] if subject.cloud.capabilities.spot else _told(subject, spot)
    assert all(one.level is StockLevel.NONE for one in told if _covers(one, spot)), (
        f"no spot is sold: {told}"
    )
    assert levels[0] not in (None, StockLevel.NONE), f"with 20 left: got {levels[0]}"
    assert levels[1] is StockLevel.NONE, f"with none left: expected none, got {levels[1]}"
    assert levels[2] not in (None, StockLevel.NONE), f"with 20 again: got {levels[2]}"


@check
def stock_is_for_so_many_machines(subject: CloudUnderTest) -> None:
    _needs_stock(subject)
    offer = subject.launch().candidate.offer
    subject.leave(20)
    many = _level(subject, offer, count=2)
    if not subject.counts_stock:
        assert many in (None, StockLevel.NONE), (
            f"it tells the stock of one machine (`counts_stock`), and of two at once it says {many}"
        )
        return
    assert many not in (None, StockLevel.NONE), f"20 left, two wanted at once: got {many}"
    subject.leave(1)
    one, two = _level(subject, offer), _level(subject, offer, count=2)
    assert one not in (None, StockLevel.NONE), f"one left, one wanted: got {one}"
    assert two in (None, StockLevel.NONE), f"one left, two wanted at once: got {two}"


@check
def stock_is_of_the_place_that_was_asked_for(subject: CloudUnderTest) -> None:
    """A pool without a region speaks of all regions, and would take them out of a plan."""
    _needs_stock(subject)
    offer = subject.launch().candidate.offer
    subject.leave(0)
    told = [one for one in _told(subject, offer) if _covers(one, offer)]
    assert told, f"with none left in {offer.place}: expected none, got no answer"
    for one in told:
        assert one.pool.region == offer.region, (
            f"asked for {offer.place}: expected the stock of {offer.region}, got it of"
            f" {one.pool.region or 'every region'}: {one}"
        )
    other = subject.other_launch()
    if other is not None and other.candidate.offer.region != offer.region:
        _is_of_its_own_region(subject, offer, other.candidate.offer)


def _is_of_its_own_region(subject: CloudUnderTest, offer: Offer, other: Offer) -> None:
    """Stock that comes and goes in one region changes nothing that is told of another."""
    there = replace(offer, region=other.region, zone=other.zone)
    seen = []
    for left in (0, 20):
        subject.leave(left)
        asked = (there, offer, other)
        alone = [_level(subject, one) for one in asked]
        beside = [_level_in(_told(subject, *asked), one) for one in asked]
        assert beside == alone, (
            f"asked for {[str(one.place) for one in asked]} at once: expected the levels {alone},"
            f" which they have alone, got {beside}"
        )
        seen.append((alone[0], alone[2]))
    assert seen[0] == seen[1], (
        f"{offer.instance_type} sold out in {offer.region} and came back: expected what is told of"
        f" {there.place} to stay, got first {seen[0]} and then {seen[1]}"
    )
    needs(
        seen[0][0] not in (None, StockLevel.NONE),
        f"its double sells {offer.instance_type} in {offer.region} alone: nothing shows whether the"
        " stock of one region is told of another",
    )


@check
def a_type_that_nobody_knows_is_not_in_stock(subject: CloudUnderTest) -> None:
    """It must not hide the stock of the types beside it either."""
    _needs_stock(subject)
    offer = subject.launch().candidate.offer
    odd = replace(offer, instance_type="type-nobody-knows")
    subject.leave(20)
    try:
        told = _told(subject, offer, odd)
    except Exception as error:
        raise AssertionError(
            f"stock of a type that nobody knows: expected none or no answer, got {error!r}"
        ) from error
    assert all(one.level is StockLevel.NONE for one in told if _covers(one, odd)), (
        f"a type that nobody knows is in stock: {told}"
    )
    assert any(one.level is not StockLevel.NONE for one in told if _covers(one, offer)), (
        f"asked for beside a type that nobody knows, stock is hidden: {told}"
    )


@check
def stock_that_is_not_told_is_not_none(subject: CloudUnderTest) -> None:
    _needs_stock(subject)
    offer = subject.launch().candidate.offer
    subject.leave(20)
    before = _level(subject, offer)
    with subject.relay.rewritten(lambda _, body: TOLD.sub(rb"\1null", body)):
        try:
            level = _level(subject, offer)
        except CloudError:
            level = None
    needs(level != before, "its answers are no JSON with levels under names that say so")
    assert level is not StockLevel.NONE, (
        "where the cloud tells no level: expected no answer, got that there is none"
    )


def _needs_stock(subject: CloudUnderTest) -> None:
    needs(subject.cloud.capabilities.stock_probe, "stock_probe is False")
    needs(subject.tells_stock, "it tells the stock of another market alone (`tells_stock`)")


def _told(subject: CloudUnderTest, *offers: Offer, count: int = 1) -> Sequence[Stock]:
    """Ask a new adapter for the stock of offers."""
    return [*subject.make().stock([*offers], count)]


def _level(subject: CloudUnderTest, offer: Offer, count: int = 1) -> StockLevel | None:
    """Ask for the level of one offer; None if it is not told."""
    return _level_in(_told(subject, offer, count=count), offer)


def _level_in(told: Sequence[Stock], offer: Offer) -> StockLevel | None:
    return next((one.level for one in told if _covers(one, offer)), None)


def _covers(one: Stock, offer: Offer) -> bool:
    return all(said in ("", mine) for said, mine in zip(one.pool, offer.pool, strict=True))
