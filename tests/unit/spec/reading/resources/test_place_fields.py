"""Places as lists, patterns and maps of `allow`, `deny` and `prefer`."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbprov.model.resources import PlaceGlob, PlaceRule, Request
from nbprov.spec import SpecError, parse

REGIONS = ("us-east-1", "us-east-2", "us-west-1", "eu-west-1", "eu-north-1", "ap-1")


def requests(resources: str) -> tuple[Request, ...]:
    return parse(f"resources: {resources}").requests


def places(resources: str) -> list[tuple[int, str, str]]:
    """Tier, cloud and region of each request; none may have rules."""
    found = requests(resources)
    assert not any(r.places for r in found)
    return [(r.tier, r.cloud, r.region) for r in found]


def problems(resources: str) -> list[tuple[str, str]]:
    with pytest.raises(SpecError) as caught:
        parse(f"resources: {resources}")
    assert all(p.hint and p.line and p.column for p in caught.value.problems)
    return [(p.code, p.path) for p in caught.value.problems]


def region_rule(*allow: str, deny: tuple[str, ...] = ()) -> PlaceRule:
    return PlaceRule(
        tuple(PlaceGlob(region=a) for a in allow), tuple(PlaceGlob(region=d) for d in deny)
    )


def test_literal_lists_are_one_request_each() -> None:
    assert places("{infra: [aws/us-east-1, gcp, runpod/CZ]}") == [
        (0, "aws", "us-east-1"),
        (0, "gcp", ""),
        (0, "runpod", "CZ"),
    ]
    assert places("{cloud: {aws, gcp}}") == [(0, "aws", ""), (0, "gcp", "")]
    assert places("{region: {allow: [a1, b1]}}") == places("{region: [a1, b1]}")


def test_patterns_of_a_list_are_one_request_and_names_one_each() -> None:
    globs, name = requests("{region: [us-*, CZ, eu-*]}")
    assert globs.places == (region_rule("eu-*", "us-*"),)
    assert (name.region, name.places) == ("CZ", ())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{cloud: aws, region: us-*}", "{infra: aws/us-*}"),
        ("{cloud: aws, region: {allow: us-*}}", "{infra: [aws/us-*]}"),
        (
            "{cloud: AWS, region: {allow: [us-*], deny: [us-west-1]}}",
            "{infra: {allow: [aws/us-*], deny: [aws/us-west-1]}}",
        ),
        ("{region: {deny: [b1, a1]}}", "{region: {deny: [a1, b1]}}"),
        ("{cloud: aws, region: {deny: [a1]}}", "{infra: {allow: [aws], deny: [aws/a1, gcp/b1]}}"),
        ("{region: {allow: ['*']}}", "{}"),
    ],
)
def test_spellings_of_one_wish(one: str, other: str) -> None:
    assert requests(one) == requests(other)


def test_a_country_or_continent_is_kept_as_written() -> None:
    assert places("{region: eu}") == [(0, "", "eu")]


def test_preferred_places_are_tiers_in_their_order_and_the_rest_is_last() -> None:
    found = requests("{infra: {allow: [aws/us-*, gcp], prefer: [gcp/us-central1, aws/us-e*]}}")
    assert [(r.tier, r.cloud, r.region) for r in found] == [
        (0, "gcp", "us-central1"),
        (1, "aws", ""),
        (2, "aws", ""),
        (2, "gcp", ""),
    ]
    assert [r.places for r in found] == [
        (),
        (region_rule("us-e*"),),
        (region_rule("us-*", deny=("us-e*",)),),
        (region_rule(deny=("us-central1",)),),
    ]


def test_a_preferred_place_of_an_allowed_continent_keeps_the_question_open() -> None:
    first, rest = requests("{region: {allow: [eu], prefer: [eu-west-1]}}")
    assert (first.region, first.places) == ("eu-west-1", (region_rule("eu"),))
    assert (rest.region, rest.places) == ("eu", (region_rule(deny=("eu-west-1",)),))


def test_tiers_of_several_fields_nest() -> None:
    found = requests("{cloud: {prefer: [runpod]}, region: {prefer: [CZ]}, use_spot: prefer}")
    assert [(r.tier, r.cloud, r.region, r.market.value) for r in found] == [
        (0, "runpod", "CZ", "spot"),
        (1, "runpod", "CZ", "on-demand"),
        (2, "runpod", "", "spot"),
        (3, "runpod", "", "on-demand"),
        (4, "", "CZ", "spot"),
        (5, "", "CZ", "on-demand"),
        (6, "", "", "spot"),
        (7, "", "", "on-demand"),
    ]


@pytest.mark.parametrize(
    ("outer", "item", "cloud", "region", "rules"),
    [
        ("infra: aws/us-*", "infra: gcp", "gcp", "", ()),
        ("infra: aws/us-*", "region: eu-west-1", "aws", "eu-west-1", ()),
        (
            "cloud: aws, region: {deny: [us-*]}",
            "use_spot: true",
            "aws",
            "",
            (region_rule(deny=("us-*",)),),
        ),
        ("cloud: aws, region: {deny: [us-*]}", "region: us-east-1", "aws", "us-east-1", ()),
        ("cloud: aws, region: {deny: [us-*]}", "cloud: gcp", "gcp", "", ()),
        ("region: us-*", "cloud: aws", "aws", "", (region_rule("us-*"),)),
        ("places: [{deny: [gcp]}]", "places: null", "", "", ()),
    ],
)
def test_how_an_item_lies_over_outer_patterns(
    outer: str, item: str, cloud: str, region: str, rules: tuple[PlaceRule, ...]
) -> None:
    (request,) = requests(f"{{{outer}, any_of: [{{{item}}}]}}")
    assert (request.cloud, request.region, request.places) == (cloud, region, rules)


def test_rules_beside_each_other() -> None:
    (request,) = requests(
        "{infra: aws, places: [{allow: ['*/us-*']}, {deny: [aws/us-west-1, gcp]}]}"
    )
    assert request.cloud == "aws"
    assert request.places == (
        region_rule("us-*"),
        PlaceRule((), (PlaceGlob("aws", "us-west-1"), PlaceGlob("gcp"))),
    )


def test_contexts_with_slashes() -> None:
    assert places("{infra: k8s/ctx/with/slashes}") == [(0, "kubernetes", "ctx/with/slashes")]
    assert places("{infra: ssh/pool}") == [(0, "ssh", "pool")]


@pytest.mark.parametrize(
    ("resources", "code", "path"),
    [
        ("{region: {allow: [us-*], prefer: [eu-west-1]}}", "place", "region.prefer"),
        ("{region: {deny: [us-*], prefer: [us-west-1]}}", "place", "region.prefer"),
        ("{region: {allow: [us-east-1], deny: [us-*]}}", "empty", "region"),
        ("{region: {allow: []}}", "empty", "region.allow"),
        ("{region: {}}", "empty", "region"),
        ("{region: {allow: null, deny: null}}", "empty", "region"),
        ("{region: {dney: [us-*], allow: [a]}}", "unknown-field", "region.dney"),
        ("{region: 3x/y}", "infra", "region"),
        ("{region: [a, null]}", "empty", "region[1]"),
        ("{infra: a/b/c/d}", "infra", "infra"),
        ("{infra: a//c}", "infra", "infra"),
        ("{infra: {allow: [a/]}}", "infra", "infra.allow[0]"),
        ("{cloud: [[aws]]}", "type", "cloud[0]"),
        ("{places: {allow: [a]}}", "type", "places"),
        ("{places: [a]}", "type", "places[0]"),
        ("{places: [{prefer: [a]}]}", "place", "places[0].prefer"),
        (
            "{cloud: {deny: [aws]}, any_of: [{cloud: {allow: [gcp], deny: [gcp]}}]}",
            "empty",
            "any_of[0].cloud",
        ),
    ],
)
def test_errors(resources: str, code: str, path: str) -> None:
    assert problems(resources) == [(f"spec.{code}", f"resources.{path}")]


def test_long_lists_are_bounded() -> None:
    names = ", ".join(f"r{n}" for n in range(900))
    assert problems(f"{{region: [{names}], zone: [{names}], any_of: [{{}}, {{}}]}}") == [
        ("spec.too-many", "resources")
    ]
    assert problems(f"{{region: {{allow: [{names}]}}}}") == [("spec.too-many", "resources.region")]
    assert len(requests(f"{{region: [{names}]}}")) == 900


_some = st.lists(
    st.sampled_from([*REGIONS, "us-*", "eu-*", "*-1", "us-east-?"]), max_size=3, unique=True
)


def _holds(request: Request, region: str) -> bool:
    def match(rule: PlaceRule) -> bool:
        allowed = not rule.allow or any(fnmatchcase(region, g.region or "*") for g in rule.allow)
        return allowed and not any(fnmatchcase(region, g.region or "*") for g in rule.deny)

    return request.region in ("", region) and all(match(rule) for rule in request.places)


@given(_some, _some, _some)
@settings(max_examples=150, deadline=None)
def test_exactly_what_is_allowed_and_not_denied_is_asked_for_each_in_its_tier(
    allow: list[str], deny: list[str], prefer: list[str]
) -> None:
    said = {"allow": allow, "deny": deny, "prefer": prefer}
    text = ", ".join(
        f"{key}: [{', '.join(map(repr, value))}]" for key, value in said.items() if value
    )
    try:
        found = requests(f"{{region: {{{text}}}}}") if text else (Request(),)
    except SpecError:
        return
    tiers = sorted({r.tier for r in found})
    seen: dict[str, int] = {}
    for region in REGIONS:
        wanted = (not allow or any(fnmatchcase(region, a) for a in allow)) and not any(
            fnmatchcase(region, d) for d in deny
        )
        holding = sorted({r.tier for r in found if _holds(r, region)})
        assert bool(holding) == wanted, (region, text)
        if holding:
            seen[region] = holding[0]
            assert len(holding) == 1
    assert tiers == list(range(len(tiers)))
    for region, tier in seen.items():
        liked = next((n for n, p in enumerate(prefer) if fnmatchcase(region, p)), len(prefer))
        for other, later in seen.items():
            if (
                next((n for n, p in enumerate(prefer) if fnmatchcase(other, p)), len(prefer))
                > liked
            ):
                assert later > tier, (region, other, text)
