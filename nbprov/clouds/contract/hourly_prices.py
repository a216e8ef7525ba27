"""Checks of prices: dollars of one machine for an hour everywhere, and none that nobody told."""

from __future__ import annotations

import contextlib
import re
import threading
from dataclasses import replace
from datetime import date
from itertools import product

import pytest

from nbprov.clouds.web.client import HttpClient
from nbprov.clouds.web.response import Stopped
from nbprov.model.money import format_usd
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.price_list import PriceList

from .checks import check, needs
from .relay import UNREADABLE, RelayedRequest, RelayFault
from .subject import CloudUnderTest

ELSEWHERE = "its price list is read from elsewhere (`fetcher` returns None)"
MOST_RATIO = 1.9
"""The largest ratio of a shipped price to today's. A wrong unit (cents, a month, each of two GPUs)
is a factor of two or more.
"""
MOST_QUOTES = 12
MOST_PARTS = 4
PRICED = re.compile(
    rb'("[^"]*(?:price|cents|cost|usd|hourly)[^"]*"\s*:\s*)"?\$?\d[\d.]*"?', re.IGNORECASE
)
"""A price in a JSON document, by the name of its field."""


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
    markets = [Market.ON_DEMAND, *([Market.SPOT] if subject.cloud.capabilities.spot else [])]
    for market in markets:
        launch = subject.launch(market=market)
        (machine,) = subject.running(launch)
        needs(machine.hourly is not None, "its listing tells no price")
        assert machine.hourly == launch.candidate.offer.hourly, (
            f"{market}: expected {launch.candidate.offer.hourly} micro-dollars an hour, got"
            f" {machine.hourly}"
        )


@check
def offers_have_the_units_of_the_catalogue(subject: CloudUnderTest) -> None:
    found = subject.cloud.offers()
    needs(found is not None, "its prices are the catalogue's (`offers` returns None)")
    first, *others = _wanted(subject)
    same = [o for o in found or () if _same(o, first) and o.market is first.market]
    assert len(same) == 1, f"expected one offer of {first}, got {same}"
    _compare(same[0], first)
    for wanted in others:
        for offer in found or ():
            if _same(offer, wanted) and offer.market is wanted.market:
                _compare(offer, wanted)
    for offer in found or ():
        assert subject.cloud.capabilities.simulated or date.fromisoformat(offer.as_of), offer


def _wanted(subject: CloudUnderTest) -> list[Offer]:
    """Return what the launches of a subject ask for."""
    launches = (subject.launch(), subject.other_launch())
    return [one.candidate.offer for one in launches if one is not None]


def _same(offer: Offer, wanted: Offer) -> bool:
    return (offer.region, offer.zone, offer.instance_type) == (
        wanted.region,
        wanted.zone,
        wanted.instance_type,
    )


def _compare(offer: Offer, wanted: Offer) -> None:
    assert wanted.hourly / MOST_RATIO <= offer.hourly <= wanted.hourly * MOST_RATIO, (
        f"{wanted.instance_type}: expected about {format_usd(wanted.hourly)} an hour,"
        f" got {format_usd(offer.hourly)}"
    )
    for name in ("accelerator", "accelerator_count", "vcpus", "memory_gib"):
        was, expected = getattr(offer, name), getattr(wanted, name)
        assert was is None or was == expected, f"{name}: expected {expected}, got {was}"


@check
def a_fetched_list_has_the_units_of_the_catalogue(subject: CloudUnderTest) -> None:
    found = subject.price_list()
    needs(found, ELSEWHERE)
    assert found is not None
    for wanted in _wanted(subject):
        _compare_rows(found, wanted)
    shipped = {
        (offer.region, offer.zone, offer.instance_type): offer.hourly
        for offer in subject.cloud.offers() or ()
        if offer.market is Market.ON_DEMAND
    }
    for row in found.rows:
        was, now = shipped.get((row.region, row.zone, row.instance_type)), row.on_demand
        assert not was or not now or now / MOST_RATIO <= was <= now * MOST_RATIO, (
            f"{row.instance_type} in {row.region}: {format_usd(was)} is shipped, {format_usd(now)}"
            " was fetched"
        )


