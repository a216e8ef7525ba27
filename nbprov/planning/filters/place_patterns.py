"""Match patterns with names of places, without numpy.

A country or part of the world stands for the regions in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING

from nbprov.catalog.sources import aws_zone_ids
from nbprov.catalog.vocabulary.geography import ground_of, place_word
from nbprov.model.places import Place
from nbprov.model.resources import PlaceGlob, PlaceRule

if TYPE_CHECKING:
    from nbprov.planning.lookup.catalog_columns import CloudPlaces


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(translate(text.strip().casefold()))


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern.

    `*` is any text, `?` any letter, case is ignored; an empty pattern matches every name.

    Examples
    --------
    >>> matches("us-*", "US-East-1"), matches("", "CZ"), matches("eu-west-?", "eu-west-12")
    (True, True, False)
    """
    return not pattern or _pattern(pattern).match(name.casefold()) is not None


def region_matches(pattern: str, cloud: str, region: str) -> bool:
    """As `matches`; a country or part of the world also matches the regions in it."""
    if matches(pattern, region):
        return True
    word = place_word(pattern)
    return word is not None and word.holds(ground_of(cloud, region))


def zone_matches(pattern: str, zone: str, names: Mapping[str, str]) -> bool:
    """As `matches`; an AWS zone also by the name that the account has for it (`us-east-1a`)."""
    return matches(pattern, zone) or (zone in names and matches(pattern, names[zone]))


def glob_words(glob: PlaceGlob) -> str:
    """A pattern as people write it.

    Examples
    --------
    >>> glob_words(PlaceGlob("aws", "us-*")), glob_words(PlaceGlob(zone="use1-az1"))
    ('aws/us-*', '*/*/use1-az1')
    >>> glob_words(PlaceGlob())
    '*'
    """
    parts = [glob.cloud, glob.region, glob.zone]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return "/".join(part or "*" for part in parts)


def rule_words(rule: PlaceRule) -> str:
    """A rule as people say it: `aws/us-* or gcp, not aws/us-west-1`."""
    allowed = " or ".join(map(glob_words, rule.allow)) or "any place"
    return ", ".join([allowed, *(f"not {glob_words(glob)}" for glob in rule.deny)])


def is_pattern(name: str) -> bool:
    """Whether a name has a wildcard."""
    return "*" in name or "?" in name


def named_clouds(rules: Iterable[PlaceRule]) -> frozenset[str]:
    """The clouds that rules allow by their full name."""
    return frozenset(
        glob.cloud.casefold()
        for rule in rules
        for glob in rule.allow
        if glob.cloud and not is_pattern(glob.cloud)
    )


def is_under(place: Place, glob: PlaceGlob) -> bool:
    """Whether a place matches a pattern.

    Examples
    --------
    >>> is_under(Place("aws", "eu-west-1", "euw1-az1"), PlaceGlob(region="ireland"))
    True
    """
    in_region = not glob.region or region_matches(glob.region, place.cloud, place.region)
    named = zone_matches(glob.zone, place.zone, aws_zone_ids.names())
    return in_region and matches(glob.cloud, place.cloud) and named


def is_allowed(place: Place, rules: Iterable[PlaceRule]) -> bool:
    """Whether all rules permit a place."""
    return all(
        (not rule.allow or any(is_under(place, glob) for glob in rule.allow))
        and not any(is_under(place, glob) for glob in rule.deny)
        for rule in rules
    )


def has_place(glob: PlaceGlob, places: Mapping[str, CloudPlaces], clouds: Iterable[str]) -> bool:
    """Whether a place of these clouds matches a pattern."""
    names = aws_zone_ids.names()
    for cloud in clouds:
        known = places.get(cloud)
        if known is None or not matches(glob.cloud, cloud):
            continue
        regions = [
            name
            for name in known.regions.values()
            if not glob.region or region_matches(glob.region, cloud, name)
        ]
        if not regions:
            continue
        if not glob.zone:
            return True
        if any(
            region in regions and zone_matches(glob.zone, zone, names)
            for pairs in known.zones.values()
            for region, zone in pairs
        ):
            return True
    return False
