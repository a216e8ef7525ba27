"""Countries and continents: where regions lie, and questions by such words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nbprov.catalog import Catalog, Query
from nbprov.catalog.vocabulary.geography import PART_OF, PlaceWord, ground_of, place_word
from nbprov.model.money import usd
from nbprov.model.offers import Offer
from nbprov.model.places import Market

WriteV8 = Callable[..., Path]


@pytest.mark.parametrize(
    ("cloud", "region", "country", "part"),
    [
        ("aws", "us-east-1", "US", "na"),
        ("aws", "us-gov-west-1", "US", "na"),
        ("aws", "ca-central-1", "CA", "na"),
        ("aws", "eu-central-2", "CH", "eu"),
        ("aws", "ap-southeast-2", "AU", "oc"),
        ("aws", "sa-east-1", "BR", "sa"),
        ("aws", "me-central-1", "AE", "me"),
        ("aws", "eu-nowhere-9", "", "eu"),
        ("gcp", "europe-west2", "GB", "eu"),
        ("gcp", "europe-west12", "IT", "eu"),
        ("gcp", "asia-east1", "TW", "as"),
        ("gcp", "northamerica-south1", "MX", "na"),
        ("gcp", "me-central2", "SA", "me"),
        ("gcp", "us-central1", "US", "na"),
        ("azure", "southcentralus", "US", "na"),
        ("azure", "usgovvirginia", "US", "na"),
        ("azure", "southeastasia", "SG", "as"),
        ("azure", "eastasia", "HK", "as"),
        ("azure", "southafricanorth", "ZA", "af"),
        ("azure", "northeurope", "IE", "eu"),
        ("azure", "ukwest", "GB", "eu"),
        ("azure", "australiasoutheast", "AU", "oc"),
        ("do", "tor1", "CA", "na"),
        ("do", "sfo3", "US", "na"),
        ("lambda", "europe-central-1", "DE", "eu"),
        ("lambda", "us-midwest-1", "US", "na"),
        ("nebius", "eu-north1", "FI", "eu"),
        ("runpod", "CZ", "CZ", "eu"),
        ("runpod", "IN", "IN", "as"),
        ("cudo", "no-kristiansand-1", "NO", "eu"),
        ("hyperstack", "CANADA-1", "CA", "na"),
        ("primeintellect", "CL", "CL", "sa"),
        ("vast", "Texas, US, NA", "US", "na"),
        ("vast", ", CN, AS", "CN", "as"),
        ("vast", "Georgia, US, NA", "US", "na"),
        ("vast", "Windhoek, NA, AF", "NA", "af"),
        ("vast", "Sweden, SE", "SE", "eu"),
        ("vast", "Kyiv, Ukraine", "UA", "eu"),
        ("verda", "FIN-01", "FI", "eu"),
        ("local", "hall-1", "", ""),
        ("unknown", "", "", ""),
    ],
)
def test_where_a_region_lies(cloud: str, region: str, country: str, part: str) -> None:
    ground = ground_of(cloud, region)
    assert (ground.country, ground.part) == (country, part)


def test_every_shipped_region_lies_somewhere(shipped: Catalog) -> None:
    unplaced = [
        (c, r)
        for c in shipped.clouds()
        for r in shipped.regions(c)
        if not ground_of(c, r).country or not ground_of(c, r).part
    ]
    assert unplaced == []


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("eu", PlaceWord(part="eu")),
        ("Europe", PlaceWord(part="eu")),
        ("north-america", PlaceWord(part="na")),
        ("SA", PlaceWord(part="sa")),  # South America before Saudi Arabia
        ("saudi arabia", PlaceWord(country="SA")),
        ("de", PlaceWord(country="DE")),
        ("Germany", PlaceWord(country="DE")),
        ("uk", PlaceWord(country="GB")),
        ("united_kingdom", PlaceWord(country="GB")),
        ("us", PlaceWord(country="US")),
        ("us-east-1", None),
        ("atlantis", None),
        ("", None),
    ],
)
def test_words(text: str, meant: PlaceWord | None) -> None:
    assert place_word(text) == meant


def test_parts_of_the_world_share_no_country() -> None:
    assert len(PART_OF) == sum(1 for _ in PART_OF)
    assert set(PART_OF.values()) == {"na", "sa", "eu", "as", "me", "oc", "af"}
    assert all(place_word(code) is not None for code in PART_OF)


@pytest.fixture
def world(write_v8: WriteV8, open_catalog: Callable[..., Catalog]) -> Catalog:
    def rows(*regions: str) -> list[dict[str, object]]:
        return [
            {"InstanceType": "t", "vCPUs": 4, "MemoryGiB": 16, "Price": "1", "Region": region}
            for region in regions
        ]

    write_v8("aws", rows("us-east-1", "eu-central-1", "ca-central-1"))
    write_v8("azure", rows("eastus", "germanywestcentral"))
    write_v8("nebius", rows("us-west-1"))
    write_v8("lambda", rows("us-west-1", "europe-central-1"))
    write_v8("vast", rows("Texas, US, NA", "Bavaria, DE, EU"))
    return open_catalog(write_v8("runpod", rows("US", "CA", "CZ")))


def places(catalog: Catalog, **fields: object) -> set[str]:
    return {f"{offer.cloud}/{offer.region}" for offer in catalog.offers(Query(**fields))}  # type: ignore[arg-type]


def test_a_word_for_a_country_or_continent_means_all_that_lies_there(world: Catalog) -> None:
    germany = {
        "aws/eu-central-1",
        "azure/germanywestcentral",
        "lambda/europe-central-1",
        "vast/Bavaria, DE, EU",
    }
    assert places(world, region="de") == places(world, region="GERMANY") == germany
    assert places(world, region="eu") == germany | {"runpod/CZ"}
    assert places(world, region="eu", cloud="runpod") == {"runpod/CZ"}


def test_a_region_of_literally_this_name_wins_within_its_cloud(world: Catalog) -> None:
    assert places(world, region="ca") == {"runpod/CA", "aws/ca-central-1"}
    live = [
        Offer("own", name, "", "box", "", 0, 4, 8, Market.ON_DEMAND, usd(1))
        for name in ("eu", "de-cellar")
    ]
    with_own = world.with_offers(live)
    assert {place for place in places(with_own, region="eu") if place.startswith("own")} == {
        "own/eu"
    }
    assert {place for place in places(with_own, region="de") if place.startswith("own")} == {
        "own/de-cellar"
    }
    assert places(world, region="eu") == places(with_own, region="eu") - {"own/eu"}


def test_words_names_and_patterns_stand_beside_each_other(world: Catalog) -> None:
    assert places(world, region=("ca", "us-west-1")) == {
        "runpod/CA",
        "aws/ca-central-1",
        "nebius/us-west-1",
        "lambda/us-west-1",
    }
    assert places(world, region=("cz", "us-*"), cloud=("aws", "runpod")) == {
        "runpod/CZ",
        "aws/us-east-1",
    }
    assert places(world, region="atlantis") == set()
    assert places(world, region="japan") == set()


def test_place_words_are_what_the_question_means(world: Catalog) -> None:
    for text in ("eu", "us", "de", "us-*", "US", "us-west-1", "north america"):
        assert {f"{cloud}/{region}" for cloud, region in world.place_words(text)} == places(
            world, region=text
        )
    assert world.place_words("atlantis") == frozenset()


def test_country_and_continent_are_fields_and_columns(world: Catalog) -> None:
    assert places(world, country="Germany") == places(world, country="de")
    assert places(world, continent="eu") == places(world, region="eu")
    assert places(world, country=("us", "cz"), cloud="runpod") == {"runpod/US", "runpod/CZ"}
    assert places(world, continent="atlantis") == set()
    assert places(world, country="SA") == set()
    rows = world.select(Query(cloud="vast"))
    assert set(zip(rows.column("country"), rows.column("continent"), strict=True)) == {
        ("US", "na"),
        ("DE", "eu"),
    }
