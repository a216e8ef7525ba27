"""RunPod's prices from end to end.

REST v2 with a key, GraphQL without, each a fallback for the other.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fetch_context import Fetching
from runpod_catalogue import COMMUNITY_ONLY, GPUS, KEY, SCHEMAS, RunPodDouble
from web_double import Asked, WebDouble, busy, json_answer

from nbprov.clouds.pricing.fetcher import find
from nbprov.clouds.runpod.account import key_in
from nbprov.clouds.web.client import TRIES, Stopped
from nbprov.model.failures import Cause, CloudError
from nbprov.model.money import usd
from nbprov.model.price_list import PriceList, PriceRow

SHIPPED = Path(__file__).parents[4] / "catalogs" / "runpod"
REFUSED = {
    "errors": [
        {
            "message": "Something went wrong. Please try again later.",
            "extensions": {"code": "INTERNAL_SERVER_ERROR"},
        }
    ],
    "data": None,
}


@pytest.fixture
def web() -> Iterator[WebDouble]:
    with WebDouble() as double:
        yield double
        assert double.unexpected == []


@pytest.fixture
def double(web: WebDouble) -> RunPodDouble:
    return RunPodDouble(web)


def fetch(fetching: Fetching) -> PriceList:
    fetcher = find("runpod")
    assert fetcher is not None
    assert fetcher.ready(fetching.context) == ""
    return fetcher.fetch(fetching.context)


def with_key(double: RunPodDouble, **given: Any) -> PriceList:
    return fetch(Fetching(double.endpoints, keys={"api_key": KEY}, **given))


def without_key(double: RunPodDouble) -> PriceList:
    return fetch(Fetching(double.endpoints))


def shipped() -> dict[tuple[str, str], dict[str, str]]:
    with (SHIPPED / "types.csv").open() as types, (SHIPPED / "prices.csv").open() as prices:
        sizes = {row["id"]: row for row in csv.DictReader(types)}
        return {
            (row["id"], zone): {**sizes[row["id"]], **row}
            for row in csv.DictReader(prices)
            for zone in row["zones"].split()
        }


def gpu_rows(listed: PriceList) -> list[PriceRow]:
    return [row for row in listed.rows if row.accelerator]


@pytest.mark.parametrize("read", [with_key, without_key])
def test_rows_join_the_shipped_catalogue_and_agree_with_it(double: RunPodDouble, read: Any) -> None:
    known, rows = shipped(), gpu_rows(read(double))
    assert len(rows) == 91 + 32 + 10
    for row in rows:
        old = known[row.instance_type, row.zone]
        assert (row.region, row.accelerator, f"{row.count:g}") == (
            old["region"],
            old["accelerator"],
            old["count"],
        )
        assert [f"{size:g}" for size in (row.vcpus, row.memory_gib, row.device_gib) if size] == [
            old["vcpus"],
            old["memory_gib"],
            old["device_gib"],
        ]
        assert row.on_demand == pytest.approx(usd(old["on_demand"]), abs=1)
        assert (row.maker, row.arch) == (old["maker"], old["arch"])


def test_with_a_key_the_list_is_rest_v2s_with_spot_from_graphql(double: RunPodDouble) -> None:
    listed = with_key(double)
    assert (listed.source, listed.spot_source) == (
        "RunPod REST v2 catalogue",
        "RunPod GraphQL gpuTypes",
    )
    assert double.web.paths() == [
        "/v2/catalog/gpus",
        "/v2/catalog/datacenters",
        "/v2/catalog/cpus",
        "/graphql",
    ]
    assert listed.unseen == frozenset()
    row = next(row for row in listed.rows if row.instance_type == "2x_RTX4090_SECURE")
    assert (row.on_demand, row.spot) == (1_480_000, 700_000)


def test_without_a_key_one_question_is_enough(double: RunPodDouble) -> None:
    listed = without_key(double)
    assert double.web.paths() == ["/graphql"]
    assert "authorization" not in double.web.asked[0].headers
    assert (listed.source, listed.spot_source, listed.unseen) == (
        "RunPod GraphQL gpuTypes",
        "",
        {"cpu"},
    )


def test_cpu_pods_come_in_doubling_sizes(double: RunPodDouble) -> None:
    rows = [row for row in with_key(double).rows if not row.accelerator]
    assert [row.instance_type for row in rows] == [
        "cpu5c-2-4",
        "cpu5c-4-8",
        "cpu5c-8-16",
        "cpu5c-16-32",
        "cpu5c-32-64",
    ]
    assert {row.zone for row in rows} == {"EU-CZ-1"}
    assert (rows[1].vcpus, rows[1].memory_gib, rows[1].on_demand) == (4, 8, 120_000)


@pytest.mark.parametrize("read", [with_key, without_key])
def test_a_kind_that_only_the_community_cloud_has_is_not_sold(
    double: RunPodDouble, read: Any
) -> None:
    listed = read(double)
    assert not [row for row in listed.rows if "RTX3070" in row.accelerator]
    assert COMMUNITY_ONLY not in GPUS
    assert [note for note in listed.notes if "only the secure cloud" in note]


def test_a_data_centre_that_is_not_listed_is_left_out(double: RunPodDouble) -> None:
    assert "EU-NL-1" not in {row.zone for row in without_key(double).rows}


@pytest.mark.parametrize(
    "answer",
    [json_answer({"title": "Unauthorized", "status": 401, "detail": "bad"}, 401), busy(503)],
)
def test_where_rest_fails_graphql_stands_in_and_it_is_said(
    double: RunPodDouble, answer: Any
) -> None:
    double.web.on("/v2/catalog/gpus", answer)
    listed = with_key(double)
    assert gpu_rows(listed) == gpu_rows(without_key(double))
    assert [note for note in listed.notes if note.startswith("REST v2 could not be read")]
    assert not [note for note in listed.notes if KEY in note]
    assert listed.source == "RunPod GraphQL gpuTypes"


@pytest.mark.parametrize(
    "answer",
    [json_answer(REFUSED), json_answer({"title": "Gone", "detail": "GraphQL was retired"}, 410)],
)
def test_where_graphql_fails_spot_prices_stay_as_they_were(
    double: RunPodDouble, answer: Any
) -> None:
    double.web.on("/graphql", answer)
    listed = with_key(double)
    assert listed.unseen == {"spot"}
    assert {row.spot for row in listed.rows} == {None}
    assert [note for note in listed.notes if note.startswith("no spot prices")]


def test_errors_with_status_200_are_errors(double: RunPodDouble) -> None:
    double.web.on("/graphql", json_answer(REFUSED))
    with pytest.raises(CloudError, match="Something went wrong") as refused:
        without_key(double)
    assert (refused.value.failure.cause, refused.value.failure.code) == (
        Cause.TRANSIENT,
        "INTERNAL_SERVER_ERROR",
    )


def test_a_question_that_is_forbidden_is_named_as_such(double: RunPodDouble) -> None:
    double.web.on(
        "/graphql",
        json_answer({"errors": [{"message": "no", "extensions": {"code": "FORBIDDEN"}}]}),
    )
    with pytest.raises(CloudError) as refused:
        without_key(double)
    assert refused.value.failure.cause is Cause.PERMISSION


def test_a_partial_answer_is_used_and_its_errors_said(double: RunPodDouble, web: WebDouble) -> None:
    whole = json.loads(
        bytes(
            double.answer_graphql(
                Asked("POST", "/graphql", {}, {}, json.dumps({"query": query()}).encode())
            ).body
        )
    )  # type: ignore[arg-type]
    web.on("/graphql", json_answer({**whole, "errors": [{"message": "EU-SE-1 timed out"}]}))
    listed = without_key(double)
    assert len(gpu_rows(listed)) == 133
    assert [note for note in listed.notes if "partial" in note and "EU-SE-1 timed out" in note]


def query() -> str:
    from nbprov.clouds.runpod.graphql_catalog import QUERY

    return QUERY


def test_both_refusing_is_the_first_ones_error(double: RunPodDouble) -> None:
    double.web.on(
        "/v2/catalog/gpus",
        json_answer({"title": "Unauthorized", "status": 401, "detail": "key expired"}, 401),
    )
    double.web.on("/graphql", json_answer(REFUSED))
    with pytest.raises(CloudError, match="key expired") as refused:
        with_key(double)
    assert refused.value.failure.cause is Cause.CREDENTIALS


def test_where_no_data_centre_names_a_gpu_every_kind_stands_in_each(
    double: RunPodDouble, web: WebDouble
) -> None:
    def forgetful(asked: Asked) -> Any:
        answer = json.loads(bytes(double.answer_graphql(asked).body))  # type: ignore[arg-type]
        for centre in answer["data"]["dataCenters"]:
            centre["gpuAvailability"] = None
        return json_answer(answer)

    web.on("/graphql", forgetful)
    listed = without_key(double)
    assert len(listed.rows) == 4 * 91
    assert [note for note in listed.notes if "each type is listed in all of them" in note]


def test_a_kind_without_a_price_is_left_out_and_counted(double: RunPodDouble) -> None:
    spoiled = [
        {**double.gpu("NVIDIA L4"), "price": {"secure": 0, "community": 0}},
        double.gpu("NVIDIA L40"),
    ]
    double.web.on("/v2/catalog/gpus", json_answer({"gpus": spoiled}))
    listed = with_key(double)
    assert {row.accelerator for row in gpu_rows(listed)} == {"L40"}
    assert [note for note in listed.notes if note.startswith("left out: 1 types")]


def test_a_busy_service_and_a_torn_answer_are_asked_again(
    double: RunPodDouble, web: WebDouble
) -> None:
    good = double.guarded(lambda _: {"gpus": [double.gpu(name) for name in GPUS]})
    torn = json_answer({"gpus": []}, cut=3)
    web.on("/v2/catalog/gpus", busy(429, retry_after=12), torn, good)
    fetching = Fetching(double.endpoints, keys={"api_key": KEY})
    assert len(gpu_rows(fetch(fetching))) == 133
    assert fetching.pauses == [12.0, 2.0]


def test_a_service_that_stays_busy_is_given_up(double: RunPodDouble) -> None:
    double.web.on("/graphql", busy(503))
    with pytest.raises(CloudError):
        without_key(double)
    assert len(double.web.asked) == TRIES


def test_only_regions_that_were_asked_for_are_covered(double: RunPodDouble) -> None:
    listed = with_key(double, regions=("US", "XX"))
    assert {row.region for row in listed.rows} == {"US"}
    assert (listed.covered, listed.failed) == ({"US", "XX"}, {"XX": "RunPod has no machine there"})


def test_a_stop_is_heeded(double: RunPodDouble) -> None:
    fetching = Fetching(double.endpoints, keys={"api_key": KEY})
    fetching.context = replace(fetching.context, progress=lambda _: fetching.stop.set())
    with pytest.raises(Stopped):
        fetch(fetching)
    assert double.web.asked == []


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[default]\napi_key = "rpa_1"\n', "rpa_1"),
        ('apikey = "rpa_2"\napiurl = "https://api.runpod.io/graphql"\n', "rpa_2"),
        ('[other]\napi_key = "rpa_3"\n', "rpa_3"),
        ("[default]\n", ""),
        ("not toml [", ""),
    ],
)
def test_the_key_in_runpods_own_settings_is_found(text: str, key: str) -> None:
    assert key_in(text) == key


def test_the_double_speaks_runpods_shape(double: RunPodDouble) -> None:
    with_key(double)
    for name, schema in SCHEMAS.items():
        asked = next(one for one in double.web.asked if one.path.endswith(name))
        body = double.web.reply(asked).body
        assert isinstance(body, bytes)
        jsonschema.validate(json.loads(body), schema)
