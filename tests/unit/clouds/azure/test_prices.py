"""The fetch of Azure's prices from end to end, against its double."""

from __future__ import annotations

import csv
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from azure_prices import PATH, AzureDouble, meter
from fetch_context import TODAY, Fetching
from hypothesis import given
from hypothesis import strategies as st
from web_double import Answer, Asked, WebDouble, busy, json_answer

from nbprov.clouds.azure.prices import EXCLUDED, REGIONS, Meters, fetcher
from nbprov.clouds.azure.sizes import RETIRED, SIZES
from nbprov.clouds.pricing.fetcher import find
from nbprov.clouds.web.client import Stopped
from nbprov.model.failures import Cause, CloudError
from nbprov.model.price_list import PriceList, PriceRow

CATALOGS = Path(__file__).parents[4] / "catalogs"
A100 = "Standard_NC24ads_A100_v4"
METERS = [
    meter(A100, 3.673),
    meter(A100, 1.3951, spot=True),
    meter(
        A100,
        0.7346,
        skuName="NC24ads A100 v4 Low Priority",
        meterName="NC24ads A100 v4 Low Priority",
    ),
    meter(A100, 4.777, product="Virtual Machines NCADSA100v4 Series Windows"),
    meter("Standard_D8s_v5", 0.384, product="Virtual Machines Dsv5 Series"),
    meter("Standard_D8as_v5", 0.344, product="Virtual Machines Dasv5 Series"),
    meter("Standard_F8s_v2", 0.338, product="Virtual Machines FSv2 Series"),
    meter("Standard_ND96isr_H100_v5", 98.32, skuName="ND96isrH100v5", meterName="ND96isrH100v5"),
    meter(
        "Standard_ND96isr_H100_v5",
        18.169536,
        skuName="ND96isrH100v5",
        meterName="ND96isrH100v5 Spot",
    ),
    meter("Standard_NV6ads_A10_v5", 0.454),
    meter("Standard_M128s", 13.338),
    meter(A100, 4.775, region="westeurope"),
]


@pytest.fixture
def web() -> Iterator[WebDouble]:
    """A server."""
    with WebDouble() as double:
        yield double


@pytest.fixture
def azure(web: WebDouble) -> AzureDouble:
    """The API over some meters."""
    return AzureDouble(web, list(METERS))


def context(web: WebDouble, *regions: str) -> Fetching:
    """A context for these regions."""
    return Fetching({"prices": web.url()}, regions=regions or ("eastus",))


def fetched(web: WebDouble, *regions: str) -> PriceList:
    """The list of these regions."""
    return fetcher().fetch(context(web, *regions).context)


def rows(prices: PriceList) -> dict[str, PriceRow]:
    """Rows by type."""
    found = {row.instance_type: row for row in prices.rows}
    assert len(found) == len(prices.rows)
    return found


def one(*meters: dict[str, Any]) -> PriceRow | None:
    """The machine that these meters make."""
    taken = Meters(TODAY)
    for item in meters:
        taken.add(item)
    made = list(taken.rows("eastus"))
    assert len(made) <= 1
    return made[0] if made else None


def test_it_is_found_by_its_name_and_is_always_ready(web: WebDouble) -> None:
    found = find("azure")
    assert found is not None
    assert found.cloud == "azure"
    assert found.ready(context(web).context) == ""


def test_a_machine_with_both_prices(web: WebDouble, azure: AzureDouble) -> None:
    prices = fetched(web)
    assert rows(prices)[A100] == PriceRow(
        "eastus", A100, "", "A100-80GB", 1, 80, "NVIDIA", 24, 220, "x86_64", 3_673_000, 1_395_100
    )
    assert (prices.source, prices.as_of, prices.covered, prices.failed) == (
        "Azure Retail Prices API",
        TODAY,
        {"eastus"},
        {},
    )


def test_all_pages_are_read_and_the_rest_is_left(web: WebDouble, azure: AzureDouble) -> None:
    assert rows(fetched(web)).keys() == {
        A100,
        "Standard_D8s_v5",
        "Standard_F8s_v2",
        "Standard_ND96isr_H100_v5",
        "Standard_NV6ads_A10_v5",
    }
    assert [asked.query.get("$skip", "0") for asked in web.asked] == ["0", "3", "6", "9"]
    assert web.unexpected == []


def test_the_link_to_the_next_page_is_followed_at_the_host_that_was_asked(
    web: WebDouble, azure: AzureDouble
) -> None:
    fetched(web)
    assert {asked.path for asked in web.asked} == {PATH}
    assert len({asked.query["$filter"] for asked in web.asked}) == 1
    assert {asked.query["currencyCode"] for asked in web.asked} == {"USD"}


