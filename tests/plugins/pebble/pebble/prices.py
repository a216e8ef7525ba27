"""Pebble's prices: the shipped ones (vms.csv), and a fetcher for those of today."""

from __future__ import annotations

import os

from nbprov.clouds.pricing import gpu_names
from nbprov.clouds.pricing.fetcher import FetchContext, Fetcher
from nbprov.clouds.pricing.region_fetch import endpoint, expect, find_key, price
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.price_list import PriceList, PriceRow

from .api import NO_KEY, USUAL

SHIPPED_AS_OF = "2026-11-25"
"""Date of vms.csv, `YYYY-MM-DD`."""


class PebblePrices(Fetcher):
    """Reads the cloud's price list."""

    cloud = "pebble"

    def ready(self, context: FetchContext) -> str:
        return "" if find_key(context, "PEBBLE_API_KEY") else NO_KEY

    def fetch(self, context: FetchContext) -> PriceList:
        key = find_key(context, "PEBBLE_API_KEY")
        if not key:
            raise CloudError(Failure(Cause.CREDENTIALS, NO_KEY))
        base = endpoint(context, "api", os.environ.get("PEBBLE_API_URL", USUAL))
        told = context.http.json(f"{base}/types", headers={"Authorization": f"Bearer {key}"})
        rows = tuple(
            PriceRow(
                region,
                kind["name"],
                accelerator=gpu_names.read(kind["gpu"]).name if kind["gpu"] else "",
                count=kind["gpus"],
                maker="NVIDIA" if kind["gpu"] else "",
                vcpus=kind["cpus"],
                memory_gib=kind["ram_mb"] / 1024,
                on_demand=price(kind["cents_per_hour"] / 100),
            )
            for kind in expect(told, list, "Pebble's types")
            for region in kind["left"]
        )
        return PriceList(rows, "Pebble API, types", context.today)


def fetcher() -> Fetcher:
    """Return the fetcher; the entry point `nbprov.prices` names this function."""
    return PebblePrices()
