"""Merge a provider's price list into a cloud's earlier rows and write its price files.

A fetch may cover only some regions, fail in others, or see no spot prices at all. Rows that it does
not cover are kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from nbprov.model.price_list import PriceList, PriceRow

from . import snapshot
from .price_entry import PriceEntry

UNSEEN_CPU = "cpu"
UNSEEN_SPOT = "spot"

_Type = tuple[str, str, float]
_Place = tuple[str, str]


def entries(price_list: PriceList, cloud: str) -> list[PriceEntry]:
    """Return the rows of a list as entries, without those that have no price."""
    return [
        _entry(row, price_list, cloud)
        for row in price_list.rows
        if row.on_demand is not None or row.spot is not None
    ]


def merge(old: Sequence[PriceEntry], price_list: PriceList, cloud: str) -> list[PriceEntry]:
    """Merge a list into the old rows of its cloud.

    The old rows stay in regions that failed or are not covered, and for kinds that the list did not
    see. If the list names no zone of a type and the old rows do, its price holds in those zones,
    since the zones of a type are known from elsewhere. Sizes that the list does not give are taken
    from the old rows of the same type.

    Parameters
    ----------
    old
        Rows as they stand in the cloud's files (`price_files.read_prices`), not the joined rows of
        the catalogue.
    """
    old_regions = {entry.region for entry in old}
    failed = {region for region in price_list.failed if region in old_regions}
    kept = [entry for entry in old if _stands(entry, price_list)]
    fresh = [entry for entry in entries(price_list, cloud) if entry.region not in failed]
    if UNSEEN_CPU in price_list.unseen:
        said = {(entry.region, entry.instance_type) for entry in fresh if entry.instance_type}
        kept = [
            e
            for e in kept
            if _is_apart(e, price_list, failed) or (e.region, e.instance_type) not in said
        ]
    before = [entry for entry in old if not _is_apart(entry, price_list, failed)]
    fresh = _with_zones(fresh, before)
    fresh = _with_sizes(fresh, old)
    if UNSEEN_SPOT in price_list.unseen:
        fresh = _with_spot(fresh, before)
    return kept + fresh


def write(folder: Path, rows: Iterable[PriceEntry]) -> None:
    """Write entries of one cloud into `folder` as the three files of nbprov's own form.

    The files are not replaced in one step: pass a new folder and move it into place. The same
    entries give the same bytes.
    """
    said = [_sourced(entry) for entry in rows]
    known = sorted(
        {(e.as_of, e.source) for e in said} | {(e.spot_as_of, e.spot_source) for e in said}
    )
    keys = [(_key(i), as_of, source) for i, (as_of, source) in enumerate(known)]
    snapshot.write(folder, said, keys)


def _entry(row: PriceRow, listed: PriceList, cloud: str) -> PriceEntry:
    counted = row.count if row.accelerator else 0.0
    return PriceEntry(
        cloud,
        row.region,
        row.zone,
        row.instance_type,
        row.accelerator,
        counted,
        row.device_gib,
        row.maker,
        row.vcpus,
        row.memory_gib,
        row.arch,
        row.on_demand,
        row.spot,
        listed.source,
        listed.as_of,
        listed.spot_source or listed.source,
        listed.as_of,
    )


def _is_apart(entry: PriceEntry, listed: PriceList, failed: set[str]) -> bool:
    """Tell whether the list does not cover the entry's region."""
    return entry.region in failed or (
        listed.covered is not None and entry.region not in listed.covered
    )


def _stands(entry: PriceEntry, listed: PriceList) -> bool:
    if _is_apart(entry, listed, set(listed.failed)):
        return True
    return UNSEEN_CPU in listed.unseen and not entry.accelerator


def _type(entry: PriceEntry) -> _Type:
    return entry.instance_type, entry.accelerator, entry.devices


def _with_zones(fresh: Sequence[PriceEntry], before: Sequence[PriceEntry]) -> list[PriceEntry]:
    zones: dict[tuple[str, _Type], set[str]] = defaultdict(set)
    for entry in before:
        if entry.zone:
            zones[entry.region, _type(entry)].add(entry.zone)
    named = {(entry.region, _type(entry)) for entry in fresh if entry.zone}
    result = []
    for entry in fresh:
        key = (entry.region, _type(entry))
        here = zones.get(key) if not entry.zone and key not in named else None
        result += [entry._replace(zone=zone) for zone in sorted(here)] if here else [entry]
    return result


def _with_sizes(fresh: Sequence[PriceEntry], old: Sequence[PriceEntry]) -> list[PriceEntry]:
    known = {_type(entry): entry for entry in old}
    result = []
    for entry in fresh:
        like = known.get(_type(entry))
        if like is not None and (
            None in (entry.device_gib, entry.vcpus, entry.memory_gib)
            or not entry.maker
            or not entry.arch
        ):
            entry = entry._replace(
                device_gib=entry.device_gib if entry.device_gib is not None else like.device_gib,
                maker=entry.maker or like.maker,
                vcpus=entry.vcpus if entry.vcpus is not None else like.vcpus,
                memory_gib=entry.memory_gib if entry.memory_gib is not None else like.memory_gib,
                arch=entry.arch or like.arch,
            )
        result.append(entry)
    return result


def _with_spot(fresh: Sequence[PriceEntry], before: Sequence[PriceEntry]) -> list[PriceEntry]:
    known: dict[tuple[_Place, _Type], PriceEntry] = {
        ((e.region, e.zone), _type(e)): e for e in before if e.spot is not None
    }
    result = []
    for entry in fresh:
        like = known.get(((entry.region, entry.zone), _type(entry)))
        if like is not None and entry.spot is None:
            entry = entry._replace(
                spot=like.spot, spot_source=like.spot_source, spot_as_of=like.spot_as_of
            )
        result.append(entry)
    return result


def _sourced(entry: PriceEntry) -> PriceEntry:
    """Return the entry with only the sources of the prices that it has."""
    if entry.spot is None:
        return entry._replace(spot_source=entry.source, spot_as_of=entry.as_of)
    if entry.on_demand is None:
        return entry._replace(source=entry.spot_source, as_of=entry.spot_as_of)
    return entry


def _key(number: int) -> str:
    """Return the key of a source by its number: `A`, `B`, …, `Z`, `A1`, …"""
    turn, letter = divmod(number, 26)
    return chr(ord("A") + letter) + (str(turn) if turn else "")
