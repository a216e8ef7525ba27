"""Suggestions for names in a query that the catalogue does not have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nbprov.catalog.errors import UnknownName
from nbprov.catalog.query import Query, names
from nbprov.catalog.sources import aws_zone_ids

from .name_matching import close, is_writable, pattern

if TYPE_CHECKING:
    from nbprov.catalog.catalog import Catalog

SHOWN = 5
"""The most close names that a message lists."""


def unknown_names(catalog: Catalog, query: Query) -> list[UnknownName]:
    """Return the unknown names of a query: cloud, region, zone, instance type, accelerator.

    Each name is searched within what the names before it leave: a region among those of the clouds
    that were named.
    """
    places = catalog.places()
    found = [
        UnknownName(name, close(name, places, SHOWN), "cloud")
        for name in _missing(names(query.cloud), places)
    ]
    clouds = _chosen(names(query.cloud), places)
    regions = {region for cloud in clouds for region in places[cloud]}
    unplaced = [
        text
        for text in names(query.region)
        if not any(cloud in clouds for cloud, _ in catalog.place_words(text))
    ]
    found += [
        UnknownName(
            name,
            close(name, regions, SHOWN) or sorted(filter(is_writable, regions))[:SHOWN],
            "region",
        )
        for name in unplaced
    ]
    known = {
        region
        for text in names(query.region)
        for cloud, region in catalog.place_words(text)
        if cloud in clouds
    } or regions
    zones = {
        zone
        for cloud in clouds
        for region in known & places[cloud].keys()
        for zone in places[cloud][region]
    }
    for name in _missing(names(query.zone), zones):
        ids = (
            set(aws_zone_ids.ids_of(name)) & zones if aws_zone_ids.looks_like_name(name) else set()
        )
        if not ids:
            found.append(UnknownName(name, close(name, zones, SHOWN), "zone"))
    if query.instance_type:
        types = catalog.instance_types(clouds if query.cloud else ())
        hosts = types | {name.partition("+")[0] for name in types}
        found += [
            UnknownName(name, close(name, types, SHOWN), "instance type")
            for name in _missing(names(query.instance_type), hosts)
        ]
    kinds = catalog.accelerators()
    found += [
        UnknownName(name, close(name, kinds, SHOWN))
        for name in _missing(names(query.accelerator), kinds)
    ]
    return found


def require_known(catalog: Catalog, query: Query) -> None:
    """Raise an error if a name in a query is unknown.

    Raises
    ------
    UnknownName
        The first that does not, with the nearest names.
    """
    missing = unknown_names(catalog, query)
    if missing:
        raise missing[0]


def _missing(wanted: Iterable[str], known: Iterable[str]) -> list[str]:
    low = {name.lower(): name for name in known}
    result = []
    for text in wanted:
        fits = pattern(text)
        if not (
            any(fits(name) for name in low.values())
            if fits is not None
            else text.strip().lower() in low
        ):
            result.append(text)
    return result


def _chosen(wanted: Iterable[str], known: Iterable[str]) -> set[str]:
    everything = set(known)
    chosen = {name for name in everything for text in wanted if not _missing([text], [name])}
    return chosen or everything