def test_spot_by_the_name_of_the_meter_alone(web: WebDouble, azure: AzureDouble) -> None:
    row = rows(fetched(web))["Standard_ND96isr_H100_v5"]
    assert (row.on_demand, row.spot, row.accelerator, row.count) == (
        98_320_000,
        18_169_536,
        "H100",
        8,
    )


def test_a_part_of_a_gpu(web: WebDouble, azure: AzureDouble) -> None:
    row = rows(fetched(web))["Standard_NV6ads_A10_v5"]
    assert (row.accelerator, row.count, row.vcpus, row.memory_gib) == ("A10", 0.167, 6, 55)


@pytest.mark.parametrize(
    "other",
    [
        {"productName": "Virtual Machines NCCadsv5 Srs Win"},
        {"productName": "Virtual Machines X Series Windows"},
        {"productName": "X Series Cloud Services"},
        {"productName": "CloudServices X"},
        {"productName": "X Series Dedicated Host"},
        {"productName": ""},
        {"productName": None},
        {"skuName": "NC24ads A100 v4 Low Priority"},
        {"meterName": "NC24ads A100 v4 Low Priority"},
        {"type": "DevTestConsumption"},
        {"type": "Reservation"},
        {"currencyCode": "EUR"},
        {"unitOfMeasure": "1 Month"},
        {"retailPrice": 0.0},
        {"retailPrice": None},
        {"retailPrice": "n/a"},
        {"tierMinimumUnits": 100.0},
        {"effectiveStartDate": "2027-01-01T00:00:00Z"},
        {"armSkuName": ""},
        {"armSkuName": None},
    ],
)
def test_what_is_no_hour_of_a_linux_machine_is_left(other: dict[str, Any]) -> None:
    plain = meter(A100, 3.673)
    odd = {**meter(A100, 1.5), **other}
    assert one(odd) is None
    row = one(odd, plain, odd)
    assert row is not None
    assert (row.on_demand, row.spot) == (3_673_000, None)


def test_the_newest_price_that_holds_today_is_taken() -> None:
    old, new = (
        meter(A100, 4, effectiveStartDate="2023-01-01T00:00:00Z"),
        meter(A100, 3, effectiveStartDate="2026-11-01T00:00:00Z"),
    )
    assert one(old, new) == one(new, old)
    row = one(new, old)
    assert row is not None
    assert row.on_demand == 3_000_000


def test_two_prices_of_one_day_leave_none_and_are_counted(web: WebDouble) -> None:
    AzureDouble(web, [meter(A100, 3), meter(A100, 4), meter("Standard_D8s_v5", 0.384)])
    prices = fetched(web)
    assert rows(prices).keys() == {"Standard_D8s_v5"}
    assert any(note.startswith("1 prices were left empty") for note in prices.notes)


def test_names_are_read_in_any_case() -> None:
    row = one(meter("standard_nc24ads_a100_v4", 3.673))
    assert row is not None
    assert row.instance_type == A100


def test_sizes_of_gpu_series_that_nobody_knows_are_named(web: WebDouble) -> None:
    known = [meter("Standard_D8s_v5", 0.384)]
    AzureDouble(
        web,
        [
            *known,
            meter("Standard_ND999_X_v9", 9),
            meter("Standard_NC6_Promo", 1),
            meter("Standard_NP10s", 2),
            meter("Standard_NV6", 1),
        ],
    )
    notes = " ".join(fetched(web).notes)
    assert "1 sizes of GPU series were left out" in notes
    assert "Standard_ND999_X_v9" in notes


def test_regions_of_trial_are_left_out(web: WebDouble, azure: AzureDouble) -> None:
    prices = fetched(web, "eastus", "EastUS2EUAP", "centraluseuap")
    assert prices.failed.keys() == {"eastus2euap", "centraluseuap"}
    assert not any("euap" in asked.query["$filter"] for asked in web.asked)
    assert not EXCLUDED & set(REGIONS)


def test_a_region_without_machines_is_named(web: WebDouble, azure: AzureDouble) -> None:
    prices = fetched(web, "eastus", "marsnorth")
    assert {row.region for row in prices.rows} == {"eastus"}
    assert "lists no machine in marsnorth" in prices.failed["marsnorth"]
    assert prices.covered == {"eastus", "marsnorth"}


def test_a_region_that_fails_is_named_and_the_others_are_kept(
    web: WebDouble, azure: AzureDouble
) -> None:
    web.on(
        lambda asked: "westeurope" in asked.query.get("$filter", ""), busy(503, words="try later")
    )
    prices = fetched(web, "eastus", "westeurope")
    assert {row.region for row in prices.rows} == {"eastus"}
    assert "try later" in prices.failed["westeurope"]


def test_a_page_that_fails_fails_its_region_for_half_a_list_is_none(
    web: WebDouble, azure: AzureDouble
) -> None:
    web.on(lambda asked: asked.query.get("$skip") == "6", busy(500))
    prices = fetched(web, "eastus", "westeurope")
    assert prices.failed.keys() == {"eastus"}


