"""The price fetcher of Amazon EC2.

A region's public price list gives on-demand prices. With an account's credentials, EC2 itself adds
zones and spot prices.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from nbprov.clouds.aws.catalog.account_catalog import Account, Described, RegionView
from nbprov.clouds.aws.catalog.gpu_families import (
    FAMILIES,
    OTHERS,
    FamilyAccelerator,
    accelerator_of,
    family_of,
)
from nbprov.clouds.aws.catalog.price_list import Listed, read_list
from nbprov.clouds.pricing.fetcher import FetchContext, Fetcher
from nbprov.clouds.pricing.region_fetch import Read, Steps, each, endpoint
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.price_list import PriceList, PriceRow

BULK = "https://pricing.us-east-1.amazonaws.com"
"""One address serves all regions, because AWS publishes price lists from there only."""
REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-west-1")
"""The regions read by default: most GPUs are there, and every region's list is 70 to 190 MB."""
AT_ONCE = 2
"""Reading a list is limited by bandwidth and parsing, so more at a time would not be faster."""
HIDDEN = {"p4de.24xlarge": ("us-east-1", "us-west-2")}
"""Types that are sold there although EC2 shows them in no zone to most accounts."""


class AwsFetcher(Fetcher):
    """Reads EC2's price lists."""

    cloud = "aws"

    def ready(self, context: FetchContext) -> str:
        """Always ready, because on-demand lists are public.

        The notes of the result say what credentials and boto3 would add.
        """
        return ""

    def fetch(self, context: FetchContext) -> PriceList:
        """Read the regions that were asked for, or `REGIONS` by default."""
        regions = tuple(dict.fromkeys(context.regions)) or REGIONS
        found = Account.open(context)
        account = found if isinstance(found, Account) else None
        notes = [] if account else [f"no spot prices and no zones were read: {found}"]
        steps = Steps(context, len(regions))
        lists = each(regions, _reader(context, steps), context, at_once=AT_ONCE, steps=steps)
        views: Read[RegionView] = Read()
        if account is not None:
            views = _views(account, lists, context)
        failed = {**lists.failed, **views.failed}
        odd: Counter[str] = Counter()
        rows = [
            row
            for region in regions
            if region not in failed
            for row in _region_rows(region, lists.good[region], views.good.get(region), odd)
        ]
        return PriceList(
            tuple(rows),
            "Amazon EC2 price list",
            context.today,
            spot_source="EC2 spot price history" if account else "",
            failed=failed,
            covered=frozenset(regions),
            unseen=frozenset() if account else frozenset({"spot"}),
            notes=(*notes, *(f"{count} {what}" for what, count in odd.items())),
        )


def fetcher() -> Fetcher:
    """Make the fetcher of this cloud."""
    return AwsFetcher()


def _reader(context: FetchContext, steps: Steps) -> Callable[[str], dict[str, Listed]]:
    base = endpoint(context, "pricing", BULK)

    def read(region: str) -> dict[str, Listed]:
        if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d{1,2}", region):
            raise CloudError(
                Failure(
                    Cause.BAD_REQUEST,
                    f"{region!r} is not the name of an AWS region",
                    code="bad-region",
                )
            )
        url = f"{base}/offers/v1.0/aws/AmazonEC2/current/{region}/index.csv"
        return read_list(context.http.lines(url, seen=steps.seen(region)), region)

    return read


def _views(
    account: Account, lists: Read[dict[str, Listed]], context: FetchContext
) -> Read[RegionView]:
    """Return how the account sees the regions whose lists were read.

    Regions that it may not use are among the failed.
    """
    try:
        return each(lists.good, account.read, context, steps=Steps(context, len(lists.good)))
    except CloudError as error:
        if error.failure.code == "AuthFailure":
            # In one region this means that the region is not enabled; in all of them, that the keys
            # are wrong.
            raise CloudError(replace(error.failure, cause=Cause.CREDENTIALS)) from None
        raise


def _region_rows(
    region: str, listed: dict[str, Listed], view: RegionView | None, odd: Counter[str]
) -> Iterator[PriceRow]:
    for name in sorted(listed.keys() | (view.offered.keys() if view else set())):
        row = _machine(region, name, listed.get(name), view.types.get(name) if view else None, odd)
        if row is None:
            continue
        if view is None:
            if row.on_demand is not None:
                yield row
            continue
        for zone in sorted(view.offered.get(name, ())):
            placed = replace(row, zone=zone, spot=view.spot.get((name, zone)))
            if placed.on_demand is not None or placed.spot is not None:
                yield placed
        if name not in view.offered and region in HIDDEN.get(name, ()):
            yield row


def _machine(
    region: str, name: str, listed: Listed | None, said: Described | None, odd: Counter[str]
) -> PriceRow | None:
    """Build the row of a type without its place and spot price.

    If its devices cannot be determined, return None and count the type in `odd`.
    """
    if family_of(name) in OTHERS:
        return None
    device = _device(name, listed, said)
    if device is None or (device.name and not device.count):
        odd["EC2 types were left out: which accelerators they have was not said"] += 1
        return None
    if listed is not None and listed.on_demand is None:
        odd["EC2 types have two prices in the list: theirs is left empty"] += 1
    return PriceRow(
        region,
        name,
        accelerator=device.name,
        count=device.count or 0.0,
        device_gib=device.device_gib or None,
        maker=device.maker,
        vcpus=(listed and listed.vcpus) or (said and said.vcpus) or None,
        memory_gib=(listed and listed.memory_gib) or (said and said.memory_gib) or None,
        arch=(said and said.arch) or (listed and listed.arch) or "",
        on_demand=listed.on_demand if listed else None,
    )


_NONE = FamilyAccelerator("", 0.0, "")


def _device(name: str, listed: Listed | None, said: Described | None) -> FamilyAccelerator | None:
    """Return the accelerator of a type, from the table of families or as EC2 describes it.

    `_NONE` stands for a machine without one, None for a type whose devices cannot be determined.
    """
    counted = (said.accelerator.count if said and said.accelerator else None) or (
        listed.gpus if listed else None
    )
    if family_of(name) in FAMILIES:
        return accelerator_of(name, counted)
    if said is not None:
        return said.accelerator if said.accelerated else _NONE
    return None if listed is not None and listed.gpus else _NONE
