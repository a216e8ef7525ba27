"""What was agreed to compared with the price of now, and with what a cloud's listing charges.

So the price that is agreed to, counted and guarded is the one that is paid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nbprov.model.clock import iso
from nbprov.model.launches import Instance, Quote
from nbprov.model.money import Micros, exact_usd, format_usd
from nbprov.model.offers import Candidate, is_moved

LISTED_SLACK: Micros = 20_000
"""A listing may be above what was agreed to by so much an hour for each machine, or by a fiftieth.

Some clouds add the disk or round; that is booked as listed, and no reason to end a machine.
"""


def quoted(candidate: Candidate, quote: Quote | None) -> Candidate:
    """The candidate at the price quoted just now; unchanged where the cloud cannot tell."""
    if quote is None:
        return candidate
    if quote.hourly == candidate.offer.hourly and not candidate.offer.moved_from:
        return candidate
    offer = replace(
        candidate.offer,
        hourly=quote.hourly,
        source=quote.source,
        as_of=iso(quote.as_of)[:10],
        moved_from=0,
    )
    return replace(candidate, offer=offer)


def beyond_agreed(candidate: Candidate, agreed: Micros) -> str:
    """Why nothing may be bought at this price; empty where it may.

    The price is above the spec's cap, or above what Launch agreed to for the cluster, or it is a
    listed one that moved by more than half and that nobody confirmed.
    """
    cap, now = candidate.request.max_hourly, candidate.offer.hourly
    offer = candidate.offer
    if offer.moved_from and not is_moved(offer.hourly, offer.moved_from):
        return (
            f"{offer.instance_type} is listed with other hardware than before, and {offer.cloud}"
            f" does not confirm its price; %nbprov catalog accept {offer.cloud} accepts it"
        )
    if offer.moved_from:
        return (
            f"the listed price moved from {format_usd(candidate.offer.moved_from)}/h to"
            f" {format_usd(now)}/h a node, and {candidate.offer.cloud} does not confirm it;"
            f" %nbprov catalog accept {candidate.offer.cloud} accepts it"
        )
    if cap is not None and now > cap:
        return f"the price is {exact_usd(now)}/h a node now, above the cap of {exact_usd(cap)}"
    if candidate.hourly > agreed:
        return (
            f"the price is {exact_usd(candidate.hourly)}/h now, above the"
            f" {exact_usd(agreed)}/h that Launch agreed to"
        )
    return ""


def listed_prices(instances: Iterable[Instance]) -> dict[str, Micros]:
    """What a cloud says that each of its machines on the bill costs an hour, by id.

    A price of nothing is no statement: a cloud may not have set it yet.
    """
    return {i.id: i.hourly for i in instances if i.hourly and i.state.is_billed}


def listed_beyond(candidate: Candidate, listed: Mapping[str, Micros], agreed: Micros) -> str:
    """Why machines may not go on costing what their cloud lists; empty where they may.

    Parameters
    ----------
    candidate
        What was bought, at the price that was agreed to for it.
    listed
        What each machine costs an hour (`listed_prices`).
    agreed
        The most that the whole cluster may cost an hour.
    """
    if not listed:
        return ""
    cap, dearest = candidate.request.max_hourly, max(listed.values())
    if cap is not None and dearest > cap + _slack(cap):
        return (
            f"its cloud charges {format_usd(dearest)}/h a node, above the cap of {format_usd(cap)}"
        )
    rest = max(0, candidate.count - len(listed))
    whole = sum(listed.values()) + rest * candidate.offer.hourly
    limit = max(agreed, candidate.hourly)
    if whole > limit + max(_slack(limit), LISTED_SLACK * candidate.count):
        return (
            f"its cloud charges {format_usd(whole)}/h, above the {format_usd(limit)}/h that was"
            " agreed to"
        )
    return ""


def _slack(limit: Micros) -> Micros:
    return max(LISTED_SLACK, limit // 50)
