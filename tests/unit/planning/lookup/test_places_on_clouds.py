"""A place is meant on every cloud that has it; AWS's zones have a name in each account."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nbprov.catalog import Catalog
from nbprov.catalog.sources import aws_zone_ids
from nbprov.model.offers import Plan
from nbprov.planning import EnabledCloud, plan
from nbprov.spec import parse

PRICES = {
    "gcp": (
        ("g2-standard-4", "L4", 1, 4, 16, 0.80, 0.30, "europe-west4", "europe-west4-a"),
        ("g2-standard-4", "L4", 1, 4, 16, 0.70, 0.30, "us-central1", "us-central1-a"),
    ),
    "runpod": (
        ("1x_L4_SECURE", "L4", 1, 8, 45, 0.49, "", "NL", "EU-NL-1"),
        ("1x_L4_SECURE", "L4", 1, 8, 45, 0.48, "", "CZ", "EU-CZ-1"),
        ("1x_L4_SECURE", "L4", 1, 8, 45, 0.47, "", "US", "US-CA-1"),
    ),
    "vast": (("1x_L4", "L4", 1, 8, 45, 0.40, "", ", CN, AS", ""),),
    "aws": (
        ("g6.xlarge", "L4", 1, 4, 16, 0.80, "", "us-east-1", "use1-az1"),
        ("g6.xlarge", "L4", 1, 4, 16, 0.81, "", "us-east-1", "use1-az2"),
    ),
    "lambda": (("gpu_1x_l4", "L4", 1, 30, 200, 0.79, "", "us-east-1", ""),),
}


@pytest.fixture
def planned(
    catalog_of: Callable[..., Catalog], enable: Callable[..., dict[str, EnabledCloud]]
) -> Callable[..., Plan]:
    catalog = catalog_of(PRICES)

    def make(resources: str, *clouds: str) -> Plan:
        return plan(
            parse(f"resources: {{accelerators: L4, {resources}}}"),
            catalog,
            enable(*(clouds or ("gcp", "runpod", "aws", "lambda"))),
        )

    return make


def places(made: Plan) -> set[str]:
    return {str(candidate.offer.place) for candidate in made.candidates}


@pytest.mark.parametrize("clouds", [("gcp",), ("gcp", "runpod"), ("runpod",)])
def test_a_country_is_meant_on_every_cloud(
    planned: Callable[..., Plan], clouds: tuple[str, ...]
) -> None:
    expected = {"gcp": "gcp/europe-west4/europe-west4-a", "runpod": "runpod/NL/EU-NL-1"}
    for word in ("NL", "nl", "netherlands"):
        assert places(planned(f"region: {word}", *clouds)) == {expected[c] for c in clouds}


def test_a_list_of_countries_is_one_wish_on_all_clouds(planned: Callable[..., Plan]) -> None:
    made = planned("region: [CZ, NL]")
    assert places(made) == {
        "gcp/europe-west4/europe-west4-a",
        "runpod/NL/EU-NL-1",
        "runpod/CZ/EU-CZ-1",
    }


def test_a_cloud_that_is_named_keeps_its_own_region(planned: Callable[..., Plan]) -> None:
    assert places(planned("infra: runpod/NL")) == {"runpod/NL/EU-NL-1"}
    assert places(planned("infra: gcp/NL")) == {"gcp/europe-west4/europe-west4-a"}


def test_a_place_that_several_clouds_have_names_all_of_them(planned: Callable[..., Plan]) -> None:
    assert places(planned("region: us-east-1")) == {
        "aws/us-east-1/use1-az1",
        "aws/us-east-1/use1-az2",
        "lambda/us-east-1",
    }
    assert places(planned("region: us-east-1", "aws")) == {
        "aws/us-east-1/use1-az1",
        "aws/us-east-1/use1-az2",
    }


def test_an_aws_zone_may_have_the_name_that_the_account_gives_it(
    planned: Callable[..., Plan], nbprov_home: Path
) -> None:
    open_zone = planned("cloud: aws, zone: us-east-1a")
    assert places(open_zone) == {"aws/us-east-1/use1-az1", "aws/us-east-1/use1-az2"}
    assert any("zone us-east-1a is differs" in n or "us-east-1a is" in n for n in open_zone.notes)
    aws_zone_ids.learn("me", [("use1-az2", "us-east-1a", "us-east-1")])
    for spec in (
        "cloud: aws, zone: us-east-1a",
        "infra: aws/us-east-1/us-east-1a",
        "zone: us-east-1a",
        "infra: [aws/us-east-1/us-east-1a]",
        'infra: "aws/*/us-east-1?"',
    ):
        assert places(planned(spec)) == {"aws/us-east-1/use1-az2"}, spec
