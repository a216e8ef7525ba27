"""A spec that names only unusable clouds: refused with what to paste, or planned as empty."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from nbprov.catalog import Catalog
from nbprov.clouds.base import Capabilities
from nbprov.planning import EnabledCloud, PlanError, plan
from nbprov.spec import parse

Enable = Callable[..., dict[str, EnabledCloud]]


def pasted(error: PlanError) -> str:
    _, _, text = error.hint.partition("paste\n")
    return text


@pytest.mark.parametrize(
    ("resources", "names", "instead"),
    [
        ("{infra: k8s}", "kubernetes", {}),
        (
            "{infra: k8s/my-context, accelerators: A100:8, cpus: 4+}",
            "kubernetes",
            {"accelerators": "A100:8", "cpus": "4+"},
        ),
        (
            "{infra: slurm, accelerators: L4, use_spot: true}",
            "slurm",
            {"accelerators": "L4:1", "use_spot": True},
        ),
        (
            "{infra: k8s, any_of: [{cpus: 4}, {infra: ssh}]}",
            "kubernetes and ssh",
            {"any_of": [{"cpus": "4"}, {}]},
        ),
        (
            "{infra: [k8s, ssh/pool], accelerators: L4}",
            "kubernetes and ssh",
            {"accelerators": "L4:1"},
        ),
    ],
)
def test_a_cloud_without_prices_and_adapter_alone_is_refused_with_what_to_paste(
    small: Catalog, enable: Enable, resources: str, names: str, instead: object
) -> None:
    enabled = enable("aws", "gcp", sim=Capabilities(named_only=True))
    with pytest.raises(PlanError) as caught:
        plan(
            parse(f"name: x\nresources: {resources}\nnum_nodes: 2\nsetup: pip install a\n"),
            small,
            enabled,
        )
    [problem] = caught.value.problems
    assert problem.code == "plan.no-adapter"
    assert problem.message.startswith(f"{names} cannot be used")
    assert problem.origin.line == 2
    assert problem.hint.startswith("clouds at hand: aws, gcp; to use them, paste\n")
    assert yaml.safe_load(pasted(caught.value)) == {"resources": instead}
    assert plan(parse(pasted(caught.value)), small, enabled).notes is not None


def test_guards_that_stand_in_resources_are_pasted_too(small: Catalog, enable: Enable) -> None:
    with pytest.raises(PlanError) as caught:
        plan(
            parse("resources: {infra: k8s, autostop: 10}\nmax_lifetime: 8h\nbudget: 5"),
            small,
            enable("aws"),
        )
    assert yaml.safe_load(pasted(caught.value)) == {"resources": {"autostop": {"idle_minutes": 10}}}


def test_with_no_cloud_set_up_the_command_that_says_why_is_named(small: Catalog) -> None:
    with pytest.raises(PlanError) as caught:
        plan(parse("resources: {infra: k8s}"), small, {})
    assert caught.value.hint.startswith("%nbprov check says which clouds are at hand")


@pytest.mark.parametrize(
    "resources",
    ["{any_of: [{infra: k8s}, {infra: aws}]}", "{any_of: [{infra: k8s}, {accelerators: L4}]}"],
)
def test_one_of_several_is_dropped_with_a_line(
    small: Catalog, enable: Enable, resources: str
) -> None:
    made = plan(parse(f"resources: {resources}"), small, enable("aws"))
    assert {c.offer.cloud for c in made.candidates} == {"aws"}
    assert "kubernetes is not set up: no adapter yet" in made.notes


def test_a_cloud_with_prices_and_no_adapter_leaves_an_empty_plan_that_names_the_others(
    small: Catalog, enable: Enable
) -> None:
    made = plan(parse("resources: {infra: gcp, accelerators: L4}"), small, enable("aws"))
    assert not made.candidates
    assert "L4:1 in gcp: gcp is not set up: no adapter yet" in made.notes
    assert "clouds at hand: aws; leaving out the place takes them" in made.notes


def test_a_cloud_that_only_lacks_credentials_leaves_an_empty_plan_with_the_reason(
    small: Catalog, enable: Enable
) -> None:
    for resources in ("{infra: gcp, accelerators: L4}", "{infra: hyperbolic, accelerators: L4}"):
        cloud = resources.split()[1].rstrip(",")
        made = plan(
            parse(f"resources: {resources}"),
            small,
            enable("aws"),
            disabled={cloud: "no credentials found"},
        )
        assert not made.candidates
        assert any(f"{cloud} is not set up: no credentials found" in note for note in made.notes)
        assert not any("at hand" in note for note in made.notes)


def test_an_enabled_cloud_without_prices_is_no_error(small: Catalog, enable: Enable) -> None:
    made = plan(parse("resources: {infra: verda, accelerators: L4}"), small, enable("aws", "verda"))
    assert not made.candidates
    assert "the catalogue has no prices of verda" in made.notes


def test_clouds_that_enter_only_when_named_are_counted_where_they_are_not(
    small: Catalog, enable: Enable
) -> None:
    enabled = enable("aws", lambda_=Capabilities()) | {
        "runpod": EnabledCloud("me", Capabilities(named_only=True))
    }
    made = plan(parse("resources: {accelerators: L4}"), small, enabled)
    assert {c.offer.cloud for c in made.candidates} == {"aws"}
    assert ("unnamed:runpod", "runpod takes part only where a spec names it", 2) in [
        (d.rule.name, d.words, d.count) for d in made.dropped
    ]
    assert (
        len(plan(parse("resources: {accelerators: L4, infra: runpod}"), small, enabled).candidates)
        == 2
    )
