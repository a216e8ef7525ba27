"""Lambda's prices end to end."""

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
from lambda_types import KEY, PATH, SCHEMA, TYPES, LambdaDouble, instance_types
from web_double import WebDouble, busy, json_answer

from nbprov.clouds.lambda_cloud.account import key_in
from nbprov.clouds.lambda_cloud.prices import REGIONS
from nbprov.clouds.pricing.fetcher import find
from nbprov.clouds.web.client import Stopped
from nbprov.model.failures import Cause, CloudError
from nbprov.model.money import usd
from nbprov.model.price_list import PriceList

SHIPPED = Path(__file__).parents[4] / "catalogs" / "lambda"


@pytest.fixture
def double() -> Iterator[LambdaDouble]:
    with WebDouble() as web:
        yield LambdaDouble(web)
        assert web.unexpected == []


def fetch(fetching: Fetching) -> PriceList:
    fetcher = find("lambda")
    assert fetcher is not None
    return fetcher.fetch(fetching.context)


def read(double: LambdaDouble, **given: Any) -> PriceList:
    return fetch(Fetching(double.endpoints, keys={"api_key": KEY}, **given))


def shipped() -> dict[tuple[str, str], dict[str, str]]:
    with (SHIPPED / "types.csv").open() as types, (SHIPPED / "prices.csv").open() as prices:
        sizes = {row["id"]: row for row in csv.DictReader(types)}
        return {
            (row["id"], row["region"]): {**sizes[row["id"]], **row}
            for row in csv.DictReader(prices)
        }


def test_rows_join_the_shipped_catalogue_and_agree_with_it(double: LambdaDouble) -> None:
    known, rows = shipped(), [row for row in read(double).rows if row.region != "us-mars-9"]
    assert len(rows) == len(TYPES) * len(REGIONS)
    for row in rows:
        old = known[row.instance_type, row.region]
        assert (row.accelerator, f"{row.count:g}" if row.count else "", row.maker, row.arch) == (
            old["accelerator"],
            old["count"],
            old["maker"],
            old["arch"],
        ), row.instance_type
        assert [
            f"{size:g}" if size else "" for size in (row.vcpus, row.memory_gib, row.device_gib)
        ] == [
            old["vcpus"],
            old["memory_gib"],
            old["device_gib"],
        ], row.instance_type
        assert (row.on_demand, row.spot) == (usd(old["on_demand"]), None)


def test_every_region_of_the_shipped_catalogue_is_known() -> None:
    assert {region for _, region in shipped()} == set(REGIONS)


def test_a_region_that_is_new_is_taken_from_the_stock(double: LambdaDouble) -> None:
    listed = read(double)
    assert {row.region for row in listed.rows} == {*REGIONS, "us-mars-9"}
    assert listed.notes[0].startswith("every type is listed in every region")


def test_one_question_with_the_key(double: LambdaDouble) -> None:
    read(double)
    assert [(one.method, one.path, one.headers["authorization"]) for one in double.web.asked] == [
        ("GET", PATH, f"Bearer {KEY}")
    ]


