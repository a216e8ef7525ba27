"""What EC2 tells about stock before a launch, at no cost and without a reservation.

Three questions are asked at once: which zones sell a type (no stock elsewhere), how much of the
quota is left (no stock if it does not suffice), and EC2's spot placement scores. EC2 tells
on-demand stock to nobody without a support plan, so nothing is said about it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from nbprov.clouds.aws.account import fact_cache, quotas
from nbprov.clouds.aws.account.clients import QUICK, AwsAccount
from nbprov.clouds.aws.account.detection import credentials_lie_about
from nbprov.clouds.aws.account.parallel_calls import call_each
from nbprov.clouds.aws.instances.states import CLOUD
from nbprov.clouds.aws.prices import HIDDEN
from nbprov.clouds.base import STOCK_SECONDS
from nbprov.model.clock import Instant, Seconds
from nbprov.model.failures import Cause, CloudError
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.stock import Pool, Stock, StockLevel

ROOM = 0.5
"""Seconds of the stock probe that are reserved for starting it and for collecting its answers."""
LEAST_TYPES = 3
"""For fewer types EC2 always returns a low score
(docs.aws.amazon.com/AWSEC2/latest/UserGuide/how-sps-works.html)."""
MOST_TYPES = 20
MOST_REGIONS = 10
MOST_SETS = 3
"""How many sets of types are asked for, since EC2 limits the number of new ones a day."""
SCORES_HOLD: Seconds = 600.0
"""How long the scores of a set are remembered; the table shows how old they are."""
_LOW, _MEDIUM = 3, 6


def look(session: AwsAccount, offers: Sequence[Offer], count: int) -> list[Stock]:
    """Return what is known about the stock of these offers, for `count` machines at once.

    Answers that do not arrive in time are left out. A score belongs to a set of types; each type of
    the set is given it.
    """
    ours = [offer for offer in offers if offer.cloud == CLOUD]
    if not ours or not credentials_lie_about({}):
        # Checked once here, so that a dozen threads need not each find it out.
        return []
    regions = tuple(dict.fromkeys(offer.region for offer in ours))
    tasks: dict[str, Callable[[], list[Stock]]] = {}
    for region in regions:
        here = [offer for offer in ours if offer.region == region]
        tasks[f"offered {region}"] = partial(offered, session, region, here)
        tasks[f"quota {region}"] = partial(within_quota, session, region, here, count)
    for number, kinds in enumerate(spot_sets(ours)):
        tasks[f"spot {number}"] = partial(scores, session, kinds, regions[:MOST_REGIONS], count)
    # The scores come first: unlike the other answers, they are often not cached.
    order = sorted(tasks, key=lambda name: not name.startswith("spot"))
    good, _ = call_each(order, lambda name: tasks[name](), STOCK_SECONDS - ROOM)
    # A type that cannot be had at all outweighs a score.
    found = {
        stock.pool: stock
        for name in order
        for stock in good.get(name, ())
        if stock.level is not StockLevel.NONE
    }
    found |= {
        stock.pool: stock
        for name in order
        for stock in good.get(name, ())
        if stock.level is StockLevel.NONE
    }
    wanted = {offer.pool for offer in ours}
    return [stock for pool, stock in found.items() if pool in wanted]


def offered(session: AwsAccount, region: str, offers: Sequence[Offer]) -> list[Stock]:
    """Report no stock for offers in zones that do not sell their type.

    Answers are cached for a day.
    """
    now = time.time()
    zones: dict[str, list[str]] = {}
    unknown = []
    for kind in sorted({o.instance_type for o in offers}):
        remembered = fact_cache.read("offerings", f"{region} {kind}")
        if isinstance(remembered, list):
            zones[kind] = remembered
        else:
            unknown.append(kind)
    if unknown:
        zones |= _zones(session, region, unknown)
    found = []
    for offer in offers:
        sold = zones.get(offer.instance_type)
        if sold is None or region in HIDDEN.get(offer.instance_type, ()):
            continue
        if (offer.zone and offer.zone not in sold) or not sold:
            found.append(_stock(now, offer, StockLevel.NONE))
    return found


def within_quota(
    session: AwsAccount, region: str, offers: Sequence[Offer], count: int
) -> list[Stock]:
    """Report no stock for offers that would exceed the account's quota beside what it runs now."""
    now = time.time()
    wanted = {
        (quotas.bucket(o.instance_type, spot=o.market is Market.SPOT), o.market is Market.SPOT)
        for o in offers
        if o.vcpus
    }
    looks: dict[str, Callable[[], object]] = {
        f"{family}/{spot}": partial(quotas.limit, session, region, family, spot=spot)
        for family, spot in wanted
        if family
    }
    sizes = {o.instance_type: o.vcpus for o in offers if o.vcpus}
    looks["running"] = lambda: quotas.running(session, region, sizes)
    good, _ = call_each(looks, lambda name: looks[name](), STOCK_SECONDS - ROOM)
    used: dict[tuple[str, bool], float] = defaultdict(float)
    running = good.get("running", ())
    assert isinstance(running, (list, tuple))
    for kind, spot, vcpus in running:
        used[quotas.bucket(kind, spot=spot), spot] += vcpus
    found = []
    for offer in offers:
        spot = offer.market is Market.SPOT
        family = quotas.bucket(offer.instance_type, spot=spot)
        most = good.get(f"{family}/{spot}")
        if (
            isinstance(most, (int, float))
            and offer.vcpus
            and used[family, spot] + offer.vcpus * count > most
        ):
            found.append(_stock(now, offer, StockLevel.NONE))
    return found


