"""Names that are resolved, and names that are refused with their line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nbprov.catalog import Catalog
from nbprov.model.places import Market
from nbprov.model.remarks import Origin
from nbprov.model.resources import Accelerator, Compare, PlaceGlob, PlaceRule, Quantity, Request
from nbprov.model.spec import Spec
from nbprov.planning import EnabledCloud, PlanError, plan

Enabled = dict[str, EnabledCloud]
WHERE = Origin("resources.any_of[0]", 7)


def one(**fields: object) -> Spec:
    return Spec(requests=(Request(origin=WHERE, **fields),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "code", "message", "closest"),
    [
        ({"cloud": "awz"}, "plan.unknown-cloud", "no cloud is called 'awz'", "aws"),
        (
            {"cloud": "aws", "region": "us-east1"},
            "plan.unknown-region",
            "aws has no place 'us-east1'",
            "us-east-1",
        ),
        (
            {"region": "us-centrall"},
            "plan.unknown-region",
            "no enabled cloud has a place 'us-centrall'",
            "us-central1",
        ),
        (
            {"cloud": "aws", "zone": "use1-az9"},
            "plan.unknown-zone",
            "aws has no zone 'use1-az9'",
            "use1-az1",
        ),
        (
            {"cloud": "aws", "region": "eu-west-1", "zone": "use1-az1"},
            "plan.zone-of-other-region",
            "zone 'use1-az1' is in us-east-1",
            "",
        ),
        (
            {"instance_type": "g6.xlarg"},
            "plan.unknown-type",
            "the catalogue has no instance type 'g6.xlarg'",
            "g6.xlarge",
        ),
        (
            {"cloud": "gcp", "instance_type": "g6.xlarge"},
            "plan.unknown-type",
            "gcp has no instance type 'g6.xlarge'",
            "",
        ),
        (
            {"accelerator": Accelerator("L")},
            "plan.ambiguous-accelerator",
            "'L' could be any of L4, L40S",
            "",
        ),
        (
            {"instance_type": "g6.xlarge", "accelerator": Accelerator("A100", 8)},
            "plan.type-disagrees",
            "g6.xlarge has L4:1, 4 vCPUs, 16 GiB; asked beside it: A100:8",
            "",
        ),
        (
            {"instance_type": "m6i.large", "cpus": Quantity(Compare.AT_LEAST, 4)},
            "plan.type-disagrees",
            "m6i.large has no accelerator, 2 vCPUs, 8 GiB; asked beside it: 4+ vCPUs",
            "",
        ),
    ],
)
def test_a_name_that_cannot_be_meant_is_an_error_with_its_line(
    small: Catalog,
    everything: Enabled,
    fields: dict[str, object],
    code: str,
    message: str,
    closest: str,
) -> None:
    with pytest.raises(PlanError) as caught:
        plan(one(**fields), small, everything)
    error = caught.value
    assert (error.code, error.line) == (code, 7)
    assert message in error.message
    assert str(error).startswith("line 7: ")
    if closest:
        assert error.problems[0].closest[0] == closest
        assert closest in error.hint


def of_clouds(*clouds: str, **fields: object) -> Spec:
    return Spec(
        requests=tuple(
            Request(index=i, origin=WHERE, cloud=cloud, **fields) for i, cloud in enumerate(clouds)
        )
    )  # type: ignore[arg-type]


def test_a_region_that_one_cloud_of_a_list_has_is_no_slip(
    small: Catalog, everything: Enabled
) -> None:
    made = plan(of_clouds("aws", "gcp", region="us-central1"), small, everything)
    assert {c.offer.cloud for c in made.candidates} == {"gcp"}
    assert "aws has no place 'us-central1': passed over" in made.notes


def test_a_pattern_that_one_cloud_of_a_list_has_is_no_slip(
    small: Catalog, everything: Enabled
) -> None:
    allowed = PlaceRule(allow=(PlaceGlob(region="us-central1"), PlaceGlob(region="us-east-1")))
    made = plan(of_clouds("aws", "gcp", places=(allowed,)), small, everything)
    assert {(c.offer.cloud, c.offer.region) for c in made.candidates} == {
        ("aws", "us-east-1"),
        ("gcp", "us-central1"),
    }


@pytest.mark.parametrize(
    "fields", [{"region": "nowhere"}, {"places": (PlaceRule(deny=(PlaceGlob(region="nowhere"),)),)}]
)
def test_a_place_that_no_cloud_of_a_list_has_is_one(
    small: Catalog, everything: Enabled, fields: dict[str, object]
) -> None:
    with pytest.raises(PlanError, match="nowhere"):
        plan(of_clouds("aws", "gcp", **fields), small, everything)


def test_all_problems_of_a_spec_are_told_at_once_each_once(
    small: Catalog, everything: Enabled
) -> None:
    requests = [Request(index=i, origin=Origin("resources", 3), cloud="awz") for i in range(3)]
    requests.append(Request(index=3, origin=Origin("resources", 4), region="nowhere"))
    with pytest.raises(PlanError) as caught:
        plan(Spec(requests=tuple(requests)), small, everything)
    assert [(p.origin.line, p.code) for p in caught.value.problems] == [
        (3, "plan.unknown-cloud"),
        (4, "plan.unknown-region"),
    ]


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"region": "EU-West-1"}, ("aws", "eu-west-1", "euw1-az1")),
        ({"zone": "US-CENTRAL1-A"}, ("gcp", "us-central1", "us-central1-a")),
        ({"cloud": "AWS", "zone": "use1-az2"}, ("aws", "us-east-1", "use1-az2")),
        ({"instance_type": "1x_L4_SECURE"}, ("runpod", "US", "US-CA-1")),
    ],
)
def test_the_cloud_follows_from_a_place_or_type_that_only_one_has(
    small: Catalog, everything: Enabled, fields: dict[str, object], place: tuple[str, str, str]
) -> None:
    if "instance_type" not in fields:
        fields = {**fields, "accelerator": Accelerator("l4")}
    chosen = plan(one(**fields), small, everything).chosen
    assert chosen is not None
    assert (chosen.offer.cloud, chosen.offer.region, chosen.offer.zone) == place


def test_a_country_is_meant_on_every_enabled_cloud_also_where_one_calls_a_region_so(
    small: Catalog, enable: Callable[..., Enabled]
) -> None:
    made = plan(one(region="US", accelerator=Accelerator("L4")), small, enable("runpod", "aws"))
    assert {c.offer.cloud for c in made.candidates} == {"runpod", "aws"}
    assert {c.offer.place.region for c in made.candidates} == {"US", "us-east-1"}


def test_a_place_only_a_disabled_cloud_has_is_no_slip_of_the_pen(
    small: Catalog, enable: Callable[..., Enabled]
) -> None:
    made = plan(
        one(region="us-central1", accelerator=Accelerator("L4")),
        small,
        enable("aws"),
        disabled={"gcp": "no credentials found"},
    )
    assert not made.candidates
    assert "L4:1 in gcp/us-central1: gcp is not set up: no credentials found" in made.notes


def test_a_cloud_without_prices_is_passed_over_with_a_line(
    small: Catalog, everything: Enabled
) -> None:
    spec = Spec(requests=(Request(cloud="k8s"), Request(index=1, accelerator=Accelerator("L4"))))
    made = plan(spec, small, everything)
    assert made.candidates
    assert "kubernetes is not set up: no adapter yet" in made.notes


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        (
            {"accelerator": Accelerator("A100", 3)},
            "A100:3: nobody sells that count; sold: 8; nearest A100:8",
        ),
        (
            {"accelerator": Accelerator("A1000")},
            "no cloud in the catalogue sells A1000; did you mean A100 or A10?",
        ),
        (
            {"cpus": Quantity(Compare.EXACTLY, 6)},
            "cpus 6: no machine has cpus 6; nearest 4, 8; cpus: 6+ takes larger ones",
        ),
        (
            {"cpus": Quantity(Compare.AT_LEAST, 900)},
            "cpus 900+: the largest machine has cpus 124, asked 900+",
        ),
        (
            {"accelerator": Accelerator("A10"), "market": Market.SPOT},
            "A10:1 spot: not sold as spot; use_spot: false buys on demand",
        ),
        (
            {"accelerator": Accelerator("A10"), "cloud": "aws"},
            "A10:1 is not sold in aws; sold by lambda",
        ),
        (
            {
                "accelerator": Accelerator("L4", 2),
                "cloud": "gcp",
                "memory": Quantity(Compare.EXACTLY, 64),
            },
            "L4:2 memory 64: no machine has memory 64; nearest 96; memory: 64+ takes larger ones",
        ),
        (
            {"accelerator": Accelerator("", 2, memory_gib=80)},
            "80GB:2: no accelerator with that memory is sold in that count",
        ),
    ],
)
def test_nothing_feasible_is_explained_not_raised(
    small: Catalog, everything: Enabled, fields: dict[str, object], note: str
) -> None:
    made = plan(one(**fields), small, everything)
    assert len(made.candidates) == 0
    assert made.notes[0] == "nothing satisfies this spec as it stands"
    assert note in made.notes


def test_a_fragment_of_one_name_is_taken_and_shown(small: Catalog, everything: Enabled) -> None:
    made = plan(one(accelerator=Accelerator("l40")), small, everything)
    assert [c.offer.gpus for c in made.candidates] == ["L40S:1"]
    assert "l40 was read as L40S" in made.notes
    assert not plan(one(accelerator=Accelerator("a100", 8)), small, everything).notes


def test_alternatives_that_differ_in_place_share_one_line(
    small: Catalog, everything: Enabled
) -> None:
    clouds = ("lambda", "primeintellect", "aws")
    spec = Spec(
        requests=tuple(
            Request(index=i, cloud=c, accelerator=Accelerator("L4", 2))
            for i, c in enumerate(clouds)
        )
    )
    made = plan(spec, small, everything)
    assert [note for note in made.notes if note.startswith("L4:2")] == [
        "L4:2 is not sold in lambda; sold by gcp",
        "L4:2 is not sold in primeintellect; sold by gcp",
        "L4:2 is not sold in aws; sold by gcp",
    ]


def test_a_fragment_of_several_names_is_clear_where_the_named_cloud_sells_one(
    small: Catalog, everything: Enabled
) -> None:
    made = plan(one(accelerator=Accelerator("L"), cloud="runpod"), small, everything)
    assert {c.offer.gpus for c in made.candidates} == {"L4:1"}
    assert "L was read as L4" in made.notes
    both = Spec(
        requests=tuple(
            Request(index=i, accelerator=Accelerator("L"), cloud=c)
            for i, c in enumerate(("runpod", "primeintellect"))
        )
    )
    assert {c.offer.gpus for c in plan(both, small, everything).candidates} == {"L4:1", "L40S:1"}
    with pytest.raises(PlanError):
        plan(one(accelerator=Accelerator("A1"), cloud="lambda"), small, everything)
