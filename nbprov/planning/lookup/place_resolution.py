"""Resolve the places of requests: cloud, region, zone and patterns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nbprov.catalog.sources import aws_zone_ids
from nbprov.catalog.vocabulary.geography import place_word
from nbprov.model.resources import PlaceGlob, PlaceRule, Request
from nbprov.planning.filters.place_patterns import has_place, matches

from .cloud_aliases import ALIASES, CLOUDS_ELSEWHERE
from .resolved_request import MOST_LISTED, UnresolvedName, nearest_names, unresolved

if TYPE_CHECKING:
    from nbprov.catalog import Catalog

    from .catalog_columns import CatalogColumns


ZONE_IDS_OF = "aws"
"""The cloud whose zones have a name of its own in each account."""


class PlaceResolver:
    """Resolves the places of the requests of one spec.

    Parameters
    ----------
    usable
        Enabled clouds that a request without a cloud may be placed in.
    known
        Further clouds that exist: enabled or known to be disabled.
    """

    def __init__(
        self,
        catalog: Catalog,
        table: CatalogColumns,
        usable: Collection[str],
        known: Collection[str],
    ) -> None:
        self._catalog = catalog
        self._table = table
        self._usable = usable
        self._known = {*known, *table.places, *CLOUDS_ELSEWHERE}
        self._good_globs: set[tuple[PlaceGlob, tuple[str, ...]]] = set()

    def cloud(self, request: Request) -> str:
        name = request.cloud.casefold()
        name = ALIASES.get(name, name)
        if name and name not in self._known:
            near = nearest_names(name, sorted(self._known))
            raise unresolved(
                request,
                "plan.unknown-cloud",
                f"no cloud is called {request.cloud!r}",
                near,
                _clouds_words(self._table.places),
            )
        return name

    def area(self, request: Request, cloud: str) -> tuple[PlaceRule, ...]:
        """The rule for a region that is meant on every cloud.

        That is a country or a part of the world, and a name that several clouds have: it names all
        of them. A cloud that is named and has a region of this name is meant alone.
        """
        if not request.region:
            return ()
        places = self._table.places
        if cloud and (cloud not in places or request.region.casefold() in places[cloud].regions):
            return ()
        several = [c for c in self._usable if c in places and self._in_cloud(c, request)]
        if place_word(request.region) is None and (cloud or len(several) < 2):
            return ()
        return (PlaceRule((PlaceGlob(region=request.region),)),)

    def zone_area(self, request: Request, cloud: str) -> tuple[PlaceRule, ...]:
        """The rule for a zone without a region that several usable clouds have."""
        if cloud or request.region or not request.zone:
            return ()
        here = [c for c in self._usable if c in self._table.places and self._in_cloud(c, request)]
        return (PlaceRule((PlaceGlob(zone=request.zone),)),) if len(here) > 1 else ()

    def with_zone_id(self, request: Request, cloud: str) -> tuple[Request, tuple[str, ...]]:
        """The request with the id of an AWS zone that it names as an account does, and notes.

        The catalogue has ids, since `us-east-1a` is another zone in each account. Without this
        account's names the zone is left open, and that is said.
        """
        name = request.zone.strip().lower()
        if cloud not in ("", ZONE_IDS_OF) or not aws_zone_ids.looks_like_name(name):
            return request, ()
        ids = aws_zone_ids.ids_of(name)
        if ids:
            note = f"zone {request.zone} is {ids[0]} in your account"
            return replace(request, zone=ids[0]), (note,)
        region = name.rstrip("abcdefghijklmnopqrstuvwxyz")
        note = (
            f"which zone {request.zone} is differs between accounts, and yours is not known yet:"
            f" any zone of {region} is taken; %nbprov check aws learns the names"
        )
        return replace(request, zone="", region=request.region or region), (note,)

    def rules(self, request: Request, cloud: str, beside: Sequence[str]) -> tuple[PlaceRule, ...]:
        """The request's place rules.

        Refused if a pattern matches no place of any cloud that the request may use.
        """
        if not request.places:
            return ()
        named = tuple(ALIASES.get(name.casefold(), name.casefold()) for name in beside)
        clouds = (
            named if cloud and len(named) > 1 else (cloud,) if cloud else tuple(self._table.places)
        )
        for rule in request.places:
            for glob in (*rule.allow, *rule.deny):
                self._check_glob(request, glob, clouds)
        return request.places

    def _check_glob(self, request: Request, glob: PlaceGlob, clouds: Sequence[str]) -> None:
        key = glob, tuple(clouds)
        if key in self._good_globs:
            return
        named = (
            [
                name
                for name in self._known
                if matches(ALIASES.get(glob.cloud.casefold(), glob.cloud), name)
            ]
            if glob.cloud
            else list(clouds)
        )
        if not named:
            near = nearest_names(glob.cloud.strip("*?"), sorted(self._known))
            raise unresolved(
                request,
                "plan.unknown-cloud",
                f"no cloud is called {glob.cloud!r}",
                near,
                _clouds_words(self._table.places),
            )
        priced = [name for name in named if name in self._table.places and name in clouds]
        if (
            (glob.region or glob.zone)
            and priced
            and not has_place(glob, self._table.places, priced)
        ):
            raise self._matches_nothing(request, glob, priced)
        self._good_globs.add(key)

    def _matches_nothing(
        self, request: Request, glob: PlaceGlob, clouds: Sequence[str]
    ) -> UnresolvedName:
        places = self._table.places
        if glob.region and not has_place(PlaceGlob(region=glob.region), places, clouds):
            what, known = (
                glob.region,
                sorted({r for c in clouds for r in places[c].regions.values()}),
            )
        else:
            what, known = (
                glob.zone,
                sorted(
                    {
                        zone
                        for c in clouds
                        for pairs in places[c].zones.values()
                        for _, zone in pairs
                    }
                ),
            )
        near = nearest_names(what.strip("*?"), known)
        where = clouds[0] if len(clouds) == 1 else "any cloud"
        ages = [self._catalog.info(c) for c in clouds]
        dates = sorted(
            {ages[0].oldest, *(about.oldest for about in ages), *(about.newest for about in ages)}
            - {""}
        )
        age = (
            f" (prices of {dates[0]} to {dates[-1]})"
            if len(dates) > 1
            else f" (prices of {dates[0]})"
            if dates
            else ""
        )
        listed = (
            f"places: {', '.join(known)}"
            if len(known) <= MOST_LISTED
            else "%prices lists the places"
        )
        return unresolved(
            request,
            "plan.unknown-place",
            f"no place of {where} is called {what!r}{age}",
            near,
            listed,
        )

    def place(self, request: Request, cloud: str) -> tuple[str, str, str, list[str]]:
        """Cloud, region and zone.

        If no cloud is named, it is the only usable one that has the place.
        """
        if not request.region and not request.zone:
            return cloud, "", "", []
        if cloud:
            if cloud not in self._table.places:
                return cloud, request.region, request.zone, []
            found = self._in_cloud(cloud, request)
            if found is None:
                raise self._unknown_place(request, (cloud,))
            return cloud, *found, []
        here = {
            c: p
            for c in sorted(self._usable)
            if c in self._table.places and (p := self._in_cloud(c, request))
        }
        if len(here) == 1:
            [(only, (region, zone))] = here.items()
            return (
                only,
                region,
                zone,
                [f"{zone or region} is a place of {only}: no other enabled cloud has it"],
            )
        for other in self._table.places:
            found = self._in_cloud(other, request)
            if found is not None:
                return other, *found, []
        raise self._unknown_place(request, sorted(self._usable))

    def _in_cloud(self, cloud: str, request: Request) -> tuple[str, str] | None:
        place = self._table.places[cloud]
        region = place.regions.get(request.region.casefold(), "") if request.region else ""
        if request.region and not region:
            return None
        if not request.zone:
            return region, ""
        for its_region, zone in place.zones.get(request.zone.casefold(), ()):
            if not region or its_region == region:
                return its_region, zone
        return None

    def _unknown_place(self, request: Request, clouds: Iterable[str]) -> UnresolvedName:
        clouds = tuple(c for c in clouds if c in self._table.places)
        lacking = f"{clouds[0]} has no" if len(clouds) == 1 else "no enabled cloud has a"
        if request.zone and len(clouds) == 1:
            place = self._table.places[clouds[0]]
            elsewhere = place.zones.get(request.zone.casefold(), ())
            if elsewhere and request.region.casefold() in place.regions:
                return unresolved(
                    request,
                    "plan.zone-of-other-region",
                    f"zone {request.zone!r} is in {elsewhere[0][0]}, not in {request.region}",
                    (),
                )
            if not request.region or request.region.casefold() in place.regions:
                near = nearest_names(
                    request.zone,
                    sorted({zone for pairs in place.zones.values() for _, zone in pairs}),
                )
                return unresolved(
                    request,
                    "plan.unknown-zone",
                    f"{clouds[0]} has no zone {request.zone!r}",
                    near,
                    "%prices lists the places",
                )
        regions = sorted({name for c in clouds for name in self._table.places[c].regions.values()})
        near = nearest_names(request.region or request.zone, regions)
        listed = (
            f"regions: {', '.join(regions)}"
            if 0 < len(regions) <= MOST_LISTED
            else "%prices lists the places"
        )
        return unresolved(
            request,
            "plan.unknown-region",
            f"{lacking} place {_written(request)!r}",
            near,
            listed,
        )


def _clouds_words(clouds: Iterable[str]) -> str:
    return f"clouds: {', '.join(sorted(clouds))}"


def _written(request: Request) -> str:
    return "/".join(part for part in (request.region, request.zone) if part)
