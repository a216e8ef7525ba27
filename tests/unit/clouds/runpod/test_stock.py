"""Stock before the launch: the catalogue's levels, and the creates that they save."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from runpod_double import Double
from runpod_launches import L40S_ID, a_launch, an_offer
from runpod_world import CENTRES

from nbprov.catalog import Query, default_catalog
from nbprov.clouds.base import STOCK_SECONDS
from nbprov.clouds.runpod import make
from nbprov.clouds.runpod.stock import MOST_QUESTIONS
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.stock import Pool, Stock, StockLevel

COUNTRIES = ("IS", "NL", "CZ", "SE", "RO", "NO")


@pytest.fixture(scope="module")
def server() -> Iterator[Double]:
    made = Double()
    yield made
    made.close()


@pytest.fixture
def double(server: Double, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    server.reset()
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    yield server
    assert server.problems() == []


def levels(said: list[Stock] | tuple[Stock, ...]) -> dict[str, StockLevel]:
    return {one.pool.zone: one.level for one in said}


def refusal(offer: Offer) -> Failure | None:
    """Return why a create at an offer was refused, or None."""
    try:
        make().submit(a_launch(offer))
    except CloudError as error:
        return error.failure
    return None


def the_documents_example() -> list[Offer]:
    """Return one L40S in six European countries, in the document's order, from the shipped price
    list.
    """
    catalog = default_catalog()
    found = [
        catalog.offers(
            Query(accelerator="L40S", count=1, cloud="runpod", region=country, market="on-demand")
        )
        for country in COUNTRIES
    ]
    return [offer for offers in found for offer in offers]


def test_one_look_finds_the_only_place_that_has_any(double: Double) -> None:
    """Without a stock probe, the document's order of countries is tried by creates."""
    offers, cloud = the_documents_example(), make()
    assert [offer.region for offer in offers if offer.region == "IS"]
    assert {offer.region for offer in offers} == set(COUNTRIES)
    double.set_stock(0, kind=L40S_ID)
    double.set_stock(2, kind=L40S_ID, centre="EUR-NO-1")
    started = time.monotonic()
    said = list(cloud.stock(offers, 1))
    assert time.monotonic() - started < STOCK_SECONDS
    assert levels(said) == {
        offer.zone: StockLevel.MEDIUM if offer.zone == "EUR-NO-1" else StockLevel.NONE
        for offer in offers
    }
    assert len(double.calls("listGpuTypes")) == 1

    refused = []
    for offer in offers:  # the document's order
        failure = refusal(offer)
        if failure is None:
            break
        refused.append(failure.cause)
    assert (len(refused) >= 8, set(refused)) == (True, {Cause.CAPACITY})
    level_of = {one.pool: one.level for one in said}
    first = next(offer for offer in offers if level_of[offer.pool] is not StockLevel.NONE)
    before = len(double.calls("createPod"))
    cloud.submit(a_launch(first))
    assert len(double.calls("createPod")) - before == 1


def test_levels_are_those_of_the_size_that_is_wanted(double: Double) -> None:
    double.set_stock(4, kind=L40S_ID, centre="EU-CZ-1")
    offers = [an_offer(f"{count}x_L40S_SECURE") for count in (1, 2, 4, 8)]
    said = {one.pool.instance_type: one.level for one in make().stock(offers, 1)}
    assert said == {
        "1x_L40S_SECURE": StockLevel.HIGH,
        "2x_L40S_SECURE": StockLevel.MEDIUM,
        "4x_L40S_SECURE": StockLevel.LOW,
        "8x_L40S_SECURE": StockLevel.NONE,
    }
    asked = sorted(int(call["params"]["count"]) for call in double.calls("listGpuTypes"))
    assert asked == [1, 2, 4, 8]
    assert {call["params"]["cloud"] for call in double.calls("listGpuTypes")} == {"SECURE"}


def test_cpu_sizes_are_asked_for_too(double: Double) -> None:
    double.set_stock(1, kind="cpu5c", centre="EU-CZ-1")
    (said,) = make().stock([an_offer("cpu5c-4-8")], 1)
    assert (said.level, said.pool) == (
        StockLevel.LOW,
        Pool("runpod", "CZ", "EU-CZ-1", "cpu5c-4-8", "on-demand"),
    )


def test_a_country_is_as_good_as_its_best_data_centre(double: Double) -> None:
    for centre in CENTRES:
        double.set_stock(1 if centre == "EUR-IS-3" else 0, kind=L40S_ID, centre=centre)
    said = make().stock([an_offer(region="IS", zone=""), an_offer(region="NL", zone="")], 1)
    assert {one.pool.region: one.level for one in said} == {
        "IS": StockLevel.LOW,
        "NL": StockLevel.NONE,
    }


def test_nothing_is_said_of_what_is_not_known(double: Double) -> None:
    unknown = [an_offer("1x_B200_SECURE"), an_offer(market=Market.SPOT), an_offer("m5.large")]
    assert list(make().stock(unknown, 1)) == []
    assert list(make().stock([an_offer()], 2)) == []
    assert list(make().stock([], 1)) == []


def test_sold_out_everywhere_is_none(double: Double) -> None:
    double.set_stock(0, kind=L40S_ID)
    assert levels(list(make().stock([an_offer()], 1))) == {"EU-CZ-1": StockLevel.NONE}


def test_questions_are_few_however_many_sizes_there_are(double: Double) -> None:
    offers = [an_offer(f"{count}x_L40S_SECURE") for count in range(1, 11)]
    assert len(list(make().stock(offers, 1))) == MOST_QUESTIONS
    assert len(double.calls("listGpuTypes")) == MOST_QUESTIONS


def test_slow_service_is_not_waited_for(double: Double) -> None:
    double.add_fault("slow", call="listGpuTypes", seconds=60, where={"params.count": 2})
    started = time.monotonic()
    said = make().stock([an_offer(), an_offer("2x_L40S_SECURE")], 1)
    assert time.monotonic() - started < STOCK_SECONDS
    assert [one.pool.instance_type for one in said] == ["1x_L40S_SECURE"]


def test_no_answer_at_all_is_an_error(double: Double) -> None:
    double.add_fault("credentials", call="listGpuTypes")
    with pytest.raises(CloudError) as raised:
        make().stock([an_offer()], 1)
    assert raised.value.failure.cause is Cause.CREDENTIALS


def test_the_look_spares_the_question_for_names(double: Double) -> None:
    cloud = make()
    cloud.stock([an_offer()], 1)
    cloud.submit(a_launch())
    assert len(double.calls("listGpuTypes")) == 1
