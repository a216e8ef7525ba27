"""The price fetcher of Azure's Linux machines, on demand and spot, from the public Retail Prices
API.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from nbprov.clouds.pricing.fetcher import FetchContext, Fetcher
from nbprov.clouds.pricing.region_fetch import each, endpoint, expect, price
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.money import Micros
from nbprov.model.price_list import PriceList, PriceRow

from .sizes import GPU_SERIES, RETIRED, SIZES, Size

API = "https://prices.azure.com"
PATH = "/api/retail/prices"
AT_ONCE = 3
"""The API answers 429 to clients that ask much faster."""
MOST_PAGES = 500
"""The most pages of a region: with a hundred meters each, several times what a region has today."""
EXCLUDED = frozenset({"eastus2euap", "centraluseuap", "brazilus"})
"""Azure's own trial regions, whose meters name no product."""
REGIONS = (
    "australiacentral",
    "australiacentral2",
    "australiaeast",
    "australiasoutheast",
    "austriaeast",
    "brazilsouth",
    "brazilsoutheast",
    "canadacentral",
    "canadaeast",
    "centralindia",
    "centralus",
    "chilecentral",
    "eastasia",
    "eastus",
    "eastus2",
    "francecentral",
    "francesouth",
    "germanynorth",
    "germanywestcentral",
    "indonesiacentral",
    "israelcentral",
    "italynorth",
    "japaneast",
    "japanwest",
    "jioindiacentral",
    "jioindiawest",
    "koreacentral",
    "koreasouth",
    "malaysiawest",
    "mexicocentral",
    "newzealandnorth",
    "northcentralus",
    "northeurope",
    "norwayeast",
    "norwaywest",
    "polandcentral",
    "qatarcentral",
    "southafricanorth",
    "southafricawest",
    "southcentralus",
    "southeastasia",
    "southindia",
    "spaincentral",
    "swedencentral",
    "swedensouth",
    "switzerlandnorth",
    "switzerlandwest",
    "uaecentral",
    "uaenorth",
    "uksouth",
    "ukwest",
    "westcentralus",
    "westeurope",
    "westindia",
    "westus",
    "westus2",
    "westus3",
)
"""The public regions, because the API has no list of them."""
NAMES = ("Standard_N", "s_v5", "s_v2")
"""Parts of the names in `SIZES`: the rest of a region's ten thousand meters is not requested."""
OTHER_PRODUCTS = (" Win", "Windows", "Cloud Services", "CloudServices", "Dedicated Host")


@dataclass(slots=True)
class Meters:
    """A region's prices as they are read: the current one of each size and market."""

    today: str
    prices: dict[tuple[str, bool], tuple[str, Micros | None]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)

    def add(self, item: Mapping[str, Any]) -> None:
        """Add one meter, if it is an hour of a Linux machine."""
        name, sku, meter = (
            str(item.get(key) or "") for key in ("armSkuName", "skuName", "meterName")
        )
        amount, since = (
            price(item.get("retailPrice")),
            str(item.get("effectiveStartDate") or "")[:10],
        )
        if (
            amount is None
            or since > self.today
            or not _machine_hour(item)
            or "Low Priority" in f"{sku} {meter}"
        ):
            return
        size = SIZES.get(name.lower())
        if size is None:
            if GPU_SERIES.match(name) and not RETIRED.fullmatch(name):
                self.unknown.add(name)
            return
        key = (size.name, sku.endswith(" Spot") or meter.endswith(" Spot"))
        before, known = self.prices.get(key, ("", None))
        if since > before or key not in self.prices:
            self.prices[key] = (since, amount)
        elif since == before and known != amount:
            # Two prices of one day: the list does not say which one is charged.
            self.prices[key] = (since, None)

    def rows(self, region: str) -> Iterator[PriceRow]:
        """Make the rows of machines that have a price."""
        for name in sorted({name for name, _ in self.prices}):
            on_demand, spot = (
                self.prices.get((name, is_spot), ("", None))[1] for is_spot in (False, True)
            )
            if on_demand is not None or spot is not None:
                yield _row(region, SIZES[name.lower()], on_demand, spot)

    def contradictions(self) -> int:
        """Return how many prices were dropped because the list has two."""
        return sum(amount is None for _, amount in self.prices.values())


