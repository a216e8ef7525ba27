"""The price asked again just before a machine is made or started.

So the price that is agreed to, counted and guarded is the one that is paid.
"""

from __future__ import annotations

from dataclasses import replace

from nbprov.model.clock import iso
from nbprov.model.launches import Quote
from nbprov.model.money import Micros, format_usd
from nbprov.model.offers import Candidate


def quoted(candidate: Candidate, quote: Quote | None) -> Candidate:
    """The candidate at the price quoted just now; unchanged where the cloud cannot tell."""
    if quote is None or quote.hourly == candidate.offer.hourly:
        return candidate
    offer = replace(
        candidate.offer, hourly=quote.hourly, source=quote.source, as_of=iso(quote.as_of)[:10]
    )
    return replace(candidate, offer=offer)


def beyond_agreed(candidate: Candidate, agreed: Micros) -> str:
    """Why nothing may be bought at this price; empty where it may.

    The price is above the spec's cap, or above what Launch agreed to for the cluster.
    """
    cap, now = candidate.request.max_hourly, candidate.offer.hourly
    if cap is not None and now > cap:
        return f"the price is {format_usd(now)}/h a node now, above the cap of {format_usd(cap)}"
    if candidate.hourly > agreed:
        return (
            f"the price is {format_usd(candidate.hourly)}/h now, above the"
            f" {format_usd(agreed)}/h that Launch agreed to"
        )
    return ""
