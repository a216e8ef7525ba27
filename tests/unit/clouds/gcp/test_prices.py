"""Google's prices from end to end: SKUs and zones from a double, added up to rows of the
catalogue.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fetch_context import TODAY, Fetching
from gcp_billing import (
    AGGREGATED,
    KEY,
    PROJECT,
    SCHEMA,
    SKUS_PATH,
    TOKEN,
    GcpDouble,
    lookalikes,
    parts,
    sku,
)
from web_double import Asked, WebDouble, busy, json_answer

from nbprov.catalog.sources import gcp_hosts
from nbprov.catalog.sources.price_entry import PriceEntry, Reading
from nbprov.clouds.pricing.fetcher import find
from nbprov.clouds.web.client import Stopped
from nbprov.model.failures import Cause, CloudError
from nbprov.model.money import usd
from nbprov.model.price_list import PriceList, PriceRow

SHIPPED = Path(__file__).parents[4] / "catalogs" / "gcp"


@pytest.fixture
def web() -> Iterator[WebDouble]:
    with WebDouble() as double:
        yield double
        assert double.unexpected == []


def read(double: GcpDouble, **given: Any) -> PriceList:
    return fetch(Fetching(double.endpoints, keys={"api_key": KEY}, **given))


def fetch(fetching: Fetching) -> PriceList:
    fetcher = find("gcp")
    assert fetcher is not None
    return fetcher.fetch(fetching.context)


def by_type(listed: PriceList, region: str = "us-central1") -> dict[str, PriceRow]:
    return {
        row.instance_type or f"{row.accelerator}:{row.count:g}": row
        for row in listed.rows
        if row.region == region
    }


def shipped() -> dict[str, dict[str, str]]:
    with (SHIPPED / "types.csv").open() as types, (SHIPPED / "prices.csv").open() as prices:
        sizes = {row["id"]: row for row in csv.DictReader(types)}
        return {
            row["id"]: {**sizes[row["id"]], **row}
            for row in csv.DictReader(prices)
            if row["region"] == "us-central1"
        }


def test_the_parts_add_up_to_the_list_prices_of_the_shipped_catalogue(web: WebDouble) -> None:
    rows, known = by_type(read(GcpDouble(web))), shipped()
    sold_on_demand = [name for name in known if name in rows and rows[name].on_demand is not None]
    assert len(sold_on_demand) > 70
    for name in sold_on_demand:
        assert rows[name].on_demand == pytest.approx(usd(known[name]["on_demand"]), abs=3), name


def test_names_and_sizes_join_the_shipped_catalogue(web: WebDouble) -> None:
    rows, known = by_type(read(GcpDouble(web))), shipped()
    both = known.keys() & rows.keys()
    assert {
        "a2-ultragpu-8g",
        "a3-highgpu-1g",
        "g2-standard-96",
        "n1-highcpu-96",
        "n2-highmem-128",
        "T4:4",
        "V100:8",
    } <= both
    for name in both:
        row, old = rows[name], known[name]
        assert (row.accelerator, f"{row.count:g}" if row.count else "") == (
            old["accelerator"],
            old["count"],
        ), name
        assert [
            f"{size:g}" if size else "" for size in (row.vcpus, row.memory_gib, row.device_gib)
        ] == [
            old["vcpus"],
            old["memory_gib"],
            old["device_gib"],
        ], name


def test_every_type_of_the_shipped_catalogue_is_known() -> None:
    from nbprov.clouds.gcp.catalog.machine_types import machines

    with (SHIPPED / "types.csv").open() as types:
        wanted = {
            (row["type"], row["accelerator"], row["count"] and float(row["count"]))
            for row in csv.DictReader(types)
        }
    assert wanted <= {
        (m.name, m.device.name if m.device else "", m.count or "") for m in machines()
    }


def test_lines_that_look_alike_change_nothing(web: WebDouble) -> None:
    clean = read(GcpDouble(web, parts())).rows
    assert read(GcpDouble(web, [*lookalikes(), *parts(), *lookalikes()])).rows == clean


def test_the_cheap_h100_of_another_deal_is_not_taken(web: WebDouble) -> None:
    assert by_type(read(GcpDouble(web)))["a3-highgpu-8g"].on_demand == pytest.approx(
        88_490_000, abs=5
    )


def test_small_a3_machines_are_sold_as_spot_only(web: WebDouble) -> None:
    rows = by_type(read(GcpDouble(web)))
    assert [rows[f"a3-highgpu-{count}g"].on_demand is None for count in (1, 2, 4, 8)] == [
        True,
        True,
        True,
        False,
    ]
    assert all((rows[f"a3-highgpu-{count}g"].spot or 0) > 0 for count in (1, 2, 4, 8))


def test_accelerators_apart_and_their_hosts_become_whole_machines_in_the_catalogue(
    web: WebDouble,
) -> None:
    listed = read(GcpDouble(web))
    reading = Reading([entry(row, listed) for row in listed.rows])
    gcp_hosts.join(reading)
    machines = {(e.instance_type, e.zone): e for e in reading.entries}
    joined = machines["n1-standard-4+1xT4", "us-central1-a"]
    assert (joined.on_demand, joined.vcpus) == (189_999 + 350_000, 4)
    assert not reading.left_out


def entry(row: PriceRow, listed: PriceList) -> PriceEntry:
    return PriceEntry(
        "gcp",
        row.region,
        row.zone,
        row.instance_type,
        row.accelerator,
        row.count,
        row.device_gib,
        row.maker,
        row.vcpus,
        row.memory_gib,
        row.arch,
        row.on_demand,
        row.spot,
        listed.source,
        listed.as_of,
        listed.source,
        listed.as_of,
    )


def test_a_machine_of_which_a_part_lacks_is_left_out_and_counted(web: WebDouble) -> None:
    lines = [line for line in parts() if "A2 Instance Ram" not in line["description"]]
    listed = read(GcpDouble(web, lines))
    assert not [row for row in listed.rows if row.instance_type.startswith("a2-")]
    assert [
        note
        for note in listed.notes
        if "9 machines with a part that has no price" in note and "a2 memory in us-central1" in note
    ]


def test_a_machine_with_local_ssd_is_never_priced_without_it(web: WebDouble) -> None:
    lines = [line for line in parts() if not line["description"].startswith("SSD")]
    names = by_type(read(GcpDouble(web, lines))).keys()
    assert "a2-highgpu-1g" in names
    assert not {"a2-ultragpu-1g", "a3-highgpu-8g", "a3-megagpu-8g"} & names


def test_a_part_with_two_prices_is_used_by_no_machine(web: WebDouble) -> None:
    listed = read(
        GcpDouble(web, [*parts(), sku("N2 Instance Core running in Iowa", 0.5, group="CPU")])
    )
    assert "n2-standard-4" in by_type(listed)
    assert by_type(listed)["n2-standard-4"].on_demand is None
    assert [
        note
        for note in listed.notes
        if "1 prices of parts that Google lists twice" in note and "n2 core in us-central1" in note
    ]


def test_a_region_without_gpus_sells_none_though_google_prices_them_there(web: WebDouble) -> None:
    listed = read(GcpDouble(web, [*parts(), *parts("Milan", ("europe-west8",))]))
    milan = by_type(listed, "europe-west8")
    assert "n2-standard-4" in milan
    assert not {"T4:1", "a2-highgpu-1g", "g2-standard-4"} & milan.keys()


def test_without_a_login_accelerators_stand_in_the_zones_of_old(web: WebDouble) -> None:
    listed = read(GcpDouble(web))
    assert {row.zone for row in listed.rows if row.instance_type == "a2-ultragpu-1g"} == {
        "us-central1-a",
        "us-central1-c",
    }
    assert {row.zone for row in listed.rows if row.instance_type == "n2-standard-4"} == {""}
    assert listed.notes[0].startswith("zones were not read, which needs a Google login")


ZONES = {
    "us-central1-a": (
        ["a2-highgpu-1g", "n1-standard-4", "n2-standard-4", "m3-ultramem-32"],
        ["nvidia-tesla-t4", "nvidia-tesla-t4-vws"],
    ),
    "us-central1-b": (["n1-standard-4"], []),
    "us-central1-f": (["a2-highgpu-1g"], ["nvidia-tesla-v100", "ct5lp"]),
}


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def with_file_of(double: GcpDouble) -> None:
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(double.login_file(tmp_path)))

    return with_file_of


def test_with_a_login_the_compute_api_says_which_zone_has_what(web: WebDouble, login: Any) -> None:
    double = GcpDouble(web, zones=ZONES)
    login(double)
    listed = fetch(Fetching(double.endpoints))
    zones: dict[str, set[str]] = {}
    for row in listed.rows:
        zones.setdefault(row.instance_type or row.accelerator, set()).add(row.zone)
    assert zones == {
        "a2-highgpu-1g": {"us-central1-a", "us-central1-f"},
        "n1-standard-4": {"us-central1-a", "us-central1-b"},
        "n2-standard-4": {"us-central1-a"},
        "T4": {"us-central1-a"},
        "V100": {"us-central1-f"},
    }
    asked = [one for one in web.asked if one.path == SKUS_PATH]
    assert {one.headers.get("authorization") for one in asked} == {f"Bearer {TOKEN}"}
    assert not any("key" in one.query for one in asked)
    assert sum(one.path.startswith(AGGREGATED) for one in web.asked) == 4
    assert [note for note in listed.notes if "zones" in note] == []


def test_an_ai_zone_belongs_to_its_region(web: WebDouble, login: Any) -> None:
    double = GcpDouble(web, zones={"us-central1-ai1a": (["a2-highgpu-1g"], [])})
    login(double)
    assert {(row.region, row.zone) for row in fetch(Fetching(double.endpoints)).rows} == {
        ("us-central1", "us-central1-ai1a")
    }


def test_without_a_login_accelerators_of_unknown_zones_stand_in_priced_regions_and_it_is_said(
    web: WebDouble,
) -> None:
    listed = read(GcpDouble(web, [*parts(), *parts("Milan", ("europe-west8",))]))
    assert {(row.region, row.zone) for row in listed.rows if row.accelerator == "P100"} == {
        ("us-central1", ""),
        ("europe-west8", ""),
    }
    assert "B200, P100, P4, RTXPRO6000 in every region with a price" in listed.notes[0]


def test_an_api_key_goes_to_billing_and_the_login_to_compute(web: WebDouble, login: Any) -> None:
    double = GcpDouble(web, zones=ZONES)
    login(double)
    read(double)
    assert {one.query.get("key") for one in web.asked if one.path == SKUS_PATH} == {KEY}
    assert all("authorization" not in one.headers for one in web.asked if one.path == SKUS_PATH)
    assert {
        one.headers["authorization"] for one in web.asked if one.path.startswith(AGGREGATED)
    } == {f"Bearer {TOKEN}"}


def test_a_zone_that_does_not_answer_keeps_its_region_as_it_was(web: WebDouble, login: Any) -> None:
    double = GcpDouble(
        web,
        [*parts(), *parts("Belgium", ("europe-west1",))],
        zones={**ZONES, "europe-west1-b": (["n2-standard-4"], [])},
    )
    double.unreachable = [f"projects/{PROJECT}/zones/europe-west1-c"]
    login(double)
    listed = fetch(Fetching(double.endpoints))
    assert listed.failed == {"europe-west1": "zone europe-west1-c did not answer"}
    assert {row.region for row in listed.rows} == {"us-central1"}


def test_a_login_that_may_not_read_zones_still_reads_prices(web: WebDouble, login: Any) -> None:
    double = GcpDouble(web)
    login(double)
    listed = fetch(Fetching(double.endpoints))
    assert "n2-standard-4" in by_type(listed)
    assert "permission missing" in listed.notes[0]


def test_pages_are_followed_to_the_last(web: WebDouble) -> None:
    double = GcpDouble(web, page=7)
    fetching = Fetching(double.endpoints, keys={"api_key": KEY})
    listed = fetch(fetching)
    pages = -(-len(double.skus) // 7)
    assert len(web.asked) == pages
    assert {one.query["pageSize"] for one in web.asked} == {"5000"}
    assert fetching.seen[-1].what == f"price list, {len(double.skus)} lines"
    assert listed.rows == read(GcpDouble(web, page=5000)).rows


def test_the_double_speaks_googles_shape(web: WebDouble) -> None:
    double = GcpDouble(web, page=5000)
    answer = double.answer_skus(Asked("GET", SKUS_PATH, {"key": KEY, "pageSize": "5000"}, {}, b""))
    assert isinstance(answer.body, bytes)
    jsonschema.validate(json.loads(answer.body), SCHEMA)


def test_a_busy_service_and_a_torn_answer_are_asked_again(web: WebDouble) -> None:
    double = GcpDouble(web, page=5000)
    torn = double.answer_skus(
        Asked("GET", SKUS_PATH, {"key": KEY, "pageSize": "5000"}, {}, b"")
    ).with_(cut=4000)
    web.on(SKUS_PATH, busy(429, retry_after=7), busy(503), torn, double.answer_skus)
    fetching = Fetching(double.endpoints, keys={"api_key": KEY})
    assert fetch(fetching).rows
    assert fetching.pauses == [7.0, 2.0, 4.0]


@pytest.mark.parametrize("key", ["AIza-another", ""])
def test_a_key_that_is_refused_is_named_as_such(web: WebDouble, key: str) -> None:
    double = GcpDouble(web)
    with pytest.raises(CloudError) as refused:
        fetch(Fetching(double.endpoints, keys={"api_key": key}))
    assert refused.value.failure.cause is Cause.CREDENTIALS
    assert key not in str(refused.value) or not key


def test_a_list_without_a_known_part_is_an_error(web: WebDouble) -> None:
    with pytest.raises(CloudError, match="no price of a machine part"):
        read(GcpDouble(web, lookalikes()))


def test_an_answer_of_another_shape_is_an_error(web: WebDouble) -> None:
    double = GcpDouble(web)
    web.on(SKUS_PATH, json_answer(["skus"]))
    with pytest.raises(CloudError, match="not as documented"):
        read(double)


def test_only_regions_that_were_asked_for_are_covered(web: WebDouble) -> None:
    double = GcpDouble(web, [*parts(), *parts("Belgium", ("europe-west1",))])
    listed = read(double, regions=("europe-west1", "mars-north1"))
    assert {row.region for row in listed.rows} == {"europe-west1"}
    assert listed.covered == {"europe-west1", "mars-north1"}
    assert listed.failed == {"mars-north1": "not in Google's price list"}


def test_a_stop_is_heeded_between_pages(web: WebDouble) -> None:
    double = GcpDouble(web, page=5)
    fetching = Fetching(double.endpoints, keys={"api_key": KEY})
    fetching.context = replace(fetching.context, progress=lambda _: fetching.stop.set())
    with pytest.raises(Stopped):
        fetch(fetching)
    assert len(web.asked) == 1


def test_rows_bear_source_and_date(web: WebDouble) -> None:
    listed = read(GcpDouble(web))
    assert (listed.as_of, listed.unseen) == (TODAY, frozenset())
    assert re.search("Billing catalogue", listed.source)
