"""FluffyCloud's prices: those that came with the package, and a fetcher for those of today."""

from __future__ import annotations

import os

from nbprov.clouds.pricing.fetcher import FetchContext, Fetcher
from nbprov.clouds.pricing.region_fetch import endpoint, expect, find_key, price
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.price_list import PriceList, PriceRow

from .api import NO_KEY

SHIPPED_AS_OF = "2026-11-22"


class FluffyPrices(Fetcher):
    """Reads `GET /v1/sizes`."""

    cloud = "fluffycloud"

    def ready(self, context: FetchContext) -> str:
        return "" if find_key(context, "FLUFFYCLOUD_KEY") else NO_KEY

    def fetch(self, context: FetchContext) -> PriceList:
        key, base = (
            find_key(context, "FLUFFYCLOUD_KEY"),
            endpoint(context, "api", os.environ.get("FLUFFYCLOUD_URL", "")),
        )
        if not key:
            raise CloudError(Failure(Cause.CREDENTIALS, NO_KEY))
        sizes = expect(
            context.http.json(f"{base}/v1/sizes", headers={"Authorization": f"Bearer {key}"}),
            list,
            "FluffyCloud's sizes",
        )
        rows = tuple(
            PriceRow(
                size["burrow"],
                size["size"],
                accelerator=size["gpu"],
                count=size["gpus"],
                maker="NVIDIA" if size["gpu"] else "",
                vcpus=size["vcpus"],
                memory_gib=size["memory_gb"],
                on_demand=price(size["usd_per_hour"]),
            )
            for size in sizes
        )
        return PriceList(rows, "FluffyCloud API, sizes", context.today)


def fetcher() -> Fetcher:
    """The fetcher: what the entry point `nbprov.prices` names."""
    return FluffyPrices()
