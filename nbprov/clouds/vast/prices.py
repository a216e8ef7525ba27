"""The price fetcher of Vast's market: `POST /api/v0/bundles/`, which needs no key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nbprov.clouds.pricing.fetcher import FetchContext, Fetcher, Progress
from nbprov.clouds.pricing.region_fetch import endpoint, expect, find_key, number
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.price_list import PriceList

from .offers import aggregate

API = "https://console.vast.ai"
SOURCE = "Vast.ai market, offers of one moment"
PAGE = 1000
MOST_PAGES = 60
"""The market has about 10,000 offers; a service with smaller pages than requested is followed this
far."""
# The default filter of Vast's own client, and what SkyPilot adds to it: only machines that can be
# used.
WANTED: Mapping[str, Any] = {
    "verified": {"eq": True},
    "external": {"eq": False},
    "rentable": {"eq": True},
    "rented": {"eq": False},
    "inet_down": {"gte": 100},
    "disk_space": {"gte": 80},
    "type": "on-demand",
    "order": [["dph_total", "asc"], ["id", "asc"]],
    "limit": PAGE,
}
SNAPSHOT = (
    "a market at one moment: an offer may be gone when you request it, and only places "
    "with an offer are listed"
)


class VastPrices(Fetcher):
    """Reads all offers, cheapest first, page by page."""

    cloud = "vast"

    def ready(self, context: FetchContext) -> str:
        return ""

    def fetch(self, context: FetchContext) -> PriceList:
        notes = [SNAPSHOT]
        market = aggregate(_offers(context, notes))
        if not market.rows:
            raise CloudError(
                Failure(Cause.TRANSIENT, "Vast listed no usable offer", code="odd-answer")
            )
        asked = frozenset(context.regions)
        made = tuple(row for row in market.rows if not asked or row.region in asked)
        if market.small:
            notes.append(f"left out: {market.small} offers of machines with under 4 vCPUs or 8 GiB")
        if market.unread:
            notes.append(
                f"left out: {market.unread} offers whose price, GPU or place could not be read"
            )
        unseen = frozenset() if any(row.spot for row in made) else frozenset({"spot"})
        return PriceList(
            made, SOURCE, context.today, covered=asked or None, unseen=unseen, notes=tuple(notes)
        )


def fetcher() -> Fetcher:
    """Make the fetcher of this cloud."""
    return VastPrices()


def _offers(context: FetchContext, notes: list[str]) -> Iterator[Mapping[str, Any]]:
    """Yield every offer once.

    There are no page tokens: a page begins at the last one's highest price.
    """
    url = f"{endpoint(context, 'api', API)}/api/v0/bundles/"
    key = find_key(context, "VAST_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    seen: set[object] = set()
    least: float | None = None
    for page in range(MOST_PAGES):
        question = {**WANTED, **({"dph_total": {"gte": least}} if least is not None else {})}
        answer = expect(context.http.post(url, question, headers=headers), dict, "Vast's answer")
        if answer.get("success") is False:
            raise CloudError(
                Failure(
                    Cause.TRANSIENT,
                    f"Vast refused the request: {answer.get('msg') or answer.get('error')}",
                )
            )
        offers = [
            offer
            for offer in expect(answer.get("offers"), list, "Vast's list of offers")
            if isinstance(offer, Mapping)
        ]
        fresh = [offer for offer in offers if offer.get("id") not in seen]
        seen.update(offer.get("id") for offer in fresh)
        context.progress(Progress(page + 1, 0, f"{len(seen)} offers"))
        yield from fresh
        last = max((number(offer.get("dph_total")) or 0.0 for offer in offers), default=0.0)
        if not fresh or last <= 0:
            if len(offers) >= PAGE:
                notes.append(f"not all offers were read: more than {PAGE} have one price")
            return
        least = last
    notes.append(f"not all offers were read: the list did not end after {MOST_PAGES} pages")
