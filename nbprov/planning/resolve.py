"""The names of a request as the catalogue has them: cloud, region, zone, type, accelerator."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from nbprov.catalog.errors import AmbiguousName, UnknownName
from nbprov.catalog.families import DEFAULT_FAMILIES
from nbprov.catalog.query import Query
from nbprov.model.spec import Accelerator, Request

from .errors import PlanProblem
from .sizes import is_plain

if TYPE_CHECKING:
    from nbprov.catalog import Catalog

    from .table import Table

ALIASES: Mapping[str, str] = {"k8s": "kubernetes"}

CLOUDS_ELSEWHERE = frozenset(
    {
        "aws",
        "azure",
        "cudo",
        "do",
        "fluidstack",
        "gcp",
        "hyperbolic",
        "hyperstack",
        "ibm",
        "kubernetes",
        "lambda",
        "local",
        "mithril",
        "nebius",
        "oci",
        "paperspace",
        "primeintellect",
        "runpod",
        "scp",
        "seeweb",
        "shadeform",
        "slurm",
        "ssh",
        "vast",
        "verda",
        "vsphere",
        "yotta",
    }
)
"""Names that specs use for clouds. One without prices or adapter is passed over with a line; any other name is taken for a slip of the pen."""


NEAR_NAMES = 3


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
    """

    request: Request
    query: Query
    cloud: str = ""
    region: str = ""
    zone: str = ""
    plain: bool = False
    unknown: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()


class Resolver:
    """Resolves the requests of one spec.

    Parameters
    ----------
    usable
        Enabled clouds that a request without a cloud may be placed in.
    known
        Further clouds that exist: enabled or known to be disabled.
    """

    def __init__(self, catalog: Catalog, table: Table, usable: Collection[str], known: Collection[str]) -> None:
        self._catalog = catalog
        self._table = table
        self._usable = usable
        self._known = {*known, *table.places, *CLOUDS_ELSEWHERE}
        self._accelerators: dict[str, tuple[str, tuple[str, ...] | None]] = {}

    def resolve(self, request: Request) -> Demand:
        """The request with its names as the catalogue has them.

        Raises
        ------
        Refused
            A name that does not exist, or that means more than one thing.
        """
        cloud = self._cloud(request)
        cloud, region, zone, notes = self._place(request, cloud)
        accelerator, unknown = self._accelerator(request, notes)
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
        return Demand(request, query, cloud, region, zone, plain, unknown, tuple(notes))

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
                f"clouds: {', '.join(sorted(self._table.places))}",
            )
        return name

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
        here = {c: p for c in sorted(self._usable) if c in self._table.places and (p := self._in_cloud(c, request))}
        if len(here) == 1:
            [(only, (region, zone))] = here.items()
            return only, region, zone, [f"{zone or region} is a place of {only}: no other enabled cloud has it"]
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
                    request, "plan.zone-of-other-region", f"zone {request.zone!r} is in {elsewhere[0][0]}, not in {request.region}", ()
                )
            if not request.region or request.region.casefold() in place.regions:
                near = _near(request.zone, sorted({zone for pairs in place.zones.values() for _, zone in pairs}))
                return _refused(request, "plan.unknown-zone", f"{clouds[0]} has no zone {request.zone!r}", near, "%prices lists the places")
        regions = sorted({name for c in clouds for name in self._table.places[c].regions.values()})
        near = _near(request.region or request.zone, regions)
        listed = f"regions: {', '.join(regions)}" if len(regions) <= 16 else "%prices lists the places"
        return _refused(request, "plan.unknown-region", f"{where} has no place {_written(request)!r}", near, listed)

    def _accelerator(self, request: Request, notes: list[str]) -> tuple[str, tuple[str, ...] | None]:
        asked = request.accelerator
        if asked is None or asked.memory_gib is not None:
            return "", None
        known = self._accelerators.get(asked.name)
        if known is None:
            try:
                known = self._catalog.resolve_accelerator(asked.name), None
            except AmbiguousName as error:
                raise Refused(PlanProblem("plan.ambiguous-accelerator", request.origin, error.message, error.hint, error.close)) from None
            except UnknownName as error:
                known = asked.name, error.close
            self._accelerators[asked.name] = known
        name, unknown = known
        if name.casefold() != asked.name.casefold():
            notes.append(f"{asked.name} was read as {name}")
        return name, unknown

    def _type(self, request: Request, cloud: str, accelerator: str) -> tuple[str, str]:
        """The cloud of a type and its name as the cloud writes it; refused if unknown, sold by several clouds, or at odds with what stands beside it."""
        sellers = self._table.sellers(request.instance_type, accelerator)
        if not sellers or (cloud and cloud in self._table.places and cloud not in sellers):
            near = _near(request.instance_type, self._table.types_of((cloud,) if cloud else self._usable))
            where = cloud or "the catalogue"
            raise _refused(
                request, "plan.unknown-type", f"{where} has no instance type {request.instance_type!r}", near, "%prices lists the types"
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
    return {"device_gib": asked.memory_gib, "device_at_least": asked.memory_at_least, "maker": asked.maker}


def _near(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """The names spelled most like `name`, best first."""
    low = name.casefold()
    folded = {text.casefold(): text for text in sorted(known, reverse=True)}
    alike = difflib.get_close_matches(low, folded, 3 * NEAR_NAMES)
    alike.sort(key=lambda text: (-difflib.SequenceMatcher(None, text, low).ratio(), text))
    return tuple(folded[text] for text in alike[:NEAR_NAMES])


def _written(request: Request) -> str:
    return "/".join(part for part in (request.region, request.zone) if part)


def _refused(request: Request, code: str, message: str, near: tuple[str, ...], otherwise: str = "") -> Refused:
    hint = f"did you mean {' or '.join(near)}?" if near else otherwise
    return Refused(PlanProblem(code, request.origin, message, hint, near))