class AzureFetcher(Fetcher):
    """Reads the Retail Prices API, region by region."""

    cloud = "azure"

    def ready(self, context: FetchContext) -> str:
        """Always ready, because the API is public."""
        return ""

    def fetch(self, context: FetchContext) -> PriceList:
        """Read the regions that were asked for, or all public ones."""
        asked = tuple(dict.fromkeys(region.lower() for region in context.regions)) or REGIONS
        regions = [region for region in asked if region not in EXCLUDED]
        failed = {
            region: "left out: one of Azure's own trial regions"
            for region in asked
            if region in EXCLUDED
        }
        result = each(regions, lambda region: _read(context, region), context, at_once=AT_ONCE)
        return PriceList(
            tuple(
                row
                for region in regions
                if region in result.good
                for row in result.good[region].rows(region)
            ),
            "Azure Retail Prices API",
            context.today,
            failed={**failed, **result.failed},
            covered=frozenset(asked),
            notes=_notes(result.good),
        )


def fetcher() -> Fetcher:
    """Make the fetcher of this cloud."""
    return AzureFetcher()


def question(region: str) -> str:
    """Return the API's OData filter for the meters of a region."""
    names = " or ".join(f"contains(armSkuName, '{name}')" for name in NAMES)
    return (
        "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and "
        f"armRegionName eq '{region}' and ({names})"
    )


def _read(context: FetchContext, region: str) -> Meters:
    """Read all pages of a region."""
    if not region.isalnum():
        raise CloudError(
            Failure(
                Cause.BAD_REQUEST,
                f"{region!r} is not the name of an Azure region",
                code="bad-region",
            )
        )
    base = endpoint(context, "prices", API) + PATH
    meters = Meters(context.today)
    params = {"currencyCode": "USD", "$filter": question(region)}
    seen: set[str] = set()
    while True:
        page = expect(context.http.json(base, params=params), dict, "Azure's price list")
        for item in expect(page.get("Items"), list, "Azure's price list"):
            meters.add(expect(item, dict, "a meter in Azure's price list"))
        link = str(page.get("NextPageLink") or "")
        if not link:
            break
        if link in seen or len(seen) >= MOST_PAGES:
            raise CloudError(
                Failure(
                    Cause.TRANSIENT, f"Azure's price list of {region} has no end", code="odd-answer"
                )
            )
        seen.add(link)
        # The link names another host and port; the next request still goes to the first one.
        params = dict(parse_qsl(urlsplit(link).query))
    if not meters.prices:
        raise CloudError(
            Failure(
                Cause.NOT_OFFERED,
                f"Azure lists no machine in {region} that nbprov knows",
                code="empty",
            )
        )
    return meters


def _machine_hour(item: Mapping[str, Any]) -> bool:
    product = str(item.get("productName") or "")
    return (
        item.get("type", "Consumption") == "Consumption"
        and item.get("currencyCode", "USD") == "USD"
        and item.get("unitOfMeasure", "1 Hour") == "1 Hour"
        and not item.get("tierMinimumUnits")
        and bool(product)
        and not any(other in product for other in OTHER_PRODUCTS)
    )


def _row(region: str, size: Size, on_demand: Micros | None, spot: Micros | None) -> PriceRow:
    return PriceRow(
        region,
        size.name,
        accelerator=size.accelerator,
        count=size.count,
        device_gib=size.device_gib,
        maker=size.maker,
        vcpus=size.vcpus,
        memory_gib=size.memory_gib,
        arch=size.arch,
        on_demand=on_demand,
        spot=spot,
    )


def _notes(read: Mapping[str, Meters]) -> tuple[str, ...]:
    unknown = Counter(name for meters in read.values() for name in meters.unknown)
    dropped = sum(meters.contradictions() for meters in read.values())
    notes = ["of the sizes without a GPU, only Ds_v5, Es_v5 and Fs_v2 are read"]
    if unknown:
        shown = ", ".join(sorted(unknown)[:5]) + (", …" if len(unknown) > 5 else "")
        notes.append(
            f"{len(unknown)} sizes of GPU series were left out, for what they are is not known "
            f"here: {shown}"
        )
    if dropped:
        notes.append(f"{dropped} prices were left empty, for the list has two of the same day")
    return tuple(notes)
