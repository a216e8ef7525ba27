"""The price fetcher of Compute Engine.

List prices come from the Cloud Billing catalogue; with a login, the Compute API adds the zones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from nbprov.clouds.gcp.account import price_list_auth
from nbprov.clouds.gcp.catalog import accelerator_zones
from nbprov.clouds.gcp.catalog.machine_prices import Assembled, assemble
from nbprov.clouds.gcp.catalog.machine_types import machines
from nbprov.clouds.gcp.catalog.skus import SERVICE, Rates, rates
from nbprov.clouds.pricing.fetcher import FetchContext, Fetcher, Progress
from nbprov.clouds.pricing.region_fetch import endpoint, expect
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.price_list import PriceList

BILLING = "https://cloudbilling.googleapis.com"
COMPUTE = "https://compute.googleapis.com"
PAGE = 5000
"""The most lines of one answer; the whole list has about 30,000."""
MOST_PAGES = 200
SOURCE = "Google Cloud Billing catalogue, parts added up"
NAMED = 3
"""How many examples a note gives."""


class GcpPrices(Fetcher):
    """Reads the billing catalogue and adds up the prices of each machine's parts."""

    cloud = "gcp"

    def ready(self, context: FetchContext) -> str:
        return price_list_auth.missing(context.keys)

    def fetch(self, context: FetchContext) -> PriceList:
        allowed = price_list_auth.open_access(context.keys)
        found = rates(skus(context, allowed))
        if not found.by_place:
            raise CloudError(
                Failure(
                    Cause.TRANSIENT,
                    "Google's list holds no price of a machine part that nbprov knows",
                )
            )
        where, notes = _places(context, allowed)
        asked = frozenset(context.regions)
        regions = {
            region for region in found.regions if "-" in region and (not asked or region in asked)
        }
        failed = {
            region: why for region, why in where.failed.items() if not asked or region in asked
        }
        failed |= dict.fromkeys(asked - regions, "not in Google's price list")
        done = assemble(found, where, machines(), regions - set(failed))
        return PriceList(
            tuple(done.rows),
            SOURCE,
            context.today,
            failed=failed,
            covered=asked or None,
            notes=(*notes, *_notes(found, done)),
        )


def fetcher() -> Fetcher:
    """Make the fetcher of this cloud."""
    return GcpPrices()


def skus(
    context: FetchContext, allowed: price_list_auth.PriceListAuth
) -> Iterator[Mapping[str, Any]]:
    """Read the lines of the billing catalogue, page by page.

    Raises
    ------
    CloudError
        If the login is refused, or an answer is no page of it.
    """
    url = f"{endpoint(context, 'billing', BILLING)}/v1/services/{SERVICE}/skus"
    params: dict[str, Any] = {"pageSize": PAGE, "currencyCode": "USD", **allowed.params}
    lines = 0
    for number in range(MOST_PAGES):
        page = expect(_asked(context, url, params, allowed.headers), dict, "Google's price list")
        found = expect(page.get("skus", []), list, "Google's list of SKUs")
        lines += len(found)
        context.progress(Progress(number + 1, 0, f"price list, {lines} lines"))
        yield from (sku for sku in found if isinstance(sku, Mapping))
        token = page.get("nextPageToken")
        if not token:
            return
        params["pageToken"] = token
    raise CloudError(
        Failure(Cause.TRANSIENT, f"Google's price list did not end after {MOST_PAGES} pages")
    )


def _asked(
    context: FetchContext, url: str, params: Mapping[str, Any], headers: Mapping[str, str]
) -> Any:
    try:
        return context.http.json(url, params=params, headers=headers)
    except CloudError as error:
        # Google refuses a wrong API key with 400, not 401.
        if error.failure.code == "400" and "api key" in error.failure.message.lower():
            raise CloudError(replace(error.failure, cause=Cause.CREDENTIALS)) from None
        raise


def _places(
    context: FetchContext, allowed: price_list_auth.PriceListAuth
) -> tuple[accelerator_zones.ZonesByType, tuple[str, ...]]:
    """Return which zones sell what, as exactly as can be determined, and notes about it."""
    old = (
        f"accelerators are listed in the zones known in {accelerator_zones.KNOWN_AS_OF}, CPU "
        "types for whole regions, and "
        f"{', '.join(accelerator_zones.unknown(machines()))} in every region with a price, which "
        "may have none"
    )
    if not allowed.bearer:
        return accelerator_zones.known(), (
            f"zones were not read, which needs a Google login: {old}",
        )
    if not allowed.project:
        return accelerator_zones.known(), (
            f"zones were not read: set GOOGLE_CLOUD_PROJECT to a project; {old}",
        )
    url = (
        f"{endpoint(context, 'compute', COMPUTE)}/compute/v1/projects/{allowed.project}/aggregated"
    )
    try:
        found = accelerator_zones.read(
            context.http,
            url,
            allowed.bearer,
            machines(),
            lambda what: context.progress(Progress(0, 0, what)),
        )
    except CloudError as error:
        return accelerator_zones.known(), (
            f"zones could not be read ({error.failure.sentence()}): {old}",
        )
    return found, ()


def _notes(found: Rates, done: Assembled) -> Iterator[str]:
    if done.incomplete:
        left_out = done.incomplete.total()
        examples = ", ".join(
            f"{part} in {region}" for (region, part), _ in done.incomplete.most_common(NAMED)
        )
        yield f"left out: {left_out} machines with a part that has no price ({examples})"
    if found.disputed:
        examples = ", ".join(
            sorted({f"{part} in {region}" for region, part, _ in found.disputed})[:NAMED]
        )
        yield (
            f"not used: {len(found.disputed)} prices of parts that Google lists twice with "
            f"different amounts ({examples})"
        )
    if found.unknown:
        examples = ", ".join(name for name, _ in found.unknown.most_common(NAMED))
        yield f"not known to nbprov: {len(found.unknown)} kinds of accelerators ({examples})"
    if found.unreadable:
        yield f"not read: {found.unreadable} lines without a price in dollars an hour"