def test_the_regions_are_all_public_ones_unless_told(web: WebDouble) -> None:
    def answer(asked: Asked) -> Answer:
        region = re.search(r"armRegionName eq '(\w+)'", asked.query["$filter"])
        assert region
        return json_answer({"Items": [meter(A100, 3, region=region[1])], "NextPageLink": None})

    web.on(PATH, answer)
    prices = fetcher().fetch(Fetching({"prices": web.url()}).context)
    assert {row.region for row in prices.rows} == set(REGIONS)
    with (CATALOGS / "azure" / "prices.csv").open(newline="") as file:
        assert {row["region"] for row in csv.DictReader(file)} == set(REGIONS)


def test_a_region_is_never_part_of_the_question_unread(web: WebDouble, azure: AzureDouble) -> None:
    prices = fetched(web, "eastus", "x' or 'a' eq 'a")
    assert prices.failed["x' or 'a' eq 'a"].endswith("is not the name of an Azure region")
    assert all("'a'" not in asked.query["$filter"] for asked in web.asked)


def test_busy_and_torn_answers_are_survived(web: WebDouble, azure: AzureDouble) -> None:
    whole = json_answer({"Items": [meter(A100, 3)], "NextPageLink": None})
    web.on(
        PATH,
        busy(429, retry_after=12),
        whole.with_(cut=30),
        whole.with_(chunked=True, cut=30),
        busy(500),
        whole,
    )
    fetching = context(web)
    assert len(fetcher().fetch(fetching.context).rows) == 1
    assert fetching.pauses == [12.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize("odd", [[], {}, {"Items": {}}, {"Items": ["x"]}, "x", None])
def test_an_odd_answer_is_an_error_in_words(web: WebDouble, odd: object) -> None:
    web.on(PATH, json_answer(odd))
    with pytest.raises(CloudError, match="is not as documented"):
        fetched(web)


def test_pages_without_end_end(web: WebDouble) -> None:
    web.on(
        PATH,
        json_answer(
            {
                "Items": [meter(A100, 3)],
                "NextPageLink": "https://prices.azure.com:443/api/retail/prices?$skip=100",
            }
        ),
    )
    with pytest.raises(CloudError, match="has no end"):
        fetched(web)
    assert len(web.asked) == 2


def test_if_all_fail_it_is_an_error(web: WebDouble) -> None:
    web.on(PATH, busy(429, words="too many"))
    with pytest.raises(CloudError) as caught:
        fetched(web)
    assert caught.value.failure.cause is Cause.RATE_LIMIT


def test_a_stop_ends_it(web: WebDouble) -> None:
    never = threading.Event()
    web.on(PATH, json_answer({"Items": []}, hold=never))
    fetching = context(web)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fetcher().fetch, fetching.context)
        web.wait_for(1)
        fetching.stop.set()
        with pytest.raises(Stopped):
            waiting.result(timeout=1.0)


def test_the_sizes_are_those_of_the_shipped_catalogue() -> None:
    with (CATALOGS / "azure" / "types.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            size = SIZES[row["type"].lower()]
            assert (size.name, size.accelerator, size.maker, size.arch) == (
                row["type"],
                row["accelerator"],
                row["maker"],
                row["arch"],
            )
            assert (size.count, size.device_gib) == (
                float(row["count"] or 0),
                float(row["device_gib"]) if row["device_gib"] else None,
            ), row["type"]
            assert (size.vcpus, size.memory_gib) == (
                float(row["vcpus"]),
                float(row["memory_gib"]),
            ), row["type"]


def test_accelerators_join_the_shipped_catalogue() -> None:
    shipped = set()
    for path in CATALOGS.glob("*/types.csv"):
        with path.open(newline="") as file:
            shipped |= {row["accelerator"] for row in csv.DictReader(file)}
    # GPUs that no cloud of the snapshot sells.
    assert {size.accelerator for size in SIZES.values()} - shipped == {
        "GB200",
        "GB300",
        "V620",
        "V710",
    }
    assert all(size.maker for size in SIZES.values() if size.accelerator)


def test_no_size_that_is_sold_counts_as_retired() -> None:
    assert [size.name for size in SIZES.values() if RETIRED.fullmatch(size.name)] == []


_texts = (
    st.none()
    | st.text(max_size=20)
    | st.sampled_from([A100, "Standard_N", "1 Hour", "Consumption", "USD"])
)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(list(METERS[0])), _texts | st.floats() | st.integers(), max_size=8
        ),
        max_size=5,
    )
)
def test_any_meters_are_survived_and_every_price_is_positive(items: list[dict[str, Any]]) -> None:
    meters = Meters(TODAY)
    for item in items:
        meters.add({**METERS[0], **item})
    for row in meters.rows("eastus"):
        assert all(price is None or price > 0 for price in (row.on_demand, row.spot))
