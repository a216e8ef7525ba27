"""EC2's stock: where a type is sold, what the quota allows, and spot scores."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from aws_double_account import Account, offer

from nbprov.clouds.aws import make, stock
from nbprov.clouds.aws.account import quotas
from nbprov.clouds.base import STOCK_SECONDS
from nbprov.model.places import Market
from nbprov.model.stock import Pool, StockLevel

pytest_plugins = ["aws_double_fixtures"]

G5 = ("g5.xlarge", "g5.2xlarge", "g5.4xlarge")
SOLD, UNSOLD = "use1-az6", "use1-az3"
"""Zones of the double that sell g5, and that do not."""


@pytest.mark.usefixtures("unhurried")
def test_zones_that_do_not_sell_a_type_have_none(aws: Account) -> None:
    offers = [offer("g5.xlarge", zone=zone, gpu="A10G", vcpus=4) for zone in (SOLD, UNSOLD)]
    told = aws.cloud.stock(offers, 1)
    assert {s.pool: s.level for s in told} == {offers[1].pool: StockLevel.NONE}
    assert all(time.time() - s.at < 10 for s in told)


@pytest.mark.usefixtures("unhurried")
def test_where_a_type_is_sold_is_asked_once_a_day(aws: Account) -> None:
    for _ in range(2):
        type(aws.cloud)().stock([offer("g5.xlarge", zone=UNSOLD, gpu="A10G")], 1)
    assert len(aws.sent("DescribeInstanceTypeOfferings")) == 1


@pytest.mark.usefixtures("unhurried")
def test_a_type_that_ec2_hides_from_its_lists_is_not_called_sold_out(aws: Account) -> None:
    assert aws.cloud.stock([offer("p4de.24xlarge", zone="", gpu="A100-80GB", vcpus=96)], 1) == []


@pytest.mark.usefixtures("unhurried")
def test_what_does_not_fit_into_the_quota_cannot_be_had(aws: Account) -> None:
    aws.double.tell(
        "settings", quotas={quotas.ON_DEMAND["G and VT"]: 8, quotas.SPOT["G and VT"]: 0}
    )
    here, spot = (
        offer("g5.xlarge", gpu="A10G", vcpus=4),
        offer("g5.xlarge", gpu="A10G", vcpus=4, market=Market.SPOT),
    )

    def none(count: int) -> set[Pool]:
        return {
            s.pool
            for s in type(aws.cloud)().stock([here, spot, offer()], count)
            if s.level is StockLevel.NONE
        }

    assert none(2) == {spot.pool}
    assert none(3) == {here.pool, spot.pool}
    aws.up(here)
    assert none(2) == {here.pool, spot.pool}


@pytest.mark.usefixtures("unhurried")
def test_spot_scores_are_asked_for_three_types_and_more(aws: Account) -> None:
    aws.double.tell("settings", scores={SOLD: 9, "use1-az1": 2, "use1-az2": 5})
    offers = [
        offer(kind, zone=zone, gpu="A10G", vcpus=4, market=Market.SPOT)
        for kind in G5
        for zone in (SOLD, "use1-az1", "use1-az2", UNSOLD, "")
    ]
    told = {(s.pool.instance_type, s.pool.zone): s.level for s in aws.cloud.stock(offers, 1)}
    for kind in G5:
        assert (told[kind, SOLD], told[kind, "use1-az2"], told[kind, ""]) == (
            StockLevel.HIGH,
            StockLevel.MEDIUM,
            StockLevel.HIGH,
        )
        assert told[kind, UNSOLD] is StockLevel.NONE, "what is not sold there outweighs a score"
    aws.mark()
    assert aws.cloud.stock(offers[:2], 1) == []
    assert aws.sent("GetSpotPlacementScores") == []


def test_what_does_not_answer_in_time_is_left_out(aws: Account) -> None:
    aws.double.add_fault("GetSpotPlacementScores", "slow", seconds=15)
    offers = [
        offer(kind, zone=zone, gpu="A10G", vcpus=4, market=Market.SPOT)
        for kind in G5
        for zone in (SOLD, UNSOLD)
    ]
    began = time.monotonic()
    told = aws.cloud.stock(offers, 1)
    assert time.monotonic() - began < 12, (
        f"{STOCK_SECONDS:g} s and what a busy machine adds, and not the fifteen that the "
        "answer takes"
    )
    assert {s.pool.zone for s in told} == {UNSOLD}


@pytest.mark.usefixtures("unhurried")
def test_a_refusal_says_nothing_of_stock(aws: Account) -> None:
    for call in (
        "GetSpotPlacementScores",
        "DescribeInstanceTypeOfferings",
        "GetServiceQuota",
        "DescribeInstances",
    ):
        aws.double.add_fault(call, "permission", times=9)
    assert aws.cloud.stock([offer(kind, gpu="A10G", market=Market.SPOT) for kind in G5], 1) == []


@pytest.mark.usefixtures("unhurried")
def test_offers_of_other_clouds_are_no_concern_of_ours(aws: Account) -> None:
    assert aws.cloud.stock([], 1) == []


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("g5.xlarge", "G and VT"),
        ("gr6.4xlarge", "G and VT"),
        ("p5.48xlarge", "P"),
        ("m6i.large", "Standard"),
        ("trn1.2xlarge", "Trn"),
    ],
)
def test_families_are_those_of_the_catalogue(kind: str, family: str) -> None:
    from nbprov.catalog.vocabulary.instance_families import quota_family

    assert quotas.family_of_type(kind) == family == quota_family("aws", kind, "")


def test_sets_of_types_share_an_accelerator() -> None:
    offers = [
        offer(kind, gpu=gpu, market=Market.SPOT)
        for gpu, kinds in (("A10G", G5), ("L4", ("g6.xlarge", "g6.2xlarge")))
        for kind in kinds
    ]
    assert stock.spot_sets(offers) == [tuple(sorted(G5))]
    assert stock.spot_sets([offer(kind, gpu="A10G") for kind in G5]) == []


@pytest.mark.usefixtures("unhurried")
def test_scores_are_asked_once_in_ten_minutes_and_a_refusal_is_not_asked_again_either(
    aws: Account,
) -> None:
    offers = [offer(kind, gpu="A10G", vcpus=4, market=Market.SPOT) for kind in G5]
    first = aws.cloud.stock(offers, 1)
    assert first
    assert [s.at for s in aws.cloud.stock(offers, 1)] == [s.at for s in first]
    assert len(aws.sent("GetSpotPlacementScores")) == 1
    aws.double.add_fault(
        "GetSpotPlacementScores",
        "error",
        code="MaxConfigLimitExceeded",
        message="Max spot placement score configurations",
    )
    for _ in range(2):
        assert aws.cloud.stock(offers, 2) == []
    assert len(aws.sent("GetSpotPlacementScores")) == 2


@pytest.mark.usefixtures("unhurried")
def test_spot_machines_with_newer_gpus_have_a_limit_of_their_own(aws: Account) -> None:
    aws.double.tell("settings", quotas={quotas.SPOT["P"]: 0, quotas.SPOT["P5"]: 192})
    old, new = (
        offer(kind, zone="", gpu=gpu, vcpus=n, market=Market.SPOT)
        for kind, gpu, n in (("p3.2xlarge", "V100", 8), ("p5.48xlarge", "H100", 192))
    )
    assert {s.pool for s in stock.within_quota(aws.cloud._session, "us-east-1", [old, new], 1)} == {
        old.pool
    }


def test_without_credentials_nothing_is_asked_and_it_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    cloud = make()
    before = set(threading.enumerate())  # other tests' engines have threads of their own
    assert cloud.stock([offer(kind, gpu="A10G", market=Market.SPOT) for kind in G5], 1) == []
    assert not cloud.check().enabled
    assert not set(threading.enumerate()) - before
