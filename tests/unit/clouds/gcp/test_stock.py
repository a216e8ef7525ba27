"""Google's stock: quotas, and advice on spot."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from gcp_double import GcpDouble

from nbprov.clouds.gcp import make
from nbprov.clouds.gcp import stock as module
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.stock import Pool, StockLevel

OFFER = Offer(
    "gcp",
    "us-central1",
    "us-central1-a",
    "n1-standard-4+1xT4",
    "T4",
    1,
    4,
    15,
    Market.ON_DEMAND,
    540_000,
)
SPOT = replace(OFFER, market=Market.SPOT)
H100 = replace(
    OFFER, instance_type="a3-highgpu-8g", accelerator="H100", accelerator_count=8, vcpus=208
)


@pytest.fixture(scope="module")
def server() -> Iterator[GcpDouble]:
    """Yield one server for all tests; each begins with an empty world."""
    with GcpDouble() as made:
        yield made


@pytest.fixture
def double(server: GcpDouble) -> Iterator[GcpDouble]:
    """Yield the double, and check that no request or answer broke its model."""
    before = {name: os.environ.get(name) for name in server.env}
    os.environ.update(server.env)
    server.tell("reset")
    yield server
    problems = server.problems
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    assert problems == []


def levels(offers: list[Offer], count: int = 1) -> dict[Pool, StockLevel]:
    return {said.pool: said.level for said in make().stock(offers, count)}


def test_quota_with_room_says_nothing(double: GcpDouble) -> None:
    assert levels([OFFER]) == {}


def test_quota_without_room_is_none(double: GcpDouble) -> None:
    double.tell("stock", quotas={"NVIDIA_T4_GPUS": 3.0})
    assert levels([OFFER], 3) == {}
    assert levels([OFFER], 4) == {OFFER.pool: StockLevel.NONE}


def test_processors_have_a_quota_too(double: GcpDouble) -> None:
    double.tell("stock", quotas={"CPUS": 3.0})
    assert levels([OFFER]) == {OFFER.pool: StockLevel.NONE}


def test_project_without_gpus_has_none_anywhere(double: GcpDouble) -> None:
    double.tell("stock", project_quotas={"GPUS_ALL_REGIONS": 0.0})
    plain = replace(OFFER, instance_type="n2-standard-8", accelerator="", accelerator_count=0)
    assert levels([OFFER, H100, plain]) == {OFFER.pool: StockLevel.NONE, H100.pool: StockLevel.NONE}


def test_metric_that_google_does_not_have_is_unknown(double: GcpDouble) -> None:
    assert levels([H100]) == {}


def test_advice_tells_of_spot_alone(double: GcpDouble) -> None:
    for score, level in (
        (0.9, StockLevel.HIGH),
        (0.5, StockLevel.MEDIUM),
        (0.1, StockLevel.LOW),
        (0.0, StockLevel.NONE),
    ):
        double.tell("stock", zone="us-central1-a", obtainability=score)
        assert levels([OFFER, SPOT]) == {SPOT.pool: level}
    assert len(double.calls("advice.capacity")) == 4


def test_quota_counts_before_advice(double: GcpDouble) -> None:
    double.tell("stock", quotas={"PREEMPTIBLE_NVIDIA_T4_GPUS": 0.0})
    assert levels([SPOT]) == {SPOT.pool: StockLevel.NONE}


def test_each_region_is_asked_once_and_offers_of_others_not_at_all(double: GcpDouble) -> None:
    there = [replace(OFFER, region="europe-west4", zone=f"europe-west4-{z}") for z in "abc"]
    levels([OFFER, *there, replace(OFFER, cloud="aws")])
    assert sorted(c["params"]["region"] for c in double.calls("regions.get")) == [
        "europe-west4",
        "us-central1",
    ]


def test_what_is_refused_is_not_known(double: GcpDouble) -> None:
    double.add_fault(call="stock", do="permission", times=-1)
    double.add_fault(call="check", do="transient", times=-1)
    assert levels([OFFER, SPOT]) == {}


def test_what_is_late_is_left_out(double: GcpDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    double.tell("stock", zone="us-central1-a", obtainability=0.9)
    double.add_fault(call="regions.get", do="slow", seconds=60, times=-1)
    monkeypatch.setattr("nbprov.clouds.gcp.provisioner.STOCK_SECONDS", 1.5)
    began = time.monotonic()
    assert levels([SPOT]) == {SPOT.pool: StockLevel.HIGH}
    assert time.monotonic() - began < 3.0


def test_quota_that_google_cannot_tell_now_is_not_known() -> None:
    quotas = [{"metric": "NVIDIA_T4_GPUS", "limit": 0.0, "usage": 0.0}]
    assert len(module.region_quota({"quotas": quotas}, [OFFER], 1)) == 1
    assert (
        module.region_quota(
            {"quotas": quotas, "quotaStatusWarning": {"code": "PARTIAL_SUCCESS"}}, [OFFER], 1
        )
        == []
    )


def test_without_a_login_nothing_is_asked() -> None:
    assert make().stock([OFFER], 1) == ()
