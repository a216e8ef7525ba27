"""Combine picks of the four place fields into the places that requests name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from nbprov.model.resources import PlaceGlob, PlaceRule

from .place_patterns import is_apart, is_pattern, rest_of

MAX_REQUESTS = 1000
"""More alternatives than this are a mistake: no plan has so many kinds of machines."""

ANY = PlaceGlob()


class TooManyRequests(Exception):
    """The lists multiply out to more than `MAX_REQUESTS` alternatives."""


@dataclass(frozen=True, slots=True)
class PlacePick:
    """One way to satisfy a place field.

    Attributes
    ----------
    glob
        The name or pattern.
    deny
        Places that are excluded.
    within
        An `allow` list, if the text alone does not tell whether it contains the name; else empty.
    rank
        Position in `prefer`.
    """

    glob: PlaceGlob = ANY
    deny: tuple[PlaceGlob, ...] = ()
    within: tuple[PlaceGlob, ...] = ()
    rank: int = 0


_FREE = PlacePick()


@dataclass(frozen=True, slots=True)
class PlaceChoice:
    """One pick of each of the four place fields.

    `infra` holds only what an `infra` map adds to its cloud, region and zone.
    """

    infra: PlacePick = _FREE
    cloud: PlacePick = _FREE
    region: PlacePick = _FREE
    zone: PlacePick = _FREE


ANYWHERE = (PlaceChoice(),)


class RequestedPlace(NamedTuple):
    """A place of a request: names, rules beside them, and its rank among preferred places."""

    cloud: str = ""
    region: str = ""
    zone: str = ""
    rules: tuple[PlaceRule, ...] = ()
    rank: tuple[int, ...] = (0, 0, 0, 0)


def narrowed(
    outer: tuple[PlaceChoice, ...], given: dict[str, tuple[PlacePick, ...]]
) -> tuple[tuple[PlaceChoice, ...], bool]:
    """The places of an alternative, and whether its cloud replaced an outer region or zone.

    `infra` replaces the outer places; a region or zone narrows the outer cloud. Another cloud than
    the outer one also replaces the outer region and zone, which belong to the outer cloud.
    """
    if not given:
        return outer, False
    if "infra" in given:
        return tuple(_whole(pick) for pick in given["infra"] or (_FREE,)), False
    places, pushed = list(outer), False
    if "cloud" in given:
        _bound(len(outer) * len(given["cloud"]))
        places = [
            _with_cloud(choice, pick) for pick in given["cloud"] or (_FREE,) for choice in outer
        ]
        if "region" not in given:
            clouds = [pick.glob for pick in given["cloud"]]
            placed = [s for s in outer if s.region.glob != ANY or s.zone.glob != ANY]
            pushed = any(clouds and all(is_apart(c, s.cloud.glob) for c in clouds) for s in placed)
    if "region" in given:
        heads = dict.fromkeys(PlaceChoice(choice.infra, choice.cloud) for choice in places)
        _bound(len(heads) * len(given["region"]))
        places = [
            replace(head, region=pick) for head in heads for pick in given["region"] or (_FREE,)
        ]
    if "zone" in given:
        _bound(len(places) * len(given["zone"]))
        places = [
            replace(choice, zone=pick) for choice in places for pick in given["zone"] or (_FREE,)
        ]
    return tuple(dict.fromkeys(places)), pushed


def _bound(number: int) -> None:
    if number > MAX_REQUESTS:
        raise TooManyRequests


def _whole(pick: PlacePick) -> PlaceChoice:
    glob = pick.glob
    return PlaceChoice(
        replace(pick, glob=ANY),
        PlacePick(PlaceGlob(cloud=glob.cloud)),
        PlacePick(PlaceGlob(region=glob.region)),
        PlacePick(PlaceGlob(zone=glob.zone)),
    )


def _with_cloud(choice: PlaceChoice, pick: PlacePick) -> PlaceChoice:
    return (
        PlaceChoice(cloud=pick)
        if is_apart(pick.glob, choice.cloud.glob)
        else replace(choice, cloud=pick)
    )


def requested_places(choices: tuple[PlaceChoice, ...]) -> tuple[RequestedPlace, ...]:
    """The places of requests: one for each name; patterns that differ in nothing else share a
    rule.
    """
    groups: dict[RequestedPlace, list[PlaceGlob]] = {}
    for choice in choices:
        found = _requested_place(choice)
        if found is not None:
            groups.setdefault(found[0], []).append(found[1])
    return tuple(_with_patterns(place, globs) for place, globs in groups.items())


def requested_places_of_infra(
    allow: Iterable[PlaceGlob], deny: tuple[PlaceGlob, ...]
) -> tuple[RequestedPlace, ...]:
    """The places of `infra: {allow: …, deny: …}`."""
    return requested_places(tuple(_whole(PlacePick(glob, deny)) for glob in allow))


def _requested_place(choice: PlaceChoice) -> tuple[RequestedPlace, PlaceGlob] | None:
    """The place of a choice, and its pattern; None if it denies all of itself."""
    said = (choice.cloud.glob.cloud, choice.region.glob.region, choice.zone.glob.zone)
    cloud, region, zone = ("" if is_pattern(part) else part for part in said)
    pattern = PlaceGlob(*(part if is_pattern(part) else "" for part in said))
    picks = (choice.infra, choice.cloud, choice.region, choice.zone)
    rank = (picks[0].rank, picks[1].rank, picks[2].rank, picks[3].rank)
    if not any(pick.deny or pick.within for pick in picks):
        return RequestedPlace(cloud, region, zone, (), rank), pattern
    place = PlaceGlob(*said)
    deny: dict[PlaceGlob, None] = {}
    for glob in (d for pick in picks for d in pick.deny if not is_apart(d, place)):
        left = rest_of(glob, place)
        if left == ANY:
            return None
        deny[left] = None
    rules = [PlaceRule((), tuple(sorted(deny, key=_sort_key)))] if deny else []
    for pick in picks:
        allow = tuple(
            sorted(
                {rest_of(a, place) for a in pick.within if not is_apart(a, place)}, key=_sort_key
            )
        )
        if pick.within and ANY not in allow:
            rules.append(PlaceRule(allow))
    return RequestedPlace(cloud, region, zone, tuple(rules), rank), pattern


def _sort_key(glob: PlaceGlob) -> tuple[str, str, str]:
    return (glob.cloud, glob.region, glob.zone)


def _with_patterns(place: RequestedPlace, globs: list[PlaceGlob]) -> RequestedPlace:
    allow = tuple(sorted(set(globs), key=_sort_key))
    if ANY in allow:
        return place
    rules = list(place.rules)
    if rules and not rules[0].allow:
        rules[0] = PlaceRule(allow, rules[0].deny)
    else:
        rules.insert(0, PlaceRule(allow))
    return place._replace(rules=tuple(rules))
