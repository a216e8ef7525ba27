"""Acceptance cases of the language: the requests of a cell, their tiers, and the remarks.

Cases that need a catalogue are in planning.
"""

from __future__ import annotations

import pytest

from nbprov.model.guards import Autostop, Guards
from nbprov.model.money import usd
from nbprov.model.places import Market
from nbprov.model.remarks import Severity
from nbprov.model.resources import Compare, Image, PlaceGlob, PlaceRule, Quantity, Request
from nbprov.model.spec import Spec
from nbprov.spec import SpecError, parse


def wants(resources: str) -> list[tuple[int, str]]:
    """Tier and words of each request, in the order of the index."""
    requests = parse(f"resources: {resources}").requests
    assert [r.index for r in requests] == list(range(len(requests)))
    return [(r.tier, str(r)) for r in requests]


def refusal(text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        parse(text)
    return caught.value


def codes(text: str) -> list[str]:
    return [p.code for p in refusal(text).problems]


def test_empty_resources_are_one_request_without_demands() -> None:
    assert wants("{}") == [(0, "any machine")]
    assert parse("run: nvidia-smi").requests == (Request(),)


def test_gpus_and_spot() -> None:
    assert wants("{accelerators: A100:8, use_spot: true}") == [(0, "A100:8 spot")]


@pytest.mark.parametrize(("text", "count"), [("A10:0.33", 0.33), ("T4:0.5", 0.5), ("A100", 1.0)])
def test_fractional_counts(text: str, count: float) -> None:
    (request,) = parse(f"resources: {{accelerators: '{text}'}}").requests
    assert request.accelerator is not None
    assert request.accelerator.count == count


def test_a_set_is_one_tier_as_written() -> None:
    assert wants("{accelerators: {L4:1, A10G: 2, T4: null}}") == [
        (0, "L4:1"),
        (0, "A10G:2"),
        (0, "T4:1"),
    ]


def test_a_list_is_a_preference_and_duplicates_go() -> None:
    assert wants("{accelerators: [H100:8, a100:8, H100:8, A100:8]}") == [
        (0, "H100:8"),
        (1, "a100:8"),
    ]


def test_device_memory_is_one_predicate() -> None:
    (request,) = parse("resources: {gpus: 80GB+:8}").requests
    kind = request.accelerator
    assert kind is not None
    assert (kind.name, kind.memory_gib, kind.memory_at_least, kind.count) == ("", 80.0, True, 8.0)


def test_one_field_under_two_names() -> None:
    error = refusal("resources: {gpus: L4, accelerators: L4}")
    assert [p.code for p in error.problems] == ["spec.same-field"]
    assert "one field under two names" in str(error)


def test_accelerator_is_taken_with_a_note() -> None:
    spec = parse("resources: {accelerator: L4}")
    assert str(spec.requests[0]) == "L4:1"
    assert [(r.level, "accelerators" in r.message) for r in spec.remarks] == [(Severity.NOTE, True)]


def test_a_set_below_any_of() -> None:
    assert wants("{accelerators: {L4:1, T4:1}, any_of: [{infra: aws}, {infra: gcp}]}") == [
        (0, "L4:1 @aws"),
        (0, "T4:1 @aws"),
        (0, "L4:1 @gcp"),
        (0, "T4:1 @gcp"),
    ]


def test_items_override_key_by_key() -> None:
    text = (
        "{accelerators: A100:8, use_spot: true, any_of: [{infra: aws}, {infra: gcp, "
        "accelerators: L4:8, use_spot: false}]}"
    )
    assert wants(text) == [(0, "A100:8 spot @aws"), (0, "L4:8 @gcp")]


def test_ordered_is_a_preference() -> None:
    text = "{accelerators: A10G, ordered: [{infra: aws/us-west-2}, {infra: aws/us-east-1}]}"
    assert wants(text) == [(0, "A10G:1 @aws/us-west-2"), (1, "A10G:1 @aws/us-east-1")]


def test_a_list_above_any_of_keeps_its_order_over_all_items() -> None:
    text = "{accelerators: [L4:1, T4:1], any_of: [{infra: gcp}, {infra: aws}]}"
    assert wants(text) == [(0, "L4:1 @gcp"), (1, "T4:1 @gcp"), (0, "L4:1 @aws"), (1, "T4:1 @aws")]


def test_two_orders_are_refused_with_both_rewrites() -> None:
    error = refusal(
        "resources: {accelerators: [L4:1, T4:1], ordered: [{infra: gcp}, {infra: aws}]}"
    )
    assert [p.code for p in error.problems] == ["spec.two-orders"]
    assert "accelerators: {L4:1, T4:1} beside `ordered`" in error.problems[0].hint
    assert "accelerators: [L4:1, T4:1] with any_of" in error.problems[0].hint


def test_any_of_beside_ordered() -> None:
    assert codes("resources: {any_of: [{infra: aws}], ordered: [{infra: gcp}]}") == [
        "spec.two-lists"
    ]
    assert wants("{any_of: [], ordered: [{infra: gcp}]}") == [(0, "@gcp")]


def test_null_drops_the_outer_image() -> None:
    spec = parse(
        'resources: {image_id: "docker:a:1", any_of: [{infra: lambda, image_id: null}, {infra: '
        "aws}]}"
    )
    assert [(str(r), r.image) for r in spec.requests] == [
        ("@lambda", None),
        ("@aws", Image(docker="a:1")),
    ]
    assert spec.remarks == ()


def test_labels_merge_and_do_not_leak() -> None:
    spec = parse(
        "resources: {labels: {t: x}, any_of: [{infra: aws, labels: {u: y}}, {infra: gcp}]}"
    )
    assert [r.labels for r in spec.requests] == [(("t", "x"), ("u", "y")), (("t", "x"),)]


def test_infra_beside_region() -> None:
    error = refusal("resources: {infra: aws/us-east-1, region: us-west-2}")
    assert [(p.code, p.path) for p in error.problems] == [("spec.infra-beside", "resources.region")]
    assert "aws/us-west-2" in error.problems[0].hint


def test_items_narrow_the_outer_cloud() -> None:
    assert wants("{infra: aws, any_of: [{region: us-east-1}, {infra: gcp}]}") == [
        (0, "@aws/us-east-1"),
        (0, "@gcp"),
    ]


def test_place_lists_are_one_tier_and_NO_is_text() -> None:  # noqa: N802
    text = "{cloud: runpod, region: [CZ, NO, SE], accelerators: L40S}"
    assert wants(text) == [
        (0, "L40S:1 @runpod/CZ"),
        (0, "L40S:1 @runpod/NO"),
        (0, "L40S:1 @runpod/SE"),
    ]
    assert [r.code for r in parse(f"resources: {text}").remarks] == ["spec.places"]


def test_preferred_and_denied_regions() -> None:
    first, rest = parse(
        "resources: {cloud: aws, region: {allow: [us-*], deny: [us-west-1], prefer: [us-east-2]}}"
    ).requests
    assert (first.tier, first.cloud, first.region, first.places) == (0, "aws", "us-east-2", ())
    assert (rest.tier, rest.cloud, rest.region) == (1, "aws", "")
    assert rest.places == (
        PlaceRule(
            (PlaceGlob(region="us-*"),),
            (PlaceGlob(region="us-east-2"), PlaceGlob(region="us-west-1")),
        ),
    )


def test_a_list_of_maps_is_ordered() -> None:
    spec = parse("resources: [{infra: runpod/IS}, {infra: runpod/NO}]")
    assert [(r.tier, str(r)) for r in spec.requests] == [(0, "@runpod/IS"), (1, "@runpod/NO")]
    assert [(r.level, "ordered" in r.message) for r in spec.remarks] == [(Severity.NOTE, True)]


def test_quantities_and_units() -> None:
    spec = parse("resources: {cpus: 4+, memory: 16GiB, disk_size: 1500MB}")
    (request,) = spec.requests
    assert request.cpus == Quantity(Compare.AT_LEAST, 4)
    assert request.memory == Quantity(Compare.EXACTLY, 16)
    assert request.disk_gb == 2
    assert [(r.level, r.code) for r in spec.remarks] == [(Severity.NOTE, "spec.rounded")]


def test_ports() -> None:
    (request,) = parse('resources: {ports: [8081, 8080, 9000-9002, "22"]}').requests
    assert request.ports == ((22, 22), (8080, 8081), (9000, 9002))
    assert "is not a port" in str(refusal("resources: {ports: 22:22}"))


def test_autostop_and_preferred_spot() -> None:
    spec = parse("resources: {autostop: 2h, use_spot: prefer, spot_recovery: failover}")
    assert [(r.tier, r.market) for r in spec.requests] == [(0, Market.SPOT), (1, Market.ON_DEMAND)]
    assert spec.guards == Guards(Autostop(7200.0), is_default=False)
    assert [(r.level, r.origin.path) for r in spec.remarks] == [
        (Severity.NOTE, "resources.spot_recovery")
    ]
    assert spec.recovery == "failover"


def test_the_lower_cap_holds() -> None:
    (request,) = parse(
        "resources: {accelerators: L4, max_hourly_cost: 2, max_price: $0.90}"
    ).requests
    assert request.max_hourly == usd("0.90")


def test_notebook_variables() -> None:
    text = "resources: {accelerators: $gpus, infra: aws/$r}"
    spec = parse(text, variables={"gpus": ["L4:1", "T4:1"], "r": "us-east-1"})
    assert [(r.tier, str(r)) for r in spec.requests] == [
        (0, "L4:1 @aws/us-east-1"),
        (1, "T4:1 @aws/us-east-1"),
    ]
    with pytest.raises(SpecError) as caught:
        parse("resources: {accelerators: $gpu}", variables={"gpus": ["L4:1"]})
    (problem,) = caught.value.problems
    assert (problem.code, problem.closest, problem.path) == (
        "spec.variable",
        "gpus",
        "resources.accelerators",
    )
    (request,) = parse("resources: {instance_type: VM.Standard.E4.Flex$_2_16}").requests
    assert request.instance_type == "VM.Standard.E4.Flex$_2_16"


def test_all_errors_at_once_each_with_its_line() -> None:
    error = refusal("num_nodes: 0\nenvs: {HF: null}\nbudget: -1\nengine: spark\n")
    assert [(p.line, p.path) for p in error.problems] == [
        (1, "num_nodes"),
        (3, "budget"),
        (4, "engine"),
    ]
    with pytest.raises(SpecError) as caught:
        parse("num_nodes: 0\nenvs: {HF: null}\nbudget: -1\nengine: spark\n", given=())
    assert [(p.line, p.path) for p in caught.value.problems] == [
        (1, "num_nodes"),
        (2, "envs.HF"),
        (3, "budget"),
        (4, "engine"),
    ]
    assert "--env HF=" in caught.value.problems[1].hint
    with pytest.raises(SpecError) as caught:
        parse("num_nodes: 0\nenvs: {HF: null}\n", given={"HF"})
    assert [p.path for p in caught.value.problems] == ["num_nodes"]


def test_an_open_value_alone_is_the_callers_to_find() -> None:
    assert parse("envs: {HF: null}", given=()).envs == {"HF": None}
    with pytest.raises(SpecError) as caught:
        parse("num_nodes: 0\nmanaged_secrets: [A]\nsecrets:\n  B: null\n", given=())
    assert [(p.line, p.path) for p in caught.value.problems] == [
        (1, "num_nodes"),
        (2, "secrets.A"),
        (4, "secrets.B"),
    ]


def test_services_and_kubernetes_are_carried_on() -> None:
    spec = parse(
        "service: {readiness_probe: /ok, replicas: 2}\nresources: "
        "{infra: k8s, any_of: [{}, {infra: aws}], ports: 8080}"
    )
    assert [(r.cloud, r.ports) for r in spec.requests] == [
        ("kubernetes", ((8080, 8080),)),
        ("aws", ((8080, 8080),)),
    ]
    assert [(r.level, r.origin.path) for r in spec.remarks] == [(Severity.NOTE, "service")]


def test_spellings_of_one_wish_are_equal_requests() -> None:
    def bare(text: str) -> Spec:
        return parse(f"resources: {text}")

    pairs = [
        ("{memory: 64GB+}", '{memory: "64+"}'),
        ("{cpus: 4}", "{cpus: '4.0'}"),
        ("{disk_size: 1TB}", "{disk_size: 1024}"),
        ("{disk_size: 100Gb}", "{disk_size: 100}"),
        ("{cpus: 4 +, memory: ' 16 +'}", "{cpus: 4+, memory: 16+}"),
        ("{local_disk: 'nvme:1000 +'}", "{local_disk: 1000+}"),
        ("{gpus: A100}", "{accelerators: {A100: 1}}"),
        ("{infra: aws/us-east-1}", "{cloud: AWS, region: us-east-1}"),
        ("{ports: 8080-8081}", "{ports: [8081, 8080]}"),
        ("{labels: {a: x, b: y}}", "{labels: {b: y, a: x}}"),
        ("{infra: '*'}", "{}"),
    ]
    for one, other in pairs:
        assert bare(one).requests == bare(other).requests, (one, other)
    for one, other in [
        ("{autostop: 120}", "{autostop: 2h}"),
        ("{autostop: 2H}", "{autostop: 120M}"),
        ("{autostop: true}", "{autostop: {}}"),
    ]:
        assert bare(one).guards == bare(other).guards


def test_equal_requests_merge_into_the_first() -> None:
    assert wants("{any_of: [{infra: aws}, {infra: AWS}, {infra: gcp}]}") == [
        (0, "@aws"),
        (0, "@gcp"),
    ]
    assert wants("{any_of: [{accelerators: [T4, L4]}, {accelerators: l4}]}") == [
        (0, "T4:1"),
        (0, "L4:1"),
    ]


def test_tiers_of_nested_orders() -> None:
    text = "{use_spot: prefer, ordered: [{accelerators: {H100, A100}}, {accelerators: [L4, T4]}]}"
    assert wants(text) == [
        (0, "H100:1 spot"),
        (1, "H100:1"),
        (0, "A100:1 spot"),
        (1, "A100:1"),
        (2, "L4:1 spot"),
        (3, "L4:1"),
        (4, "T4:1 spot"),
        (5, "T4:1"),
    ]


def test_loops_run_item_accelerator_cloud_region_zone_spot() -> None:
    text = "{cloud: [aws, gcp], region: [a, b], accelerators: {L4, T4}, use_spot: prefer}"
    assert [words for _, words in wants(text)] == [
        f"{gpu}:1 {market}@{cloud}/{region}"
        for gpu in ("L4", "T4")
        for cloud in ("aws", "gcp")
        for region in "ab"
        for market in ("spot ", "")
    ]


@pytest.mark.parametrize(
    ("outer", "item", "places"),
    [
        ("infra: aws/us-east-1", "infra: gcp", ["gcp"]),
        ("infra: aws/us-east-1/z1", "region: us-west-2", ["aws/us-west-2"]),
        ("infra: aws/us-east-1", "zone: z2", ["aws/us-east-1/z2"]),
        ("infra: [aws/us-east-1, gcp]", "region: x", ["aws/x", "gcp/x"]),
        ("region: [CZ, SE]", "cloud: runpod", ["runpod/CZ", "runpod/SE"]),
        ("cloud: aws, region: us-east-1", "cloud: gcp", ["gcp"]),
        ("cloud: aws, region: us-east-1", "region: null", ["aws"]),
        ("infra: aws", "infra: null", [""]),
        ("infra: aws", "use_spot: true", ["aws"]),
    ],
)
def test_how_an_item_lies_over_the_outer_place(outer: str, item: str, places: list[str]) -> None:
    requests = parse(f"resources: {{{outer}, any_of: [{{{item}}}]}}").requests
    assert ["/".join(p for p in (r.cloud, r.region, r.zone) if p) for r in requests] == places


def test_null_drops_any_outer_field() -> None:
    text = (
        "resources: "
        "{accelerators: A100, cpus: 8+, ports: 80, labels: {a: b}, max_price: 3, any_of: [%s]}"
    )
    (request,) = parse(
        text % "{accelerators: null, cpus: null, ports: null, labels: null, max_price: null}"
    ).requests
    assert (
        request.accelerator,
        request.cpus,
        request.ports,
        request.labels,
        request.max_hourly,
    ) == (None, None, (), (), None)


def test_alternatives_must_agree_on_autostop() -> None:
    assert codes("resources: {any_of: [{infra: aws, autostop: 10}, {infra: gcp}]}") == [
        "spec.autostop-differs"
    ]
    agreed = parse("resources: {any_of: [{infra: aws, autostop: 10}, {infra: gcp, autostop: 10m}]}")
    assert agreed.guards.autostop == Autostop(600.0)


def test_tier_on_an_item_says_its_place() -> None:
    text = "{any_of: [{infra: aws, tier: 1}, {infra: gcp}, {infra: runpod, tier: 1}]}"
    assert wants(text) == [(1, "@aws"), (0, "@gcp"), (1, "@runpod")]
    assert codes("resources: {ordered: [{infra: aws, tier: 1}]}") == ["spec.two-orders"]


def test_too_many_alternatives() -> None:
    regions = ", ".join(f"r{n}" for n in range(40))
    zones = ", ".join(f"z{n}" for n in range(40))
    assert codes(f"resources: {{region: [{regions}], zone: [{zones}]}}") == ["spec.too-many"]


def test_origins_name_the_item() -> None:
    text = "resources:\n  accelerators: L4\n  any_of:\n  - infra: aws\n  - infra: gcp\n"
    assert [(r.origin.path, r.origin.line) for r in parse(text).requests] == [
        ("resources.any_of[0]", 4),
        ("resources.any_of[1]", 5),
    ]
    assert [r.origin.line for r in parse(text, first_line=2).requests] == [5, 6]
