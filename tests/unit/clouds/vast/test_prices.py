"""Vast's prices from end to end: pages without page tokens, grouped into the catalogue's types."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fetch_context import Fetching
from hypothesis import given
from hypothesis import strategies as st
from vast_bundles import PATH, SCHEMA, VastDouble, offer
from web_double import WebDouble, busy, json_answer

from nbprov.clouds.pricing.fetcher import find
from nbprov.clouds.vast.offers import SIZES, aggregate, region_of
from nbprov.clouds.web.client import Stopped
from nbprov.model.failures import CloudError
from nbprov.model.money import usd
from nbprov.model.price_list import PriceList

SHIPPED = Path(__file__).parents[4] / "catalogs" / "vast"


@pytest.fixture
def web() -> Iterator[WebDouble]:
    with WebDouble() as double:
        yield double
        assert double.unexpected == []


def fetch(fetching: Fetching) -> PriceList:
    fetcher = find("vast")
    assert fetcher is not None
    assert fetcher.ready(fetching.context) == ""
    return fetcher.fetch(fetching.context)


def shipped_offers() -> tuple[list[dict[str, Any]], set[tuple[Any, ...]]]:
    """Return offers that may have led to the shipped rows, and those rows."""
    with (SHIPPED / "types.csv").open() as types, (SHIPPED / "prices.csv").open() as prices:
        sizes = {row["id"]: row for row in csv.DictReader(types)}
        rows = [{**sizes[row["id"]], **row} for row in csv.DictReader(prices)]
    offers, expected = [], set()
    for number, row in enumerate(rows):
        name = row["type"].split("-", 1)[1].rsplit("-", 2)[0].replace("_", " ")
        place, mib = row["region"].rpartition(",")[0], float(row["device_gib"]) * 1024
        offers.append(
            offer(
                number,
                name,
                float(row["on_demand"]),
                num_gpus=int(row["count"]),
                gpu_ram=mib,
                geolocation=place,
            )
        )
        sizes_of = (
            float(row["count"]),
            float(row["device_gib"]),
            float(row["vcpus"]),
            float(row["memory_gib"]),
        )
        expected.add(
            (
                row["type"],
                row["region"],
                row["accelerator"],
                row["maker"],
                row["arch"],
                *sizes_of,
                usd(row["on_demand"]),
            )
        )
    return offers, expected


def test_types_names_and_places_join_the_shipped_catalogue(web: WebDouble) -> None:
    offers, expected = shipped_offers()
    listed = fetch(Fetching(VastDouble(web, offers).endpoints))
    assert {
        (
            r.instance_type,
            r.region,
            r.accelerator,
            r.maker,
            r.arch,
            r.count,
            r.device_gib,
            r.vcpus,
            r.memory_gib,
            r.on_demand,
        )
        for r in listed.rows
    } == expected


def test_the_whole_market_is_read_however_few_offers_a_page_has(web: WebDouble) -> None:
    offers = [
        offer(
            number, "RTX 4090", round(0.2 + number % 50 / 100, 2), geolocation=f"Place{number}, SE"
        )
        for number in range(300)
    ]
    random.Random(1).shuffle(offers)
    fetching = Fetching(VastDouble(web, offers, cap=64).endpoints)
    listed = fetch(fetching)
    assert len(listed.rows) == 300
    assert fetching.seen[-1].what == "300 offers"
    assert len(web.asked) < 12
    assert {one.json["limit"] for one in web.asked} == {1000}


def test_more_offers_of_one_price_than_a_page_holds_do_not_end_in_a_circle(web: WebDouble) -> None:
    offers = [
        offer(number, "RTX 4090", 0.4, geolocation=f"Place{number}, SE") for number in range(100)
    ]
    assert len(fetch(Fetching(VastDouble(web, offers, cap=64).endpoints)).rows) == 64
    assert len(web.asked) == 2


def test_only_machines_that_can_be_rented_now_are_asked_for(web: WebDouble) -> None:
    good = offer(1, "RTX 4090", 0.4)
    bad = [
        offer(2 + n, "RTX 4090", 0.1, **change)
        for n, change in enumerate(
            ({"rented": True}, {"rentable": False}, {"verified": False}, {"disk_space": 10.0})
        )
    ]
    listed = fetch(Fetching(VastDouble(web, [good, *bad]).endpoints))
    assert [row.on_demand for row in listed.rows] == [400_000]


def test_the_cheapest_of_a_kind_and_place_stands_with_the_lowest_bid() -> None:
    rows = aggregate(
        [
            offer(1, "RTX 4090", 0.5, min_bid=0.1),
            offer(2, "RTX 4090", 0.4, min_bid=0.3),
            offer(3, "RTX 4090", 0.3, geolocation="Sweden, SE"),
        ]
    ).rows
    assert [(row.region, row.on_demand, row.spot) for row in rows] == [
        ("Sweden, SE, EU", 300_000, 150_000),
        ("Texas, US, NA", 400_000, 100_000),
    ]


@pytest.mark.parametrize("bid", [0, 0.0, None, 0.9])
def test_a_bid_that_says_nothing_is_no_spot_price(bid: float | None) -> None:
    assert aggregate([offer(1, "RTX 4090", 0.4, min_bid=bid)]).rows[0].spot is None


@pytest.mark.parametrize(
    ("change", "size"),
    [
        ({}, "32-65536"),
        ({"cpu_cores_effective": 31.9}, "16-32768"),
        ({"cpu_cores": 128, "cpu_cores_effective": 32, "cpu_ram": 131072}, "16-32768"),
        ({"cpu_cores": 64, "cpu_cores_effective": 8, "cpu_ram": 131072}, "8-16384"),
        ({"cpu_cores": 8, "cpu_cores_effective": 8, "cpu_ram": 64000}, "8-16384"),
        ({"cpu_cores": 32, "cpu_cores_effective": 32, "cpu_ram": 64300}, "32-65536"),
    ],
)
def test_a_size_is_what_comes_with_the_gpus_at_least(change: dict[str, Any], size: str) -> None:
    assert (
        aggregate([offer(1, "RTX 4090", 0.4, **change)]).rows[0].instance_type
        == f"1x-RTX_4090-{size}"
    )


def test_small_and_odd_offers_are_left_out_and_counted(web: WebDouble) -> None:
    offers = [
        offer(1, "RTX 4090", 0.4),
        offer(2, "RTX 4090", 0.1, cpu_cores_effective=2.0),
        offer(3, "", 0.2),
        offer(4, "RTX 4090", 0.3, geolocation=None),
    ]
    listed = fetch(Fetching(VastDouble(web, offers).endpoints))
    assert len(listed.rows) == 1
    assert listed.notes[0].startswith("a market at one moment")
    assert listed.notes[1:] == (
        "left out: 1 offers of machines with under 4 vCPUs or 8 GiB",
        "left out: 2 offers whose price, GPU or place could not be read",
    )


def test_one_name_with_two_sizes_of_memory_is_two_accelerators() -> None:
    rows = aggregate(
        [offer(1, "A100 SXM4", 0.8, gpu_ram=40960), offer(2, "A100 SXM4", 1.2, gpu_ram=81920)]
    ).rows
    assert [(row.instance_type, row.accelerator) for row in rows] == [
        ("1x-A100_SXM4-32-65536", "A100"),
        ("1x-A100_SXM4-32-65536", "A100-80GB"),
    ]


@pytest.mark.parametrize(
    ("said", "region"),
    [
        ("Texas, US", ("Texas, US, NA")),
        (", US", ", US, NA"),
        ("US", ", US, NA"),
        (("Hafnarfjarðarkaupstaður, IS"), "Hafnarfjarðarkaupstaður, IS, EU"),
        (("Australia, AU"), ("Australia, AU, OC")),
        ("Brazil, BR", ("Brazil, BR, LC")),
        ("Somewhere", "Somewhere"),
        ("Atlantis, ZZ", "Atlantis, ZZ"),
        (None, ""),
    ],
)
def test_places_bear_their_continent(said: str | None, region: str) -> None:
    assert region_of(said) == region


_offers = st.lists(
    st.builds(
        offer,
        st.integers(0, 10**6),
        st.sampled_from(["RTX 4090", "H100 SXM", "A100 SXM4"]),
        st.sampled_from([0.1, 0.25, 0.4, 3.0]),
        geolocation=st.sampled_from(["Texas, US", "Sweden, SE"]),
        cpu_cores_effective=st.sampled_from([1.0, 4.0, 9.0, 40.0]),
        min_bid=st.sampled_from([None, 0.0, 0.05, 5.0]),
    ),
    max_size=12,
)


@given(_offers, st.randoms())
def test_no_row_is_dearer_than_an_offer_and_order_does_not_matter(
    offers: list[dict[str, Any]], chance: random.Random
) -> None:
    market = aggregate(offers)
    shuffled = list(offers)
    chance.shuffle(shuffled)
    assert aggregate(shuffled).rows == market.rows
    assert market.small + market.unread <= len(offers)
    for row in market.rows:
        assert row.on_demand == min(
            usd(one["dph_total"]) for one in offers if _is_of(one, row.instance_type, row.region)
        )
        assert row.spot is None or row.spot <= row.on_demand


def _is_of(one: dict[str, Any], instance_type: str, region: str) -> bool:
    size = next(
        (
            f"{cores}-{mib}"
            for cores, mib in SIZES
            if one["cpu_cores_effective"] >= cores
            and one["cpu_cores_effective"] / 64 * 131072 >= mib
        ),
        "",
    )
    return (
        bool(size)
        and f"1x-{one['gpu_name'].replace(' ', '_')}-{size}" == instance_type
        and region_of(one["geolocation"]) == region
    )


_odd = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.integers(), max_size=2)
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(offer(1, "x", 1.0), _odd)))
def test_odd_offers_never_break_the_reading(one: dict[str, Any]) -> None:
    market = aggregate([one])
    assert len(market.rows) + market.small + market.unread == 1


def test_a_busy_service_and_a_torn_answer_are_asked_again(web: WebDouble) -> None:
    double = VastDouble(web, [offer(1, "RTX 4090", 0.4)])
    web.on(
        PATH, busy(429), busy(502), json_answer({"offers": double.offers}, cut=30), double.answer
    )
    fetching = Fetching(double.endpoints)
    assert fetch(fetching).rows
    assert fetching.pauses == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    "body", [[], {"offers": {}}, {"offers": []}, {"success": False, "msg": "no"}]
)
def test_an_answer_without_offers_is_an_error(web: WebDouble, body: Any) -> None:
    double = VastDouble(web, [])
    web.on(PATH, json_answer(body))
    with pytest.raises(CloudError):
        fetch(Fetching(double.endpoints))


def test_a_page_that_fails_fails_the_fetch(web: WebDouble) -> None:
    double = VastDouble(web, [offer(n, "RTX 4090", n / 100 + 0.1) for n in range(90)])
    web.on(PATH, double.answer, busy(503))
    with pytest.raises(CloudError):
        fetch(Fetching(double.endpoints))


def test_a_key_is_used_where_there_is_one_and_not_needed(web: WebDouble) -> None:
    double = VastDouble(web, [offer(1, "RTX 4090", 0.4)])
    fetch(Fetching(double.endpoints))
    assert "authorization" not in web.asked[0].headers
    fetch(Fetching(double.endpoints, keys={"api_key": "vast-1"}))
    assert web.asked[-1].headers["authorization"] == "Bearer vast-1"


def test_a_stop_is_heeded_between_pages(web: WebDouble) -> None:
    double = VastDouble(web, [offer(n, "RTX 4090", n / 100 + 0.1) for n in range(90)])
    fetching = Fetching(double.endpoints)
    fetching.context = replace(fetching.context, progress=lambda _: fetching.stop.set())
    with pytest.raises(Stopped):
        fetch(fetching)
    assert len(web.asked) == 1


def test_where_nobody_takes_bids_spot_prices_stay_as_they_were(web: WebDouble) -> None:
    assert fetch(
        Fetching(VastDouble(web, [offer(1, "RTX 4090", 0.4, min_bid=None)]).endpoints)
    ).unseen == {"spot"}


def test_the_double_speaks_vasts_shape() -> None:
    jsonschema.validate(json.loads(json.dumps({"offers": [offer(1, "RTX 4090", 0.4)]})), SCHEMA)
