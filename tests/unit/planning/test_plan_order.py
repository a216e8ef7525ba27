"""The order of a plan, and what it dropped, compared with a plain reference implementation.

The reference also holds that nothing vanishes: each offer with the hardware of a request is a
candidate, or counted in a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbprov.catalog import Catalog, Query
from nbprov.catalog.vocabulary.instance_families import MEMORY_IS_TYPICAL, is_default_family, is_us
from nbprov.clouds.base import Capabilities
from nbprov.market import Observation, Pool, Stock, StockLevel, SuccessModel
from nbprov.model.blocks import Block
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.resources import (
    COUNT_TOLERANCE,
    Accelerator,
    Compare,
    Image,
    LocalDisk,
    PlaceGlob,
    PlaceRule,
    Quantity,
    Request,
)
from nbprov.model.run_policies import OrderPolicy
from nbprov.model.spec import ExposedPorts, Spec
from nbprov.planning import EnabledCloud, PlanError, plan
from nbprov.planning.filters.default_sizes import default_size
from nbprov.planning.filters.local_disks import LOCAL_DISK_GB

CLOUDS = ("aws", "gcp", "lambda", "runpod", "primeintellect", "sim")
PLACES = {
    "aws": {"us-east-1": ["use1-az1", "use1-az2"], "eu-west-1": ["euw1-az1"]},
    "gcp": {"us-central1": ["us-central1-a"]},
    "lambda": {"us-west-1": [""]},
    "runpod": {"CZ": ["EU-CZ-1"], "US": ["US-CA-1"]},
    "primeintellect": {"US": ["us-east1-a"]},
    "sim": {"north": ["north-a", "north-b", ""], "south": [""]},
}
PRICES = (200_000, 490_000, 800_000, 1_100_000)
TYPES = ("g6.xlarge", "m6i.2xlarge", "live-a", "live-b", "live-c")


def is_there(request: Request, offer: Offer) -> bool:
    pairs = (
        (request.cloud, offer.cloud),
        (request.region, offer.region),
        (request.zone, offer.zone),
    )
    return all(not asked or asked == has for asked, has in pairs) and all(
        (not r.allow or any(under(offer, g) for g in r.allow))
        and not any(under(offer, g) for g in r.deny)
        for r in request.places
    )


def satisfies(request: Request, offer: Offer, families: tuple[str, ...]) -> bool:
    if request.market is not offer.market:
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


def under(offer: Offer, glob: PlaceGlob) -> bool:
    pairs = ((glob.cloud, offer.cloud), (glob.region, offer.region), (glob.zone, offer.zone))
    return all(fnmatchcase(name.lower(), pattern.lower() or "*") for pattern, name in pairs)


def met(asked: Quantity | None, actual: float | None, offer: Offer) -> bool:
    if asked is None:
        return True
    return (
        actual is not None
        and (asked.compare is not Compare.PER_VCPU or offer.vcpus is not None)
        and asked.allows(actual, vcpus=offer.vcpus or 0.0)
    )


def refusal(
    request: Request,
    offer: Offer,
    enabled: Mapping[str, EnabledCloud],
    nodes: int,
    expose: ExposedPorts,
) -> str:
    if not is_there(request, offer):
        return "place"
    cloud = enabled.get(offer.cloud)
    if cloud is None:
        return "disabled"
    if (
        cloud.capabilities.named_only
        and not request.cloud
        and not any(g.cloud == offer.cloud for r in request.places for g in r.allow)
    ):
        return "unnamed"
    lacking = unable(request, cloud.capabilities, nodes, expose)
    if lacking:
        return lacking[0]
    if (
        request.local_disk is not None
        and LOCAL_DISK_GB.get(offer.instance_type, 0.0) < request.local_disk.size_gb
    ):
        return "local-disk"
    if (
        request.image
        and request.image.machine
        and offer.region not in {region for region, _ in request.image.machine}
    ):
        return "image-region"
    return "price" if request.max_hourly is not None and offer.hourly > request.max_hourly else ""


def unable(request: Request, can: Capabilities, nodes: int, expose: ExposedPorts) -> list[str]:
    """What a cloud cannot do for a request, in the order of the rules."""
    image = request.image or Image()
    demands = (
        ("multi-node", nodes > 1 and not can.multi_node),
        ("spot", request.market is Market.SPOT and not can.spot),
        ("docker", bool(image.docker) and not can.docker),
        ("machine-image", bool(image.machine) and not can.images),
        ("disk-tier", request.disk_tier not in ("", "best", *can.disk_tiers)),
        ("network-tier", request.network_tier == "best" and not can.network_best),
        ("local-disk", request.local_disk is not None and not can.local_disk),
        ("ports", bool(request.ports) and expose.everything and not can.ports),
    )
    return [name for name, is_lacking in demands if is_lacking]


class Known(SuccessModel):
    """A success model that keeps the stock reports it was made of."""

    told: tuple[Stock, ...] = ()


def level_of(offer: Offer, success_model: SuccessModel) -> StockLevel | None:
    """The report on an offer's stock that counts: within five minutes, the most specific, then the
    latest, then the scarcest.
    """
    told = success_model.told if isinstance(success_model, Known) else ()
    pool, scarce = offer.pool, [StockLevel.HIGH, StockLevel.MEDIUM, StockLevel.LOW, StockLevel.NONE]
    fitting = [
        (sum(map(bool, s.pool)), [not part for part in s.pool], s.at, scarce.index(s.level))
        for s in told
        if 10.0 - s.at <= 300.0
        and all(part in ("", has) for part, has in zip(s.pool, pool, strict=True))
    ]
    # Of two equally specific reports, the one that leaves the earlier field open counts.
    return scarce[max(fitting)[-1]] if fitting else None


def wanted(policy: OrderPolicy, offer: Offer, success_model: SuccessModel) -> tuple[float, ...]:
    """The sort key of an offer inside its tier."""
    likely = success_model.success(offer.pool)
    is_low = level_of(offer, success_model) is StockLevel.LOW
    price = round(offer.hourly * 1.25) if is_low else offer.hourly
    if policy is OrderPolicy.SOONEST:
        return (round(success_model.expected_seconds(offer.pool)), price, is_low, -likely)
    return (
        (round(offer.hourly / likely), price, is_low, -likely)
        if policy is OrderPolicy.BALANCED
        else (price, is_low, -likely)
    )


def reference(
    spec: Spec,
    offers: Iterable[Offer],
    enabled: Mapping[str, EnabledCloud],
    blocks: Iterable[Block],
    success_model: SuccessModel,
) -> tuple[list[tuple[Offer, int]], Counter[str], int]:
    """Candidates in order as (offer, request), dropped offers by rule, and blocked offers."""
    offers = list(offers)
    preferred = sorted(
        range(len(spec.requests)), key=lambda i: (spec.requests[i].tier, spec.requests[i].index)
    )
    verdicts: dict[int, list[tuple[Offer, str]]] = {}
    for i in preferred:
        request = spec.requests[i]
        fitting = [
            o
            for o in offers
            if satisfies(
                request,
                o,
                enabled[o.cloud].capabilities.default_families if o.cloud in enabled else (),
            )
        ]
        said = [
            (offer, refusal(request, offer, enabled, spec.num_nodes, spec.expose))
            for offer in fitting
        ]
        verdicts[i] = without_needless_gpus(request, said)
    chosen: list[tuple[Offer, int]] = []
    dropped: Counter[str] = Counter()
    for offer in offers:
        reasons = {i: reason for i in preferred for o, reason in verdicts[i] if o is offer}
        taken = [i for i, reason in reasons.items() if not reason]
        if taken:
            chosen.append((offer, taken[0]))
        elif reasons:  # a place that was not asked for is the last of reasons
            dropped[min(reasons.values(), key=lambda reason: reason == "place")] += 1
    chosen.sort(
        key=lambda c: (
            level_of(c[0], success_model) is StockLevel.NONE,
            spec.requests[c[1]].tier,
            wanted(spec.prefer, c[0], success_model),
            c[1],
            not is_us(c[0].cloud, c[0].region),
            *c[0].key,
        )
    )
    blocked = [
        any(
            b.matches(Candidate(o, spec.requests[i], 0, spec.num_nodes, enabled[o.cloud].account))
            for b in blocks
        )
        for o, i in chosen
    ]
    blocked = with_closed_regions(chosen, blocked)
    kept = [pair for pair, is_blocked in zip(chosen, blocked, strict=True) if not is_blocked]
    return kept, dropped, len(chosen) - len(kept)


def without_needless_gpus(
    request: Request, said: list[tuple[Offer, str]]
) -> list[tuple[Offer, str]]:
    """Drop machines with accelerators if the cloud has cheaper ones without, for a request that
    asks for none.
    """
    if request.accelerator is not None:
        return said
    bare: dict[str, int] = {}
    for offer, reason in said:
        if reason in ("", "price") and not offer.accelerator:
            bare[offer.cloud] = min(offer.hourly, bare.get(offer.cloud, offer.hourly))
    return [
        (
            o,
            "needless-gpu"
            if why in ("", "price")
            and o.accelerator
            and o.hourly >= bare.get(o.cloud, o.hourly + 1)
            else why,
        )
        for o, why in said
    ]


def with_closed_regions(chosen: list[tuple[Offer, int]], blocked: list[bool]) -> list[bool]:
    """Drop an offer for any zone of a region once all zones of its type there are blocked."""
    zones: dict[tuple[object, ...], list[bool]] = {}
    for (offer, _), is_blocked in zip(chosen, blocked, strict=True):
        if offer.zone:
            zones.setdefault(
                (offer.cloud, offer.region, offer.instance_type, offer.market), []
            ).append(is_blocked)
    return [
        is_blocked
        or (not o.zone and all(zones.get((o.cloud, o.region, o.instance_type, o.market), [False])))
        for (o, _), is_blocked in zip(chosen, blocked, strict=True)
    ]


@st.composite
def live_offers(draw: st.DrawFn) -> tuple[Offer, ...]:
    made = {}
    for _ in range(draw(st.integers(0, 10))):
        cloud = draw(st.sampled_from(CLOUDS))
        region = draw(st.sampled_from(sorted(PLACES[cloud])))
        zone = draw(st.sampled_from(PLACES[cloud][region]))
        accelerator = draw(st.sampled_from(["", "L4", "A100"]))
        offer = Offer(
            cloud,
            region,
            zone,
            draw(st.sampled_from(TYPES[2:])),
            accelerator,
            draw(st.sampled_from([1.0, 8.0])) if accelerator else 0.0,
            draw(st.sampled_from([None, 4.0, 8.0, 32.0])),
            draw(st.sampled_from([None, 16.0, 32.0, 128.0])),
            draw(st.sampled_from(list(Market))),
            draw(st.sampled_from(PRICES)),
            quota_family=draw(st.sampled_from(["", "fam"])),
        )
        made[offer.key] = offer
    return tuple(made.values())


quantities = st.builds(
    Quantity,
    st.sampled_from([Compare.EXACTLY, Compare.AT_LEAST]),
    st.sampled_from([4.0, 8.0, 16.0, 32.0]),
)


T = TypeVar("T")


def seldom(values: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.integers(0, 4).flatmap(lambda n: values if n == 4 else st.none())


globs = st.builds(
    PlaceGlob,
    st.sampled_from(["", "", "aws", "sim", "r*", "GCP"]),
    st.sampled_from(["", "", "*s*", "US*", "*-1"]),
    st.sampled_from(["", "", "*a*"]),
).filter(
    lambda g: any(
        under(Offer(c, r, z, "", "", 0, None, None, Market.SPOT, 0), g)
        for c in CLOUDS[:5]
        for r in PLACES[c]
        for z in PLACES[c][r]
    )
)
rules = st.builds(
    PlaceRule, st.lists(globs, max_size=2).map(tuple), st.lists(globs, max_size=1).map(tuple)
)


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
                accelerator=draw(
                    st.sampled_from(
                        [None, Accelerator("L4"), Accelerator("L4"), Accelerator("A100", 8)]
                    )
                ),
                cpus=draw(seldom(quantities)),
                memory=draw(seldom(quantities)),
                market=draw(st.sampled_from([Market.ON_DEMAND, *Market])),
                max_hourly=draw(seldom(st.sampled_from(PRICES))),
                places=draw(st.lists(rules, max_size=2).map(tuple)) if not cloud else (),
                image=draw(
                    seldom(
                        st.sampled_from(
                            [Image(docker="a"), Image(machine=(("us-east-1", "ami-1"),))]
                        )
                    )
                ),
                disk_tier=draw(st.sampled_from(["", "", "best", "low", "high"])),
                network_tier=draw(st.sampled_from(["", "", "", "", "standard", "best"])),
                local_disk=draw(
                    seldom(st.sampled_from([LocalDisk("nvme", 100), LocalDisk("nvme", 400)]))
                ),
                ports=draw(st.sampled_from([(), ((80, 80),)])),
            )
        )
    expose = ExposedPorts(everything=draw(st.sampled_from([False, False, True])))
    nodes, prefer = (
        draw(st.sampled_from([1, 1, 2])),
        draw(st.sampled_from([OrderPolicy.CHEAPEST, *OrderPolicy])),
    )
    return Spec(requests=tuple(requests), num_nodes=nodes, expose=expose, prefer=prefer)


pools = st.sampled_from(
    [
        (cloud, region, zone)
        for cloud, regions in PLACES.items()
        for region, zones in regions.items()
        for zone in zones
    ]
)
markets = st.sampled_from([m.value for m in Market])


@st.composite
def known_chances(draw: st.DrawFn) -> SuccessModel:
    seen = [
        Observation(
            draw(st.sampled_from([10.0, 5.0, -3600.0])),
            Pool(*draw(pools), draw(st.sampled_from(TYPES)), draw(markets)),
            draw(st.sampled_from(["accepted", "capacity", "spot", "quota"])),
            seconds=draw(st.sampled_from([None, 20.0, 400.0])),
        )
        for _ in range(draw(st.integers(0, 6)))
    ]
    stock = []
    for _ in range(draw(st.integers(0, 4))):
        cloud, region, zone = draw(pools)
        kind, market = (
            draw(st.sampled_from(["", "", *TYPES])),
            draw(st.sampled_from(["", *(m.value for m in Market)])),
        )
        pool = Pool(
            draw(st.sampled_from([cloud, cloud, ""])),
            draw(st.sampled_from([region, ""])),
            draw(st.sampled_from([zone, "", ""])),
            kind,
            market,
        )
        stock.append(
            Stock(
                draw(st.sampled_from([10.0, 10.0, -100.0, -400.0])),
                pool,
                draw(st.sampled_from(list(StockLevel))),
            )
        )
    made = Known(seen, stock=stock, now=10.0)
    made.told = tuple(stock)
    return made


@st.composite
def clouds(draw: st.DrawFn) -> dict[str, EnabledCloud]:
    often = st.sampled_from([True, True, False])
    return {
        name: EnabledCloud(
            draw(st.sampled_from(["me", "you"])),
            Capabilities(
                spot=draw(often),
                multi_node=draw(often),
                docker=draw(often),
                images=draw(often),
                disk_tiers=frozenset({"low", "high"}) if draw(often) else frozenset(),
                network_best=draw(often),
                local_disk=draw(often),
                ports=draw(often),
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


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    live=live_offers(),
    spec=specs(),
    enabled=clouds(),
    patterns=st.lists(blocks(), max_size=4),
    success_model=known_chances(),
)
def test_a_plan_is_what_going_through_every_offer_gives(
    small: Catalog,
    live: tuple[Offer, ...],
    spec: Spec,
    enabled: dict[str, EnabledCloud],
    patterns: list[Block],
    success_model: SuccessModel,
) -> None:
    catalog = small.with_offers(live)
    now = 10.0
    named = [(r, enabled[r.cloud].capabilities) for r in spec.requests if r.cloud in enabled]
    outright = [
        r
        for r, can in named
        if {"machine-image", "disk-tier", "ports"}
        & set(unable(r, can, spec.num_nodes, spec.expose))
    ]
    if len(outright) == len(spec.requests):
        with pytest.raises(PlanError) as caught:
            plan(spec, catalog, enabled, blocks=patterns, now=now)
        assert {p.code for p in caught.value.problems} == {"plan.unsupported"}
        return
    made = plan(spec, catalog, enabled, blocks=patterns, now=now, success_model=success_model)
    live_blocks = [b for b in patterns if b.is_live(now)]
    expected, dropped, blocked = reference(
        spec, catalog.offers(Query()), enabled, live_blocks, success_model
    )

    assert [(c.offer, c.request.index) for c in made.candidates] == expected
    assert [c.rank for c in made.candidates] == list(range(len(expected)))
    counted: Counter[str] = Counter()
    for line in made.dropped:
        counted[line.rule.kind.value] += line.count
    assert counted.pop("blocked", 0) == blocked
    assert counted == dropped, made.dropped
    for candidate in made.candidates:
        pool = candidate.offer.pool
        assert candidate.success == (
            success_model.success(pool) if success_model.knows(pool) else None
        )
        assert candidate.why
    if expected:
        assert made.dearest is not None
        assert made.dearest.offer.hourly == max(offer.hourly for offer, _ in expected)
    else:
        assert made.dearest is None
        assert made.chosen is None
        assert made.notes


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(live=live_offers(), spec=specs(), enabled=clouds())
def test_no_candidate_is_above_the_cap_of_its_request(
    small: Catalog, live: tuple[Offer, ...], spec: Spec, enabled: dict[str, EnabledCloud]
) -> None:
    try:
        made = plan(spec, small.with_offers(live), enabled)
    except PlanError:
        return  # what it refuses is the other test's business
    for candidate in made.candidates:
        assert (
            candidate.request.max_hourly is None
            or candidate.offer.hourly <= candidate.request.max_hourly
        )


def test_a_candidate_is_built_once(small: Catalog) -> None:
    enabled = {"aws": EnabledCloud("me")}
    made = plan(Spec(requests=(Request(accelerator=Accelerator("L4")),)), small, enabled)
    assert made.candidates[1] is made.candidates[1]
    assert made.candidates[1:][0] is made.candidates[1]
