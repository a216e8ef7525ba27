"""The names of a request as the catalogue has them: cloud, region, zone, type, accelerator."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

from nbprov.catalog.errors import AmbiguousName, UnknownName
from nbprov.catalog.query import Query
from nbprov.catalog.vocabulary.geography import place_word
from nbprov.catalog.vocabulary.instance_families import DEFAULT_FAMILIES
from nbprov.model.spec import Accelerator, PlaceGlob, PlaceRule, Request
from nbprov.planning.errors import PlanProblem
from nbprov.planning.filters.default_sizes import is_plain
from nbprov.planning.filters.place_patterns import has_place, matches, named_clouds

from .cloud_aliases import ALIASES, CLOUDS_ELSEWHERE

if TYPE_CHECKING:
    from nbprov.catalog import Catalog

    from .catalog_columns import Table

NEAR_NAMES = 3
MOST_LISTED = 16
"""So many places are listed where none is near; more are not read."""
TPU_CLOUD = "gcp"


class Refused(Exception):
    """A name cannot be resolved."""

    def __init__(self, problem: PlanProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Demand:
    """A request with its names resolved.

    Attributes
    ----------
    query
        Its hardware and market, without place and cap: requests that differ in nothing else are answered by one look-up.
    plain
        The default rules choose the machine; vCPUs and memory are then not in `query` but here.
    unknown
        The accelerator is in no catalogue: the nearest names, best first.
    notes
        What was read differently from how it was written.
    rules
        Patterns of places, all of which must hold.
    """

    request: Request
    query: Query
    cloud: str = ""
    region: str = ""
    zone: str = ""
    plain: bool = False
    unknown: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    rules: tuple[PlaceRule, ...] = ()

    @property
    def is_placed(self) -> bool:
        """Whether it says anything of the place."""
        return bool(self.cloud or self.region or self.zone or self.rules)

    @property
    def named(self) -> frozenset[str]:
        """The clouds it names."""
        return named_clouds(self.rules) | {self.cloud} if self.cloud else named_clouds(self.rules)


class Resolver:
    """Resolves the requests of one spec.

    Parameters
    ----------
    usable
        Enabled clouds that a request without a cloud may be placed in.
    known
        Further clouds that exist: enabled or known to be disabled.
    """

    def __init__(
        self, catalog: Catalog, table: Table, usable: Collection[str], known: Collection[str]
    ) -> None:
        self._catalog = catalog
        self._table = table
        self._usable = usable
        self._known = {*known, *table.places, *CLOUDS_ELSEWHERE}
        self._accelerators: dict[tuple[str, str], tuple[str, tuple[str, ...] | None]] = {}
        self._good_globs: set[tuple[PlaceGlob, tuple[str, ...]]] = set()

    def resolve(self, request: Request, beside: Sequence[str] = ()) -> Demand:
        """The request with its names as the catalogue has them.

        Parameters
        ----------
        beside
            The clouds that the request was written for, as in `cloud: [aws, gcp]`: a pattern need match a place of one of them only.

        Raises
        ------
        Refused
            A name that does not exist, or that means more than one thing.
        """
        cloud = self._cloud(request)
        area = self._area(request, cloud)
        cloud, region, zone, notes = self._place(
            replace(request, region="") if area else request, cloud
        )
        rules = (*area, *self._rules(request, cloud, beside))
        cloud = self._tpu_cloud(request, cloud)
        accelerator, unknown = self._accelerator(request, cloud, notes)
        kind = ""
        if request.instance_type:
            cloud, kind = self._type(request, cloud, accelerator)
        plain = is_plain(request)
        query = Query(
            accelerator=accelerator,
            count=request.accelerator.count if request.accelerator else None,
            cpus=None if plain else request.cpus,
            memory=None if plain else request.memory,
            instance_type=kind,
            market=request.market,
            families=DEFAULT_FAMILIES if plain else (),
            **_device(request.accelerator),
        )
        return Demand(request, query, cloud, region, zone, plain, unknown, tuple(notes), rules)

    def _cloud(self, request: Request) -> str:
        name = request.cloud.casefold()
        name = ALIASES.get(name, name)
        if name and name not in self._known:
            near = _near(name, sorted(self._known))
            raise _refused(
                request,
                "plan.unknown-cloud",
                f"no cloud is called {request.cloud!r}",
                near,
                _clouds_words(self._table.places),
            )
        return name

    def _area(self, request: Request, cloud: str) -> tuple[PlaceRule, ...]:
        """A country or part of the world where a region stands, as the rule that it is; a cloud that has a region of this name is meant by it."""
        if not request.region or place_word(request.region) is None:
            return ()
        clouds = (cloud,) if cloud else [c for c in self._usable if c in self._table.places]
        if any(
            c not in self._table.places
            or request.region.casefold() in self._table.places[c].regions
            for c in clouds
        ):
            return ()
        return (PlaceRule((PlaceGlob(region=request.region),)),)

    def _rules(self, request: Request, cloud: str, beside: Sequence[str]) -> tuple[PlaceRule, ...]:
        """The request's place rules; refused where a pattern matches no place of any cloud that it may be of."""
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
            near = _near(glob.cloud.strip("*?"), sorted(self._known))
            raise _refused(
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

    def _matches_nothing(self, request: Request, glob: PlaceGlob, clouds: Sequence[str]) -> Refused:
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
        near = _near(what.strip("*?"), known)
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
        return _refused(
            request,
            "plan.unknown-place",
            f"no place of {where} is called {what!r}{age}",
            near,
            listed,
        )

    def _tpu_cloud(self, request: Request, cloud: str) -> str:
        """TPUs are sold by GCP alone, and not as an instance type."""
        if request.accelerator is None or not request.accelerator.name.casefold().startswith("tpu"):
            return cloud
        name = request.accelerator.name
        if cloud not in ("", TPU_CLOUD, "kubernetes"):
            raise _refused(
                request,
                "plan.tpu",
                f"{name} is sold by {TPU_CLOUD}, not by {cloud}",
                (),
                f"write infra: {TPU_CLOUD}",
            )
        if request.instance_type:
            raise _refused(
                request,
                "plan.tpu",
                f"{name} is no part of an instance type such as {request.instance_type}",
                (),
                "leave it out",
            )
        return cloud or TPU_CLOUD

    def _place(self, request: Request, cloud: str) -> tuple[str, str, str, list[str]]:
        """Cloud, region and zone; where no cloud is named, the only usable one that has the place."""
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
        if here:
            raise _refused(
                request,
                "plan.ambiguous-place",
                f"{_written(request)} is a place of several clouds: {', '.join(here)}",
                (),
                f"name the cloud, for example infra: {next(iter(here))}/{request.region or '*/' + request.zone}",
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

    def _unknown_place(self, request: Request, clouds: Iterable[str]) -> Refused:
        clouds = tuple(c for c in clouds if c in self._table.places)
        where = clouds[0] if len(clouds) == 1 else "any enabled cloud"
        if request.zone and len(clouds) == 1:
            place = self._table.places[clouds[0]]
            elsewhere = place.zones.get(request.zone.casefold(), ())
            if elsewhere and request.region.casefold() in place.regions:
                return _refused(
                    request,
                    "plan.zone-of-other-region",
                    f"zone {request.zone!r} is in {elsewhere[0][0]}, not in {request.region}",
                    (),
                )
            if not request.region or request.region.casefold() in place.regions:
                near = _near(
                    request.zone,
                    sorted({zone for pairs in place.zones.values() for _, zone in pairs}),
                )
                return _refused(
                    request,
                    "plan.unknown-zone",
                    f"{clouds[0]} has no zone {request.zone!r}",
                    near,
                    "%prices lists the places",
                )
        regions = sorted({name for c in clouds for name in self._table.places[c].regions.values()})
        near = _near(request.region or request.zone, regions)
        listed = (
            f"regions: {', '.join(regions)}"
            if len(regions) <= MOST_LISTED
            else "%prices lists the places"
        )
        return _refused(
            request,
            "plan.unknown-region",
            f"{where} has no place {_written(request)!r}",
            near,
            listed,
        )

    def _accelerator(
        self, request: Request, cloud: str, notes: list[str]
    ) -> tuple[str, tuple[str, ...] | None]:
        asked = request.accelerator
        if asked is None or asked.memory_gib is not None:
            return "", None
        if self._table.code("accelerator", asked.name) >= 0:
            return asked.name, None
        known = self._accelerators.get((asked.name, cloud))
        if known is None:
            try:
                known = self._catalog.resolve_accelerator(asked.name), None
            except AmbiguousName as error:
                sold = self._sold_by(cloud, asked.name) if cloud else []
                if len(sold) != 1:
                    raise Refused(
                        PlanProblem(
                            "plan.ambiguous-accelerator",
                            request.origin,
                            error.message,
                            error.hint,
                            error.close,
                        )
                    ) from None
                known = sold[0], None
            except UnknownName as error:
                known = asked.name, error.close
            self._accelerators[asked.name, cloud] = known
        name, unknown = known
        if name.casefold() != asked.name.casefold():
            notes.append(f"{asked.name} was read as {name}")
        return name, unknown

    def _sold_by(self, cloud: str, fragment: str) -> list[str]:
        """The accelerators of a cloud whose names hold a fragment."""
        names = self._table.distinct(
            "accelerator", self._table.select(Query(cloud=cloud, has_accelerator=True))
        )
        return [name for name in names if fragment.casefold() in name.casefold()]

    def _type(self, request: Request, cloud: str, accelerator: str) -> tuple[str, str]:
        """The cloud of a type and its name as the cloud writes it; refused if unknown, sold by several clouds, or at odds with what stands beside it."""
        sellers = self._table.sellers(request.instance_type, accelerator)
        if not sellers or (cloud and cloud in self._table.places and cloud not in sellers):
            near = _near(
                request.instance_type, self._table.types_of((cloud,) if cloud else self._usable)
            )
            where = cloud or "the catalogue"
            raise _refused(
                request,
                "plan.unknown-type",
                f"{where} has no instance type {request.instance_type!r}",
                near,
                "%prices lists the types",
            )
        if not cloud:
            usable = sorted(set(sellers) & set(self._usable))
            if len(usable) > 1:
                raise _refused(
                    request,
                    "plan.ambiguous-type",
                    f"{request.instance_type} is sold by several clouds: {', '.join(usable)}",
                    (),
                    f"name the cloud, for example infra: {usable[0]}",
                )
            cloud = usable[0] if usable else next(iter(sorted(sellers)))
        if cloud in self._table.places:
            self._check_agrees(request, cloud, accelerator)
        return cloud, request.instance_type

    def _check_agrees(self, request: Request, cloud: str, accelerator: str) -> None:
        if request.accelerator is None and request.cpus is None and request.memory is None:
            return
        whole = Query(
            cloud=cloud,
            instance_type=request.instance_type,
            accelerator=accelerator,
            count=request.accelerator.count if request.accelerator else None,
            cpus=request.cpus,
            memory=request.memory,
            **_device(request.accelerator),
        )
        if len(self._table.select(whole)):
            return
        asked = [str(request.accelerator)] if request.accelerator else []
        asked += [f"{request.cpus} vCPUs"] if request.cpus else []
        asked += [f"{request.memory} GiB"] if request.memory else []
        has = self._table.words_of_type(cloud, request.instance_type, accelerator)
        raise _refused(
            request,
            "plan.type-disagrees",
            f"{request.instance_type} has {has}; asked beside it: {', '.join(asked)}",
            (),
            "give only instance_type, or leave it out",
        )


class _Device(TypedDict, total=False):
    device_gib: float
    device_at_least: bool
    maker: str


def _device(asked: Accelerator | None) -> _Device:
    if asked is None or asked.memory_gib is None:
        return {}
    return {
        "device_gib": asked.memory_gib,
        "device_at_least": asked.memory_at_least,
        "maker": asked.maker,
    }


def _near(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """The names spelled most like `name`, best first."""
    low = name.casefold()
    folded = {text.casefold(): text for text in sorted(known, reverse=True)}
    alike = difflib.get_close_matches(low, folded, 3 * NEAR_NAMES)
    alike.sort(key=lambda text: (-difflib.SequenceMatcher(None, text, low).ratio(), text))
    return tuple(folded[text] for text in alike[:NEAR_NAMES])


def _clouds_words(clouds: Iterable[str]) -> str:
    return f"clouds: {', '.join(sorted(clouds))}"


def _written(request: Request) -> str:
    return "/".join(part for part in (request.region, request.zone) if part)


def _refused(
    request: Request, code: str, message: str, near: tuple[str, ...], otherwise: str = ""
) -> Refused:
    hint = f"did you mean {' or '.join(near)}?" if near else otherwise
    return Refused(PlanProblem(code, request.origin, message, hint, near))
