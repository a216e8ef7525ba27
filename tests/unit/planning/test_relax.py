"""What one constraint less would open, for every kind of constraint.

Each answer is compared with a plan of the changed spec.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbprov.catalog import Catalog
from nbprov.clouds.base import Capabilities
from nbprov.model.blocks import Block
from nbprov.model.failures import Cause
from nbprov.model.offers import Plan
from nbprov.model.spec import Spec
from nbprov.planning import EnabledCloud, PlanError, Relaxation, plan, relax
from nbprov.planning.lookup.skypilot_capabilities import skypilot_clouds
from nbprov.spec import parse

Enabled = Mapping[str, EnabledCloud]
FIVE = ("aws", "gcp", "lambda", "runpod", "primeintellect")
NOW = 100.0


def text_of(task: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(task), sort_keys=False)


def task_of(resources: Mapping[str, Any] | str, **top: Any) -> dict[str, Any]:
    return {
        "resources": yaml.safe_load(resources) if isinstance(resources, str) else dict(resources),
        **top,
    }


def relaxed(
    catalog: Catalog,
    resources: Mapping[str, Any] | str,
    *,
    clouds: Iterable[str] = FIVE,
    **top: Any,
) -> tuple[Relaxation, ...]:
    return relax(
        parse(text_of(task_of(resources, **top))), catalog, skypilot_clouds(clouds), now=NOW
    )


def of_field(found: Iterable[Relaxation], field: str) -> dict[str, tuple[int, int, int | None]]:
    return {r.change: (r.places, r.offers, r.hourly) for r in found if r.field == field}


@pytest.mark.parametrize(
    ("resources", "field", "expected"),
    [
        (
            "{accelerators: L4, infra: aws/us-east-1/use1-az2}",
            "zone",
            {"infra: aws/us-east-1": (1, 2, 800_000)},
        ),
        (
            "{accelerators: L4, infra: aws/us-east-1/use1-az2}",
            "region",
            {"infra: aws": (2, 3, 800_000)},
        ),
        (
            "{accelerators: L4, infra: aws/us-east-1/use1-az2}",
            "infra",
            {"leaving out the place": (5, 6, 490_000)},
        ),
        (
            "{accelerators: L4, cloud: aws, region: eu-west-1}",
            "region",
            {"leaving out region": (2, 3, 800_000)},
        ),
        (
            "{accelerators: L4, infra: [aws/eu-west-1, gcp]}",
            "region",
            {"infra: [aws, gcp]": (2, 3, 800_000)},
        ),
        (
            "{accelerators: L4, region: {deny: [us-*, CZ, US]}}",
            "places",
            {"leaving out allow and deny": (5, 6, 490_000)},
        ),
        (
            "{cpus: 5, memory: 16+}",
            "cpus",
            {"cpus: 5+": (6, 8, 340_000), "leaving out cpus": (6, 8, 200_000)},
        ),
        (
            "{accelerators: L4, cpus: 8}",
            "cpus",
            {"cpus: 8+": (0, 0, None), "leaving out cpus": (3, 4, 800_000)},
        ),
        (
            "{cpus: 8+, memory: 16}",
            "memory",
            {"memory: 16+": (5, 7, 380_000), "leaving out memory": (5, 7, 380_000)},
        ),
        ("{accelerators: L4:2}", "accelerators", {"accelerators: L4:1": (5, 7, 490_000)}),
        (
            "{accelerators: L4, infra: aws, max_price: 0.8}",
            "max_price",
            {"max_price: 0.88": (1, 1, 880_000), "no cap on the price": (1, 2, 880_000)},
        ),
        (
            "{accelerators: L4, infra: aws, max_hourly_cost: 0.1}",
            "max_price",
            {"max_hourly_cost: 0.80": (2, 2, 800_000), "no cap on the price": (3, 4, 800_000)},
        ),
        (
            "{accelerators: L4, use_spot: true, infra: gcp}",
            "use_spot",
            {"use_spot: prefer": (0, 1, 800_000)},
        ),
        ("{accelerators: L4, infra: gcp}", "use_spot", {"use_spot: prefer": (0, 1, 300_000)}),
        (
            "{accelerators: L4, disk_tier: high}",
            "disk_tier",
            {"leaving out disk_tier": (2, 2, 490_000)},
        ),
        (
            "{accelerators: L4, network_tier: best}",
            "network_tier",
            {"leaving out network_tier": (2, 2, 490_000)},
        ),
        (
            "{accelerators: L40S, image_id: 'docker:a'}",
            "image_id",
            {"leaving out image_id": (1, 1, 1_100_000)},
        ),
        (
            "{accelerators: L4, local_disk: nvme:300}",
            "local_disk",
            {"leaving out local_disk": (6, 7, 490_000)},
        ),
        (
            "{instance_type: g6.xlarge, infra: aws}",
            "instance_type",
            {"accelerators: L4:1 instead of instance_type": (0, 1, 980_000)},
        ),
        (
            "{instance_type: r6i.xlarge}",
            "instance_type",
            {"cpus: 4+, memory: 32+ instead of instance_type": (5, 7, 380_000)},
        ),
    ],
)
def test_every_kind_of_constraint(
    small: Catalog, resources: str, field: str, expected: dict[str, tuple[int, int, int | None]]
) -> None:
    found = of_field(relaxed(small, resources), field)
    assert {change: told for change, told in found.items() if change in expected} == expected, found


def test_nodes(small: Catalog) -> None:
    [one] = [r for r in relaxed(small, "{accelerators: L4}", num_nodes=2) if r.field == "num_nodes"]
    assert (one.change, one.places, one.offers, one.hourly, one.is_yaml) == (
        "num_nodes: 1",
        2,
        2,
        490_000,
        True,
    )


def test_ports_that_are_opened_to_the_internet(small: Catalog) -> None:
    spec = parse("resources: {accelerators: L4, ports: 8080}\nexpose: public")
    enabled = {
        "aws": EnabledCloud("", Capabilities(ports=True)),
        "runpod": EnabledCloud("", Capabilities(ports=False)),
    }
    [tunnels] = [r for r in relax(spec, small, enabled) if r.field == "expose"]
    assert (tunnels.change, tunnels.places, tunnels.hourly) == ("expose: tunnel", 2, 490_000)


def test_blocks_say_when_they_end(small: Catalog) -> None:
    spec, enabled = parse("resources: {accelerators: L4}"), skypilot_clouds(["aws"])
    zone = Block(cloud="aws", zone="use1-az1", cause=Cause.CAPACITY, expires=NOW + 180)
    [one] = [r for r in relax(spec, small, enabled, blocks=[zone], now=NOW) if r.field == "blocks"]
    assert (
        one.words()
        == "waiting 3 min for the block to end opens 1 more place (2 offers), from $0.80/h"
    )
    all_of_it = Block(cloud="aws", cause=Cause.QUOTA, expires=NOW + 3600)
    [both] = [
        r
        for r in relax(spec, small, enabled, blocks=[zone, all_of_it], now=NOW)
        if r.field == "blocks"
    ]
    assert (
        both.words()
        == "waiting for the blocks to end, 3 min to 1 h from now opens 3 more places (4 "
        "offers), from $0.80/h"
    )
    assert not [
        r for r in relax(spec, small, enabled, blocks=[zone], now=NOW + 180) if r.field == "blocks"
    ]


def test_a_block_of_something_else_is_not_waited_for(small: Catalog) -> None:
    spec, enabled = parse("resources: {accelerators: L4}"), skypilot_clouds(["aws"])
    zone = Block(cloud="aws", zone="use1-az1", cause=Cause.CAPACITY, expires=NOW + 180)
    other = Block(cloud="aws", quota_family="p5", cause=Cause.QUOTA, expires=NOW + 3600)
    found = relax(spec, small, enabled, blocks=[other, zone], now=NOW)
    (blocks,) = [one for one in found if one.field == "blocks"]
    assert blocks.change == "waiting 3 min for the block to end"
    assert blocks.blocks == (zone,)
    assert not [
        one for one in relax(spec, small, enabled, blocks=[other], now=NOW) if one.field == "blocks"
    ]


def test_a_cloud_that_could_be_set_up(small: Catalog) -> None:
    spec, every = parse("resources: {accelerators: L4}"), skypilot_clouds(FIVE)
    off = {name: every[name] for name in ("runpod", "primeintellect")}
    found = {r.field: r for r in relax(spec, small, {"aws": every["aws"]}, off=off)}
    assert found["runpod"].cloud == "runpod"
    assert not any(one.cloud for one in found.values() if one.is_yaml)
    words = "setting up runpod opens 2 more places, from $0.49/h: US-CA-1, EU-CZ-1"
    assert found["runpod"].words() == words
    assert found["primeintellect"].words() == "setting up primeintellect opens nothing more"
    assert not found["runpod"].is_yaml


def test_the_cap_is_raised_to_the_next_cent(catalog_of: Callable[..., Catalog]) -> None:
    rows = [
        (f"g{n}", "L4", 1, 4, 16, price, "", "us-east-1", "use1-az1")
        for n, price in enumerate((0.8001, 0.804, 0.81, 0.9))
    ]
    catalog = catalog_of({"aws": rows})
    found = of_field(
        relaxed(catalog, "{accelerators: L4, max_price: 0.5}", clouds=["aws"]), "max_price"
    )
    assert found == {"max_price: 0.81": (1, 3, 800_100), "no cap on the price": (1, 4, 800_100)}


def test_different_caps_have_no_common_one(small: Catalog) -> None:
    found = relaxed(
        small,
        "{any_of: [{accelerators: L4, infra: aws, max_price: 0.5}, {accelerators: L4, infra: "
        "gcp, max_price: 0.6}]}",
    )
    assert list(of_field(found, "max_price")) == ["no cap on the price"]


def test_both_names_of_a_cap_are_raised_together(small: Catalog) -> None:
    found = relaxed(small, "{accelerators: L4, infra: aws, max_price: 0.5, max_hourly_cost: 0.6}")
    raised = next(r for r in found if r.field == "max_price" and r.places == 2)
    assert (raised.change, raised.is_yaml) == (
        "raising max_price and max_hourly_cost to 0.80",
        False,
    )


def test_several_alternatives_are_changed_together(small: Catalog) -> None:
    any_of = (
        "{infra: aws/eu-west-1, any_of: [{accelerators: L4, cpus: 8}, {accelerators: A100:8, "
        "cpus: 2}]}"
    )
    found = relaxed(small, any_of)
    assert set(of_field(found, "cpus")) == {"a + behind each exact cpus", "leaving out cpus"}
    assert not next(r for r in found if r.field == "cpus" and r.change.startswith("a +")).is_yaml
    assert set(of_field(found, "region")) == {"leaving out region"}
    gpus = of_field(
        relaxed(small, "{accelerators: {L4: 1, A100: 8}, infra: runpod}"), "accelerators"
    )
    assert all(not change.startswith("accelerators: L4:") for change in gpus)


def test_what_opens_most_cheaply_comes_first_and_what_opens_nothing_last(small: Catalog) -> None:
    found = relaxed(small, "{accelerators: L4, infra: aws/us-east-1, memory: 500+, max_price: 3}")
    opening = [r.offers > 0 for r in found]
    assert opening == sorted(opening, reverse=True)
    prices = [r.hourly for r in found if r.hourly is not None]
    assert prices == sorted(prices)
    assert all(r.words().endswith("opens nothing more") == (r.offers == 0) for r in found)


def test_a_spec_that_means_nothing_is_refused_as_by_a_plan(small: Catalog) -> None:
    with pytest.raises(PlanError):
        relaxed(small, "{accelerators: L4, infra: aws/eu-north-9}")


# ---------------------------------------------------------------- answers against plans


def changed(task: Mapping[str, Any], relaxation: Relaxation) -> dict[str, Any]:
    """The task as a person would write it who follows the relaxation."""
    resources, top, words = dict(task["resources"]), dict(task), relaxation.change
    if words.endswith(" instead of instance_type"):
        hardware = words.removesuffix(" instead of instance_type")
        del resources["instance_type"]
        resources |= yaml.safe_load("{" + hardware + "}")
    elif relaxation.is_yaml:
        [(name, value)] = yaml.safe_load(words).items()
        (resources if name not in ("num_nodes", "expose") else top)[name] = value
    else:
        gone = {
            "leaving out the place": ("infra", "region"),
            "leaving out allow and deny": ("region",),
            "no cap on the price": ("max_price",),
        }
        for name in gone.get(words, (words.removeprefix("leaving out "),)):
            resources.pop(name, None)
    return {**top, "resources": resources}


def keys(made: Plan) -> dict[tuple[str, ...], int]:
    return {c.offer.key: c.offer.hourly for c in made.candidates}


fields = {
    "infra": st.sampled_from(
        [
            "aws",
            "aws/us-east-1",
            "aws/us-east-1/use1-az2",
            "gcp",
            ["aws/eu-west-1", "runpod/CZ"],
            "*/us-west-1",
        ]
    ),
    "region": st.sampled_from([{"deny": ["us-*"]}, {"allow": ["eu-*", "CZ"]}]),
    "cpus": st.sampled_from([4, 5, "8", "8+"]),
    "memory": st.sampled_from([16, 30, "32+", "4x"]),
    "use_spot": st.sampled_from([True, False]),
    "max_price": st.sampled_from([0.1, 0.3, 0.495, 0.8, 2]),
    "disk_tier": st.sampled_from(["high", "best"]),
    "network_tier": st.just("best"),
    "image_id": st.just("docker:a"),
    "local_disk": st.sampled_from(["nvme:100+", "nvme:300"]),
}
hardware: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"accelerators": "L4"},
        {"accelerators": "A100:8"},
        {"accelerators": {"L4": 1, "A100": 8}},
        {"accelerators": ["L4:2", "L40S:1"]},
        {"instance_type": "g6.xlarge"},
        {"instance_type": "m6i.large"},
    ]
)


@st.composite
def tasks(draw: st.DrawFn) -> dict[str, Any]:
    resources = dict(draw(hardware))
    for name in draw(st.lists(st.sampled_from(sorted(fields)), max_size=4, unique=True)):
        resources[name] = draw(fields[name])
    if "infra" in resources:
        resources.pop("region", None)
    if not str(resources.get("infra", "aws")).startswith("aws"):
        resources.pop(
            "local_disk", None
        )  # refused by the parser where only clouds without one are named
    if "instance_type" in resources:
        resources = {
            name: value for name, value in resources.items() if name not in ("cpus", "memory")
        }
    nodes = draw(st.sampled_from([1, 1, 2]))
    return {"resources": resources} if nodes == 1 else {"resources": resources, "num_nodes": nodes}


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(task=tasks(), clouds=st.sets(st.sampled_from(FIVE), min_size=1))
def test_a_relaxation_opens_what_the_changed_spec_opens(
    small: Catalog, task: dict[str, Any], clouds: set[str]
) -> None:
    enabled = skypilot_clouds(sorted(clouds))
    spec = parse(text_of(task))
    try:
        before = keys(plan(spec, small, enabled))
    except PlanError:
        return  # refused as it stands: nothing to relax
    for relaxation in relax(spec, small, enabled):
        after = keys(plan(parse(text_of(changed(task, relaxation))), small, enabled))
        new = {key: price for key, price in after.items() if key not in before}
        places = {key[:3] for key in after} - {key[:3] for key in before}
        said = (relaxation.places, relaxation.offers, relaxation.hourly)
        assert said == (len(places), len(new), min(new.values(), default=None)), relaxation
        assert re.search(r"opens (nothing more|\d+ more)", relaxation.words())


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(task=tasks())
def test_relaxing_changes_nothing_it_is_given(small: Catalog, task: dict[str, Any]) -> None:
    enabled = skypilot_clouds(FIVE)
    spec = parse(text_of(task))

    def found(it: Spec) -> object:
        try:
            return relax(it, small, enabled)
        except PlanError as error:
            return error.render()

    assert found(spec) == found(spec)
    assert spec == parse(text_of(task))
