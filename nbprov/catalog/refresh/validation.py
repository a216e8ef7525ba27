"""Checks that a fetched price list must pass before it is put in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nbprov.catalog.errors import CatalogError
from nbprov.catalog.sources import gcp_hosts, price_sanity
from nbprov.catalog.sources.price_entry import PriceEntry, Reading

LEAST_KEPT = 0.6
"""A list with a smaller share of the earlier prices than this counts as incomplete.

Clouds drop a type or a region, but not half of everything.
"""
MOST_ABSURD = 0.2
"""A list with a larger share of absurd accelerator prices than this counts as wrong.

Prices are absurd in comparison with other clouds'; the wildest real list has a tenth.
"""

Yardstick = Mapping[str, Sequence[PriceEntry]]
"""The cheapest machine with each kind of accelerator, by cloud; new lists are compared with it."""


def check(
    cloud: str,
    entries: Sequence[PriceEntry],
    before: Sequence[PriceEntry],
    others: Yardstick,
    *,
    force: bool,
    same_source: bool = True,
) -> tuple[str, ...]:
    """Compare a list with the prices that were known before.

    Parameters
    ----------
    same_source
        Whether the earlier prices come from the same list. If not, only the types are compared: a
        hosted file may list every type in every zone, while the cloud itself names the zones that
        have it.
    force
        Accept the list although it has far fewer rows or many absurd prices.

    Returns
    -------
    tuple of str
        Remarks on the list, for people to read.

    Raises
    ------
    CatalogError
        If the list must not be used.
    """
    now, was = (
        (_count(entries), _count(before)) if same_source else (_types(entries), _types(before))
    )
    what = "prices" if same_source else "priced types"
    if not now:
        raise CatalogError(
            f"the list of {cloud} that was sent holds no price",
            hint="the prices in place stay",
            code="catalog.no-prices",
        )
    notes = []
    if now < was * LEAST_KEPT:
        if not force:
            raise CatalogError(
                f"the list of {cloud} that was sent has {now:,} {what}, where {was:,} were known",
                hint="--force takes it all the same (in Python: force=True)",
                code="catalog.far-fewer",
            )
        notes.append(f"{now:,} {what}, where {was:,} were known")
    absurd = _absurd(cloud, entries, others)
    if not force:
        _refuse_absurd(cloud, entries, absurd)
    notes += [f"{n:,} hidden: {why}" for why, n in sorted(absurd.items())]
    return tuple(notes)


def _refuse_absurd(cloud: str, entries: Sequence[PriceEntry], absurd: Mapping[str, int]) -> None:
    """Raise if too many prices of accelerators are absurd."""
    on_accelerators = _count(e for e in entries if e.accelerator)
    wrong = sum(n for why, n in absurd.items() if why == price_sanity.ABSURD_FOR_KIND)
    if wrong > on_accelerators * MOST_ABSURD:
        raise CatalogError(
            f"{wrong:,} of {on_accelerators:,} prices that were sent for {cloud} are absurd"
            " beside other clouds' prices of the same GPUs",
            hint="--force takes the list all the same; absurd prices stay hidden",
            code="catalog.absurd",
        )


def yardstick(by_cloud: Mapping[str, Iterable[PriceEntry]]) -> Yardstick:
    """Return the cheapest machine of each cloud with each kind of accelerator."""
    cheapest: dict[str, dict[str, PriceEntry]] = {}
    for cloud, entries in by_cloud.items():
        best = cheapest.setdefault(cloud, {})
        for entry in joined(cloud, entries):
            known = best.get(entry.accelerator)
            if (
                entry.accelerator
                and entry.on_demand is not None
                and (known is None or _each(entry) < _each(known))
            ):
                best[entry.accelerator] = entry
    return {cloud: tuple(best.values()) for cloud, best in cheapest.items()}


def joined(cloud: str, entries: Iterable[PriceEntry]) -> list[PriceEntry]:
    """Join accelerators and hosts that a cloud sells apart, as the catalogue does."""
    reading = Reading(entries=list(entries))
    if cloud == gcp_hosts.CLOUD:
        gcp_hosts.join(reading)
    return reading.entries


def _absurd(cloud: str, entries: Sequence[PriceEntry], others: Yardstick) -> dict[str, int]:
    reading = Reading(entries=joined(cloud, entries))
    reading.left_out.clear()
    before = dict(reading.left_out)
    readings = {name: Reading(entries=list(few)) for name, few in others.items() if name != cloud}
    price_sanity.hide_absurd({**readings, cloud: reading})
    return {
        why: n - before.get(why, 0) for why, n in reading.left_out.items() if n > before.get(why, 0)
    }


def _count(entries: Iterable[PriceEntry]) -> int:
    return sum((entry.on_demand is not None) + (entry.spot is not None) for entry in entries)


def _types(entries: Iterable[PriceEntry]) -> int:
    return len({(entry.instance_type, entry.accelerator, entry.devices) for entry in entries})


def _each(entry: PriceEntry) -> float:
    return (entry.on_demand or 0) / max(entry.devices, 1.0)