def test_without_a_key_it_says_where_one_goes(
    double: LambdaDouble, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    fetching = Fetching(double.endpoints)
    fetcher = find("lambda")
    assert fetcher is not None
    assert "LAMBDA_API_KEY" in fetcher.ready(fetching.context)
    with pytest.raises(CloudError) as refused:
        fetch(fetching)
    assert refused.value.failure.cause is Cause.CREDENTIALS
    assert double.web.asked == []


def test_the_key_in_lambdas_own_file_is_used(
    double: LambdaDouble, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / ".lambda_cloud").mkdir()
    (tmp_path / ".lambda_cloud" / "lambda_keys").write_text(f"api_key = {KEY}\n")
    fetching = Fetching(double.endpoints)
    fetcher = find("lambda")
    assert fetcher is not None
    assert fetcher.ready(fetching.context) == ""
    assert fetch(fetching).rows


@pytest.mark.parametrize(
    ("text", "key"),
    [("api_key = k1\n", "k1"), ('x=1\napi_key="k2"', "k2"), ("nothing", ""), ("", "")],
)
def test_the_key_file_is_read(text: str, key: str) -> None:
    assert key_in(text) == key


@pytest.mark.parametrize(("status", "cause"), [(401, Cause.CREDENTIALS), (403, Cause.PERMISSION)])
def test_a_key_that_is_refused_is_named_with_lambdas_words(
    double: LambdaDouble, status: int, cause: Cause
) -> None:
    error = {
        "code": "global/invalid-api-key",
        "message": "API key was invalid, expired, or deleted.",
        "suggestion": "…",
    }
    double.web.on(PATH, json_answer({"error": error}, status))
    with pytest.raises(CloudError, match="invalid, expired, or deleted") as refused:
        read(double)
    assert refused.value.failure.cause is cause
    assert len(double.web.asked) == 1


def test_a_busy_service_and_a_torn_answer_are_asked_again(double: LambdaDouble) -> None:
    double.web.on(
        PATH,
        busy(429, retry_after=2),
        busy(500),
        json_answer(instance_types(), cut=100),
        double.answer,
    )
    fetching = Fetching(double.endpoints, keys={"api_key": KEY})
    assert fetch(fetching).rows
    assert fetching.pauses == [2.0, 2.0, 4.0]


@pytest.mark.parametrize(
    "spoil", [{"price_cents_per_hour": None}, {"price_cents_per_hour": 0}, {"specs": None}]
)
def test_a_type_that_cannot_be_read_is_left_out_and_counted(
    double: LambdaDouble, spoil: dict[str, Any]
) -> None:
    answer = instance_types()
    answer["data"]["gpu_1x_a10"]["instance_type"].update(spoil)
    double.web.on(PATH, json_answer(answer))
    listed = read(double)
    assert "gpu_1x_a10" not in {row.instance_type for row in listed.rows}
    assert listed.notes[1] == "left out: 1 instance types without a readable price"


@pytest.mark.parametrize(
    ("name", "said", "accelerator", "gib"),
    [
        ("gpu_8x_a100_80gb_sxm4", "A100", "A100-80GB", 80),
        ("gpu_1x_a100", "A100 (80 GB SXM4)", "A100-80GB", 80),
        ("gpu_8x_h100_sxm5gdr", "H100 (80 GB SXM5)", "H100", 80),
        ("gpu_1x_gh200", "GH200", "GH200", 96),
    ],
)
def test_the_accelerator_is_read_from_name_and_description(
    double: LambdaDouble, name: str, said: str, accelerator: str, gib: float
) -> None:
    entry = instance_types()["data"]["gpu_1x_a10"]
    entry["instance_type"].update(description=said, gpu_description=said)
    double.web.on(PATH, json_answer({"data": {name: entry}}))
    assert {(row.accelerator, row.device_gib) for row in read(double).rows} == {(accelerator, gib)}


@pytest.mark.parametrize(
    "body", [[], {"data": []}, {"data": {}}, {"data": {"gpu_1x_a10": {}}}, {"error": "x"}]
)
def test_an_answer_of_another_shape_is_an_error(double: LambdaDouble, body: Any) -> None:
    double.web.on(PATH, json_answer(body))
    with pytest.raises(CloudError):
        read(double)


def test_only_regions_that_were_asked_for_are_covered(double: LambdaDouble) -> None:
    listed = read(double, regions=("us-east-1", "moon-1"))
    assert {row.region for row in listed.rows} == {"us-east-1"}
    assert (listed.covered, listed.failed) == (
        {"us-east-1", "moon-1"},
        {"moon-1": "Lambda has no such region"},
    )


def test_a_stop_is_heeded(double: LambdaDouble) -> None:
    fetching = Fetching(double.endpoints, keys={"api_key": KEY})
    fetching.context = replace(fetching.context, progress=lambda _: fetching.stop.set())
    with pytest.raises(Stopped):
        fetch(fetching)
    assert double.web.asked == []


def test_the_double_speaks_lambdas_shape() -> None:
    jsonschema.validate(json.loads(json.dumps(instance_types())), SCHEMA)