def _compare_rows(found: PriceList, wanted: Offer) -> None:
    """Compare the rows of a list that an offer is of with this offer."""
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
        price = row.on_demand if wanted.market is Market.ON_DEMAND else row.spot
        assert price == wanted.hourly, (
            f"{wanted.instance_type}: expected {wanted.hourly} micro-dollars of a machine for an"
            f" hour, fetched {price}"
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
    needs(subject.fetcher(), ELSEWHERE)
    empty: list[RelayFault] = []
    for fault in UNREADABLE:
        script = subject.relay.scripted(lambda *_, fault=fault: fault)
        with script, contextlib.suppress(Exception):
            found = _fetched(subject)
            is_told = found is not None and (found.rows or found.failed)
            empty += [] if is_told else [fault]
    assert empty == [], (
        "for a price list: expected an error, or the regions that could not be read; got an empty"
        f" list, which says that nothing is sold, where the answer was {empty}"
    )


def _fetched(subject: CloudUnderTest) -> PriceList:
    """Fetch the price list, without pauses between two attempts."""
    found = subject.fetcher()
    assert found is not None
    return found.fetch(subject.fetch_context(HttpClient(pause=lambda _: None)))


@check
def a_part_of_a_price_list_that_cannot_be_read_is_named(subject: CloudUnderTest) -> None:
    """A region that is left out in silence is no longer sold, as far as anybody can see."""
    needs(subject.fetcher(), ELSEWHERE)
    with subject.relay.noted() as sent:
        whole = _fetched(subject)
    parts = [one.line for one in sent]
    for part, fault in product([*dict.fromkeys(parts)][:MOST_PARTS], UNREADABLE):

        def spoil(
            _: int, one: RelayedRequest, part: object = part, fault: RelayFault = fault
        ) -> RelayFault | None:
            return fault if one.line == part else None

        with subject.relay.scripted(spoil):
            try:
                found = _fetched(subject)
            except Exception as error:
                subject.cloud.classify(error)
                continue
        lost = {one.region for one in whole.rows} - {one.region for one in found.rows}
        if found.covered is not None:
            lost &= found.covered
        assert lost <= {*found.failed}, (
            f"{fault} for {part[:2]}: the list lacks the regions {sorted(lost)}: expected them in"
            f" `failed`, which is {dict(found.failed)}"
        )


@check
def a_fetcher_says_what_it_lacks(subject: CloudUnderTest) -> None:
    """A fetcher that is not ready and does not say so leaves old prices, and nobody learns why."""
    found = subject.fetcher()
    needs(found, ELSEWHERE)
    assert found is not None
    with subject.relay.noted() as sent:
        said = found.ready(subject.fetch_context())
    assert said == "", f"with its credentials: expected no hindrance, got {said!r}"
    assert sent == [], f"`ready` is to send nothing; it sent {sent}"
    with pytest.MonkeyPatch.context() as patch:
        for variable in subject.credentials:
            patch.delenv(variable, raising=False)
        said = found.ready(subject.fetch_context())
        listed = None
        with contextlib.suppress(Exception):  # an error tells of the hindrance as well
            listed = None if said else subject.price_list()
        assert listed is None or listed.rows, (
            "without credentials `ready` names no hindrance, and the list has no prices"
        )
    assert not said or any(name in said for name in subject.credentials), (
        f"`ready` has to name what is missing ({', '.join(subject.credentials)}); it says {said!r}"
    )


@check
def a_fetcher_obeys_the_stop(subject: CloudUnderTest) -> None:
    """What is not sent through `context.http` has neither its stop nor its deadlines."""
    found = subject.fetcher()
    needs(found, ELSEWHERE)
    assert found is not None
    stop = threading.Event()
    stop.set()
    with subject.relay.noted() as sent, pytest.raises(Stopped):
        found.fetch(subject.fetch_context(HttpClient(stop=stop)))
    assert sent == [], f"a fetch that was stopped sent {sent}"


@check
def a_quote_is_of_its_type_in_its_place(subject: CloudUnderTest) -> None:
    """Quotes and the fetched list agree; who mixes rows up launches at a price nobody saw."""
    found, launch = subject.price_list(), subject.launch()
    needs(found, ELSEWHERE)
    needs(subject.cloud.quote(launch.candidate), "it quotes no price (`quote` returns None)")
    assert found is not None
    rows = [row for row in found.rows if row.region][:MOST_QUOTES]
    for row, market in product(rows, Market):
        price = row.on_demand if market is Market.ON_DEMAND else row.spot
        if price is None:
            continue
        offer = replace(
            launch.candidate.offer,
            region=row.region,
            zone=row.zone,
            instance_type=row.instance_type,
            accelerator=row.accelerator,
            accelerator_count=row.count,
            market=market,
        )
        quoted = subject.make().quote(replace(launch.candidate, offer=offer))
        assert quoted is None or quoted.hourly == price, (
            f"{row.instance_type} in {row.region}, {market}: expected {price}, as fetched; quoted"
            f" {quoted.hourly}"
        )


@check
def an_unknown_price_is_not_free(subject: CloudUnderTest) -> None:
    relay, launch, found = subject.relay, subject.launch(), list[int]()
    (machine,) = subject.running(launch)

    def unpriced(_: int, body: bytes) -> bytes:
        body, count = PRICED.subn(rb"\1null", body)
        found.append(count)
        return body

    prices: list[object] = []
    with relay.rewritten(unpriced):
        with contextlib.suppress(Exception):
            prices += [one.hourly for one in subject.make().list(launch.owner)]
        with contextlib.suppress(Exception):
            quoted = subject.make().quote(launch.candidate)
            prices += [quoted.hourly] if quoted else []
        with contextlib.suppress(Exception):
            fetched = subject.price_list()
            for row in fetched.rows if fetched else ():
                prices += [row.on_demand, row.spot]
    needs(sum(found), "its answers are no JSON with prices under names that say so")
    assert 0 not in prices, f"prices that the cloud does not tell: expected None, got {prices}"
    subject.cloud.terminate([machine.id])


@check
def a_quote_that_cannot_be_asked_is_not_told(subject: CloudUnderTest) -> None:
    launch = subject.launch()
    with subject.relay.noted() as sent:
        needs(subject.make().quote(launch.candidate), "it quotes no price (`quote` returns None)")
    needs(sent, "quotes are asked of another service")
    for fault in UNREADABLE:
        with subject.relay.scripted(lambda *_, fault=fault: fault):
            try:
                told = subject.make().quote(launch.candidate)
            except Exception as error:
                subject.cloud.classify(error)
                continue
        assert told is None, f"{fault} for a quote: expected an error or no answer, got {told}"
