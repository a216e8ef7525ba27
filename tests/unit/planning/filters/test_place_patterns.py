"""Patterns, countries and parts of the world in `Request.places`, and names of no place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nbprov.catalog import Catalog
from nbprov.model.offers import Plan
from nbprov.model.resources import Accelerator, PlaceGlob, PlaceRule, Request
from nbprov.model.spec import Spec
from nbprov.planning import EnabledCloud, PlanError, plan

Enabled = dict[str, EnabledCloud]
Enable = Callable[..., Enabled]
L4 = Accelerator("L4")


def glob(text: str) -> PlaceGlob:
    return PlaceGlob(*("" if part == "*" else part for part in text.split("/")))


def rule(*allow: str, deny: tuple[str, ...] = ()) -> PlaceRule:
    return PlaceRule(tuple(map(glob, allow)), tuple(map(glob, deny)))


def one(*rules: PlaceRule, **fields: object) -> Spec:
    request = Request(accelerator=L4, places=rules, **fields)  # type: ignore[arg-type]
    return Spec(requests=(request,))


def zones(made: Plan) -> set[str]:
    return {c.offer.zone for c in made.candidates}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ((rule("aws"),), {"use1-az1", "use1-az2", "euw1-az1"}),
        ((rule("AW?"),), {"use1-az1", "use1-az2", "euw1-az1"}),
        ((rule("*/us-*"),), {"use1-az1", "use1-az2", "us-central1-a"}),
        ((rule("*/US-EAST-1"),), {"use1-az1", "use1-az2"}),
        ((rule("aws/us-*", "gcp"),), {"use1-az1", "use1-az2", "us-central1-a"}),
        ((rule("*/*/*az2"),), {"use1-az2"}),
        ((rule(deny=("aws/us-*", "runpod")),), {"euw1-az1", "us-central1-a"}),
        ((rule("*/us-*", deny=("gcp",)),), {"use1-az1", "use1-az2"}),
        ((rule("*/us-*"), rule("aws")), {"use1-az1", "use1-az2"}),
        ((rule("*/eu"),), {"euw1-az1", "EU-CZ-1"}),
        ((rule("*/ireland"),), {"euw1-az1"}),
        ((rule("*/us"),), {"use1-az1", "use1-az2", "us-central1-a", "US-CA-1"}),
        ((rule(deny=("*/us",)),), {"euw1-az1", "EU-CZ-1"}),
    ],
)
def test_a_rule_leaves_the_places_it_names(
    small: Catalog, everything: Enabled, rules: tuple[PlaceRule, ...], expected: set[str]
) -> None:
    assert zones(plan(one(*rules), small, everything)) == expected


def test_a_rule_holds_beside_a_named_cloud(small: Catalog, everything: Enabled) -> None:
    assert zones(plan(one(rule("*/us-*"), cloud="aws"), small, everything)) == {
        "use1-az1",
        "use1-az2",
    }


def test_a_part_of_the_world_may_stand_where_a_region_does(
    small: Catalog, everything: Enabled
) -> None:
    assert zones(plan(one(region="eu"), small, everything)) == {"euw1-az1", "EU-CZ-1"}
    assert zones(plan(one(region="Europe", cloud="aws"), small, everything)) == {"euw1-az1"}


def test_a_country_is_no_cloud_s_region_alone(small: Catalog, enable: Enable) -> None:
    made = plan(one(region="us"), small, enable("aws", "runpod"))
    assert zones(made) == {"US-CA-1", "use1-az1", "use1-az2"}
    alone = plan(one(region="us", cloud="runpod"), small, enable("aws", "runpod"))
    assert zones(alone) == {"US-CA-1"}


@pytest.mark.parametrize(
    ("rules", "code", "message", "hint"),
    [
        (
            (rule("aws/us-eest-*"),),
            "plan.unknown-place",
            "no place of aws is called 'us-eest-*' (prices of ",
            "us-east-1",
        ),
        (
            (rule("*/mars"),),
            "plan.unknown-place",
            "no place of any cloud is called 'mars'",
            "places: ",
        ),
        (
            (rule(deny=("aws/eu-west-9",)),),
            "plan.unknown-place",
            "no place of aws is called 'eu-west-9'",
            "eu-west-1",
        ),
        (
            (rule("aws/us-east-1/use9-az9"),),
            "plan.unknown-place",
            "no place of aws is called 'use9-az9'",
            "use1-az",
        ),
        ((rule("awz/us-*"),), "plan.unknown-cloud", "no cloud is called 'awz'", "aws"),
    ],
)
def test_a_pattern_that_means_no_place_is_refused(
    small: Catalog,
    everything: Enabled,
    rules: tuple[PlaceRule, ...],
    code: str,
    message: str,
    hint: str,
) -> None:
    with pytest.raises(PlanError) as caught:
        plan(one(*rules), small, everything)
    [problem] = caught.value.problems
    assert problem.code == code
    assert problem.message.startswith(message)
    assert hint in problem.hint


def test_a_known_place_without_an_offer_is_a_line(small: Catalog, everything: Enabled) -> None:
    made = plan(one(rule("lambda/us-*")), small, everything)
    assert not made.candidates
    assert (
        "L4:1 is not sold in (lambda/us-*); cheapest in CZ, US, us-east-1, us-central1, eu-west-1"
        in made.notes
    )


def test_one_of_several_patterns_without_an_offer_is_a_line(
    small: Catalog, everything: Enabled
) -> None:
    made = plan(one(rule("aws/us-*", "lambda")), small, everything)
    assert zones(made) == {"use1-az1", "use1-az2"}
    assert "L4:1 is not sold in lambda: passed over" in made.notes


def test_a_rule_that_names_a_cloud_that_is_not_set_up_says_so(
    small: Catalog, enable: Enable
) -> None:
    made = plan(one(rule("gcp", "aws/us-*")), small, enable("aws"), disabled={"gcp": "no key"})
    assert zones(made) == {"use1-az1", "use1-az2"}
    lines = [("disabled:gcp", "gcp is not set up: no key", 1), ("place", "elsewhere than asked", 3)]
    assert [(d.rule.name, d.words, d.count) for d in made.dropped] == lines
    assert plan(one(rule("k8s", "aws/us-*")), small, enable("aws")).candidates
