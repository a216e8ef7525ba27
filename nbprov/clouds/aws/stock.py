"""What EC2 says of stock before a launch. Reserves nothing, costs nothing, promises nothing.

Three looks, all at once: which zones sell a type (nothing elsewhere), how much of the quota is left (nothing where it does not suffice), and
EC2's spot placement scores. Stock on demand EC2 tells nobody without a support plan: nothing is said of it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from nbprov.clouds.base import STOCK_SECONDS
from nbprov.model.clock import Instant, Seconds
from nbprov.model.failures import Cause, CloudError
from nbprov.model.offers import Offer
from nbprov.model.places import Market
from nbprov.model.stock import Pool, Stock, StockLevel

from . import fact_cache, quotas
from .account_detection import credentials_lie_about
from .clients import QUICK, Session, every
from .instance_states import CLOUD
from .prices import HIDDEN

ROOM = 0.5
"""Seconds of a look that are left for starting it and putting it together."""
LEAST_TYPES = 3
"""Of fewer types EC2 always says a low score (docs.aws.amazon.com/AWSEC2/latest/UserGuide/how-sps-works.html)."""
MOST_TYPES = 20
MOST_REGIONS = 10
MOST_SETS = 3
"""How many sets of types are asked for: EC2 limits new ones a day."""
SCORES_HOLD: Seconds = 600.0
"""How long the scores of a set are remembered; the table shows how old they are."""
_LOW, _MEDIUM = 3, 6


def look(session: Session, offers: Sequence[Offer], count: int) -> list[Stock]:
    """What is known of the stock of these offers, for so many machines at once. What does not answer in time is left out.

    A score is one of a set of types together; each type of the set is given it.
    """
    ours = [offer for offer in offers if offer.cloud == CLOUD]
    if not ours or not credentials_lie_about({}):
        # Said at once, and not by a dozen threads that each find it out.
        return []
    regions = tuple(dict.fromkeys(offer.region for offer in ours))
    tasks: dict[str, Callable[[], list[Stock]]] = {}
    for region in regions:
        here = [offer for offer in ours if offer.region == region]
        tasks[f"offered {region}"] = lambda r=region, h=here: offered(session, r, h)  # type: ignore[misc]
        tasks[f"quota {region}"] = lambda r=region, h=here: within_quota(session, r, h, count)  # type: ignore[misc]
    for number, kinds in enumerate(spot_sets(ours)):
        tasks[f"spot {number}"] = lambda k=kinds: scores(session, k, regions[:MOST_REGIONS], count)  # type: ignore[misc]
    # The scores first: they are the one look that nothing remembers.
    order = sorted(tasks, key=lambda name: not name.startswith("spot"))
    good, _ = every(order, lambda name: tasks[name](), STOCK_SECONDS - ROOM)
    # What cannot be had at all outweighs a score.
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


def offered(session: Session, region: str, offers: Sequence[Offer]) -> list[Stock]:
    """Nothing for offers in zones that do not sell their type. Kept for a day."""
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


def within_quota(session: Session, region: str, offers: Sequence[Offer], count: int) -> list[Stock]:
    """Nothing for offers that would go beyond what the account may run beside what it runs now."""
    now = time.time()
    wanted = {
        (quotas.bucket(o.instance_type, spot=o.market is Market.SPOT), o.market is Market.SPOT)
        for o in offers
        if o.vcpus
    }
    looks: dict[str, Callable[[], object]] = {
        f"{family}/{spot}": (lambda f=family, s=spot: quotas.limit(session, region, f, spot=s))  # type: ignore[misc]
        for family, spot in wanted
        if family
    }
    sizes = {o.instance_type: o.vcpus for o in offers if o.vcpus}
    looks["running"] = lambda: quotas.running(session, region, sizes)
    good, _ = every(looks, lambda name: looks[name](), STOCK_SECONDS - ROOM)
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
    """The sets of types whose spot stock is asked for together: those with the same accelerator, where there are enough of them."""
    sets: dict[str, set[str]] = defaultdict(set)
    for offer in offers:
        if offer.market is Market.SPOT:
            sets[offer.accelerator].add(offer.instance_type)
    large = [
        tuple(sorted(kinds)[:MOST_TYPES]) for kinds in sets.values() if len(kinds) >= LEAST_TYPES
    ]
    return sorted(large, key=lambda kinds: (-len(kinds), kinds))[:MOST_SETS]


def scores(
    session: Session, kinds: Sequence[str], regions: Sequence[str], count: int
) -> list[Stock]:
    """EC2's spot placement scores of a set of types, by zone, and the best of each region.

    An answer, and a refusal as well, holds for `SCORES_HOLD` seconds: EC2 limits how many new questions an account may ask a day.
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
    session: Session, kinds: Sequence[str], regions: Sequence[str], count: int
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
        # An offer for any zone may be given the best of them.
        told[region, ""] = max(score, told.get((region, ""), 0))
    return told


def level(score: int) -> StockLevel:
    """A score of 1 to 10 in words.

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


def _zones(session: Session, region: str, kinds: Sequence[str]) -> dict[str, list[str]]:
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
