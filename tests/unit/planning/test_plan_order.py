"""The order of a plan against a plain reference: every offer, every request, one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbprov.catalog import Catalog, Query
from nbprov.catalog.families import MEMORY_IS_TYPICAL, is_default_family
from nbprov.clouds.base import Capabilities
from nbprov.model.offers import Block, Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.spec import COUNT_TOLERANCE, Accelerator, Compare, Quantity, Request, Spec
from nbprov.planning import EnabledCloud, plan
from nbprov.planning.sizes import default_size

CLOUDS = ("aws", "gcp", "lambda", "runpod", "primeintellect", "sim")
PLACES = {
    "aws": {"us-east-1": ["use1-az1", "use1-az2"], "eu-west-1": ["euw1-az1"]},
    "gcp": {"us-central1": ["us-central1-a"]},
    "lambda": {"us-west-1": [""]},
    "runpod": {"CZ": ["EU-CZ-1"], "US": ["US-CA-1"]},
    "primeintellect": {"US": ["us-east1-a"]},
    "sim": {"north": ["north-a", "north-b"], "south": [""]},
}
PRICES = (200_000, 490_000, 800_000, 1_100_000)
TYPES = ("g6.xlarge", "m6i.2xlarge", "live-a", "live-b", "live-c")


def satisfies(request: Request, offer: Offer, families: tuple[str, ...]) -> bool:
    if request.market is not offer.market or (request.cloud and request.cloud != offer.cloud):
        return False
    if (request.region and request.region != offer.region) or (request.zone and request.zone != offer.zone):
        return False
    asked = request.accelerator
    if asked is not None:
        return (
            offer.accelerator == asked.name
            and abs(offer.accelerator_count - asked.count) <= COUNT_TOLERANCE
            and met(request.cpus, offer.vcpus, offer)
            and (offer.cloud in MEMORY_IS_TYPICAL or met(request.memory, offer.memory_gib, offer))
        )
    if not is_default_family(offer.cloud, offer.instance_type, offer.accelerator):
        return False
    if families and not offer.instance_type.startswith(families):
        return False
    size = default_size(offer.cloud, families)
    cpus, memory = request.cpus, request.memory
    if size is not None and cpus is None and memory is None:
        cpus = Quantity(Compare.AT_LEAST, size.vcpus)
    if size is not None and memory is None:
        memory = Quantity(Compare.PER_VCPU, size.gib_per_vcpu)
    return met(cpus, offer.vcpus, offer) and met(memory, offer.memory_gib, offer)


def met(asked: Quantity | None, actual: float | None, offer: Offer) -> bool:
    if asked is None:
        return True
    return (
        actual is not None
        and (asked.compare is not Compare.PER_VCPU or offer.vcpus is not None)
        and asked.allows(actual, vcpus=offer.vcpus or 0.0)
    )


def refusal(request: Request, offer: Offer, enabled: Mapping[str, EnabledCloud], nodes: int) -> str:
    cloud = enabled.get(offer.cloud)
    if cloud is None:
        return "disabled"
    if cloud.capabilities.named_only and not request.cloud:
        return "unnamed"
    if nodes > 1 and not cloud.capabilities.multi_node:
        return "multi-node"
    if request.market is Market.SPOT and not cloud.capabilities.spot:
        return "spot"
    return "price" if request.max_hourly is not None and offer.hourly > request.max_hourly else ""


def reference(
    spec: Spec, offers: Iterable[Offer], enabled: Mapping[str, EnabledCloud], blocks: Iterable[Block]
) -> tuple[list[tuple[Offer, int]], Counter[str], int]:
    """Candidates in order as (offer, request), offers dropped by rule, offers blocked."""
    chosen: list[tuple[Offer, int]] = []
    dropped: Counter[str] = Counter()
    preferred = sorted(range(len(spec.requests)), key=lambda i: (spec.requests[i].tier, spec.requests[i].index))
    for offer in offers:
        families = enabled[offer.cloud].capabilities.default_families if offer.cloud in enabled else ()
        reasons = {
            i: refusal(spec.requests[i], offer, enabled, spec.num_nodes) for i in preferred if satisfies(spec.requests[i], offer, families)
        }
        taken = [i for i, reason in reasons.items() if not reason]
        if taken:
            chosen.append((offer, taken[0]))
        elif any(reason != "unnamed" for reason in reasons.values()):
            dropped[next(reason for reason in reasons.values() if reason != "unnamed")] += 1
    chosen.sort(key=lambda c: (spec.requests[c[1]].tier, c[0].hourly, c[1], c[0].cloud, c[0].region, c[0].zone, c[0].instance_type))
    kept = [
        (offer, i)
        for offer, i in chosen
        if not any(b.matches(Candidate(offer, spec.requests[i], 0, spec.num_nodes, enabled[offer.cloud].account)) for b in blocks)
    ]
    return kept, dropped, len(chosen) - len(kept)


@st.composite
def live_offers(draw: st.DrawFn) -> tuple[Offer, ...]:
    made = {}
    for _ in range(draw(st.integers(0, 10))):
        cloud = draw(st.sampled_from(CLOUDS))
        region = draw(st.sampled_from(sorted(PLACES[cloud])))
        zone = draw(st.sampled_from(PLACES[cloud][region]))
        accelerator = draw(st.sampled_from(["", "L4", "A100"]))
        offer = Offer(
            cloud, region, zone, draw(st.sampled_from(TYPES[2:])), accelerator,
            draw(st.sampled_from([1.0, 8.0])) if accelerator else 0.0,
            draw(st.sampled_from([None, 4.0, 8.0, 32.0])), draw(st.sampled_from([None, 16.0, 32.0, 128.0])),
            draw(st.sampled_from(list(Market))), draw(st.sampled_from(PRICES)), quota_family=draw(st.sampled_from(["", "fam"])),
        )  # fmt: skip
        made[offer.key] = offer
    return tuple(made.values())


quantities = st.builds(Quantity, st.sampled_from([Compare.EXACTLY, Compare.AT_LEAST]), st.sampled_from([4.0, 8.0, 16.0, 32.0]))


T = TypeVar("T")


def seldom(values: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.integers(0, 4).flatmap(lambda n: values if n == 4 else st.none())


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    requests = []
    for index in range(draw(st.integers(1, 4))):
        cloud = draw(st.sampled_from(["", "", *CLOUDS[:5]]))
        region = draw(st.sampled_from(["", *PLACES[cloud]])) if cloud else ""
        zone = draw(st.sampled_from(["", *PLACES[cloud][region]])) if region else ""
        requests.append(
            Request(
                index=index,
                tier=draw(st.sampled_from([0, 0, 0, 1, 2])),
                cloud=cloud,
                region=region,
                zone=zone,
                accelerator=draw(st.sampled_from([None, Accelerator("L4"), Accelerator("L4"), Accelerator("A100", 8)])),
                cpus=draw(seldom(quantities)),
                memory=draw(seldom(quantities)),
                market=draw(st.sampled_from([Market.ON_DEMAND, *Market])),
                max_hourly=draw(seldom(st.sampled_from(PRICES))),
            )
        )
    return Spec(requests=tuple(requests), num_nodes=draw(st.sampled_from([1, 1, 2])))


@st.composite
def clouds(draw: st.DrawFn) -> dict[str, EnabledCloud]:
    often = st.sampled_from([True, True, False])
    return {
        name: EnabledCloud(
            draw(st.sampled_from(["me", "you"])),
            Capabilities(
                spot=draw(often),
                multi_node=draw(often),
                named_only=name == "sim",
                default_families=draw(st.sampled_from([(), (), ("live-a", "m6i")])),
            ),
        )
        for name in CLOUDS
        if draw(st.integers(0, 5))
    }


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    cloud = draw(st.sampled_from(["", "", "", *CLOUDS]))
    places = PLACES[cloud] if cloud else {"us-east-1": ["use1-az1"], "nowhere": [""]}
    region = draw(st.sampled_from(["", "", *places]))
    return Block(
        cloud=cloud,
        account=draw(st.sampled_from(["", "", "", "me"])),
        region=region,
        zone=draw(st.sampled_from(["", "", "", "use1-az1", *(places.get(region) or [])])),
        instance_type=draw(st.sampled_from(["", "", *TYPES, "no-such-type"])),
        market=draw(st.sampled_from(["", "", "", "spot", "on-demand"])),
        quota_family=draw(st.sampled_from(["", "", "", "", "fam"])),
        min_count=draw(st.sampled_from([0, 1, 2])),
        expires=draw(st.sampled_from([5.0, 50.0])),
    )


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(live=live_offers(), spec=specs(), enabled=clouds(), patterns=st.lists(blocks(), max_size=4))
def test_a_plan_is_what_going_through_every_offer_gives(
    small: Catalog, live: tuple[Offer, ...], spec: Spec, enabled: dict[str, EnabledCloud], patterns: list[Block]
) -> None:
    catalog = small.with_offers(live)
    now = 10.0
    made = plan(spec, catalog, enabled, blocks=patterns, now=now)
    expected, dropped, blocked = reference(spec, catalog.offers(Query()), enabled, [b for b in patterns if b.is_live(now)])

    assert [(c.offer, c.request.index) for c in made.candidates] == expected
    assert [c.rank for c in made.candidates] == list(range(len(expected)))
    counted: Counter[str] = Counter()
    for line in made.dropped:
        counted[line.rule.partition(":")[0]] += line.count
    assert counted.pop("blocked", 0) == blocked
    assert counted == dropped
    if expected:
        assert made.dearest is not None
        assert made.dearest.offer.hourly == max(offer.hourly for offer, _ in expected)
    else:
        assert made.dearest is None
        assert made.chosen is None
        assert made.notes


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(live=live_offers(), spec=specs(), enabled=clouds())
def test_no_candidate_is_above_the_cap_of_its_request(
    small: Catalog, live: tuple[Offer, ...], spec: Spec, enabled: dict[str, EnabledCloud]
) -> None:
    for candidate in plan(spec, small.with_offers(live), enabled).candidates:
        assert candidate.request.max_hourly is None or candidate.offer.hourly <= candidate.request.max_hourly