def spot_sets(offers: Sequence[Offer]) -> list[tuple[str, ...]]:
    """Return the sets of types whose spot stock is asked for together.

    A set holds the types with the same accelerator, if there are enough of them.
    """
    sets: dict[str, set[str]] = defaultdict(set)
    for offer in offers:
        if offer.market is Market.SPOT:
            sets[offer.accelerator].add(offer.instance_type)
    large = [
        tuple(sorted(kinds)[:MOST_TYPES]) for kinds in sets.values() if len(kinds) >= LEAST_TYPES
    ]
    return sorted(large, key=lambda kinds: (-len(kinds), kinds))[:MOST_SETS]


def scores(
    session: AwsAccount, kinds: Sequence[str], regions: Sequence[str], count: int
) -> list[Stock]:
    """Return EC2's spot placement scores of a set of types, for each zone and for each region's
    best.

    An answer, or a refusal, holds for `SCORES_HOLD` seconds, because EC2 limits how many new
    questions an account may ask a day.
    """
    key = ("scores", ",".join(kinds), ",".join(regions), str(count))
    known: tuple[Instant, dict[tuple[str, str], int]] | None = session.fact(key, SCORES_HOLD)
    if known is None:
        try:
            known = time.time(), _scores(session, kinds, regions, count)
        except CloudError as error:
            if error.failure.cause is not Cause.TRANSIENT:
                session.keep(key, (time.time(), {}))
            raise
        session.keep(key, known)
    at, told = known
    return [
        Stock(at, Pool(CLOUD, region, zone, kind, Market.SPOT.value), level(score))
        for (region, zone), score in told.items()
        for kind in kinds
    ]


def _scores(
    session: AwsAccount, kinds: Sequence[str], regions: Sequence[str], count: int
) -> dict[tuple[str, str], int]:
    pages = session.pages(
        regions[0],
        "GetSpotPlacementScores",
        QUICK,
        InstanceTypes=[*kinds],
        TargetCapacity=max(1, count),
        SingleAvailabilityZone=True,
        RegionNames=[*regions],
    )
    told: dict[tuple[str, str], int] = {}
    for row in (r for page in pages for r in page["SpotPlacementScores"]):
        region, score = str(row["Region"]), int(row["Score"])
        told[region, str(row.get("AvailabilityZoneId", ""))] = score
        # An offer for any zone may be placed in the best of them.
        told[region, ""] = max(score, told.get((region, ""), 0))
    return told


def level(score: int) -> StockLevel:
    """Translate a score of 1 to 10 into a level.

    Examples
    --------
    >>> [level(score).value for score in (1, 3, 4, 6, 7, 10)]
    ['low', 'low', 'medium', 'medium', 'high', 'high']
    """
    return (
        StockLevel.LOW
        if score <= _LOW
        else StockLevel.MEDIUM
        if score <= _MEDIUM
        else StockLevel.HIGH
    )


def _zones(session: AwsAccount, region: str, kinds: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {kind: [] for kind in kinds}
    filters = [{"Name": "instance-type", "Values": [*kinds]}]
    for page in session.pages(
        region,
        "DescribeInstanceTypeOfferings",
        QUICK,
        LocationType="availability-zone-id",
        Filters=filters,
    ):
        for row in page["InstanceTypeOfferings"]:
            found.setdefault(str(row["InstanceType"]), []).append(str(row["Location"]))
    facts: Mapping[str, list[str]] = {
        f"{region} {kind}": sorted(zones) for kind, zones in found.items()
    }
    fact_cache.write("offerings", dict(facts))
    return found


def _stock(at: Instant, offer: Offer, level: StockLevel) -> Stock:
    return Stock(at, offer.pool, level)
