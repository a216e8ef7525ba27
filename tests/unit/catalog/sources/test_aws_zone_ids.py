"""AWS zone ids under the names one account has for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nbprov.catalog import Catalog, CatalogError, Query
from nbprov.catalog.sources.aws_zone_ids import (
    HEADER,
    ids_of,
    learn,
    looks_like_name,
    names,
    path_of,
)
from nbprov.catalog.sources.price_files import user_folder
from nbprov.catalog.vocabulary.suggestions import unknown_names

WriteV8 = Callable[..., Path]
PAIRS = [("use1-az1", "us-east-1c", "us-east-1"), ("use1-az2", "us-east-1a", "us-east-1")]
ACCOUNT = "arn:aws:iam::123456789012:user/ada"


@pytest.fixture
def catalog(write_v8: WriteV8, open_catalog: Callable[..., Catalog]) -> Catalog:
    rows = [
        {
            "InstanceType": "p3.2xlarge",
            "vCPUs": 8,
            "MemoryGiB": 61,
            "Price": "3",
            "Region": "us-east-1",
            "AvailabilityZone": zone,
        }
        for zone in ("use1-az1", "use1-az2")
    ]
    return open_catalog(write_v8("aws", rows))


def test_learnt_names_are_kept_by_account(nbprov_home: Path) -> None:
    path = learn(ACCOUNT, PAIRS)
    assert path == path_of(ACCOUNT) == user_folder() / "aws" / path.name
    assert path.name.startswith("az_mappings-")
    assert len(path.stem.removeprefix("az_mappings-")) == 8
    assert "123456789012" not in path.name
    assert path.read_text(encoding="utf-8").splitlines() == [
        ",".join(HEADER),
        *(",".join(pair) for pair in PAIRS),
    ]
    assert names(ACCOUNT) == {"use1-az1": "us-east-1c", "use1-az2": "us-east-1a"}
    assert names("somebody else") == {}
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_without_an_account_the_latest_mapping_is_taken(nbprov_home: Path) -> None:
    assert names() == {}
    older = learn("one", PAIRS)
    learn("two", [("use1-az1", "us-east-1a", "us-east-1")])
    os.utime(older, (1_600_000_000, 1_600_000_000))
    assert ids_of("us-east-1a") == ("use1-az1",)
    assert ids_of("US-EAST-1A", "one") == ("use1-az2",)
    assert ids_of("us-east-1f") == ()


def test_a_new_mapping_replaces_the_old_at_once(nbprov_home: Path) -> None:
    learn(ACCOUNT, PAIRS)
    assert ids_of("us-east-1a") == ("use1-az2",)
    learn(ACCOUNT, [("use1-az6", "us-east-1a", "us-east-1")])
    assert ids_of("us-east-1a") == ("use1-az6",)


def test_a_question_may_name_the_zone_as_the_account_does(catalog: Catalog) -> None:
    assert catalog.offers(Query(zone="us-east-1a")) == []
    learn(ACCOUNT, PAIRS)
    assert [offer.zone for offer in catalog.offers(Query(zone="us-east-1a"))] == ["use1-az2"]
    assert [offer.zone for offer in catalog.offers(Query(zone=("US-EAST-1C", "use1-az2")))] == [
        "use1-az1",
        "use1-az2",
    ]
    assert catalog.offers(Query(zone="us-east-1b")) == []
    assert unknown_names(catalog, Query(zone="us-east-1a")) == []
    assert [unknown.name for unknown in unknown_names(catalog, Query(zone="us-east-1b"))] == [
        "us-east-1b"
    ]


@pytest.mark.parametrize("text", ["", "x", "AvailabilityZone,Region\nuse1-az1,us-east-1\n", "\0\0"])
def test_a_damaged_mapping_is_no_mapping(catalog: Catalog, text: str) -> None:
    path = learn(ACCOUNT, PAIRS)
    path.write_text(text, encoding="utf-8")
    assert names() == {}
    assert catalog.offers(Query(zone="us-east-1a")) == []


def test_the_other_header_is_read_too(nbprov_home: Path) -> None:
    path = learn(ACCOUNT, [])
    path.write_text(
        "AvailabilityZone id,AvailabilityZoneName,Region\nusw2-az4,us-west-2d,us-west-2\n",
        encoding="utf-8",
    )
    assert names() == {"usw2-az4": "us-west-2d"}


def test_a_home_that_cannot_be_written_is_told(nbprov_home: Path) -> None:
    user_folder().parent.mkdir(exist_ok=True)
    user_folder().write_text("a file", encoding="utf-8")
    with pytest.raises(CatalogError, match="cannot be written"):
        learn(ACCOUNT, PAIRS)


@pytest.mark.parametrize(
    ("zone", "is_name"),
    [
        ("us-east-1a", True),
        ("us-gov-west-1b", True),
        ("us-west-2-lax-1a", True),
        ("use1-az1", False),
        ("us-central1-a", False),
        ("", False),
    ],
)
def test_what_looks_like_a_name(zone: str, is_name: bool) -> None:
    assert looks_like_name(zone) is is_name
