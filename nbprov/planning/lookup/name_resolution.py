"""Resolve the names of a request: cloud, region, zone, type and accelerator."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

from nbprov.catalog.errors import AmbiguousName, UnknownName
from nbprov.catalog.query import Query
from nbprov.catalog.vocabulary.instance_families import DEFAULT_FAMILIES
from nbprov.model.resources import Accelerator, Request
from nbprov.planning.errors import PlanProblem
from nbprov.planning.filters.default_sizes import is_plain

from .place_resolution import PlaceResolver
from .resolved_request import ResolvedRequest, UnresolvedName, nearest_names, unresolved

if TYPE_CHECKING:
    from nbprov.catalog import Catalog

    from .catalog_columns import CatalogColumns

TPU_CLOUD = "gcp"


class NameResolver:
    """Resolves the requests of one spec.

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
        self._places = PlaceResolver(catalog, table, usable, known)
        self._accelerators: dict[tuple[str, str], tuple[str, tuple[str, ...] | None]] = {}

    def resolve(self, request: Request, beside: Sequence[str] = ()) -> ResolvedRequest:
        """The request with the names that the catalogue uses.

        Parameters
        ----------
        beside
            The clouds that the request was written for, as in `cloud: [aws, gcp]`: a pattern must
            match a place of one of them.

        Raises
        ------
        UnresolvedName
            If a name does not exist, or means more than one thing.
        """
        cloud = self._places.cloud(request)
        placed, zone_notes = self._places.with_zone_id(request, cloud)
        area, zones = self._places.area(placed, cloud), self._places.zone_area(placed, cloud)
        if area:
            placed = replace(placed, region="")
        if zones:
            placed = replace(placed, zone="")
        cloud, region, zone, notes = self._places.place(placed, cloud)
        notes = [*zone_notes, *notes]
        rules = (*area, *zones, *self._places.rules(request, cloud, beside))
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
        return ResolvedRequest(
            request, query, cloud, region, zone, plain, unknown, tuple(notes), rules
        )

    def _tpu_cloud(self, request: Request, cloud: str) -> str:
        """The cloud of a TPU: only GCP sells them, and not as an instance type."""
        if request.accelerator is None or not request.accelerator.name.casefold().startswith("tpu"):
            return cloud
        name = request.accelerator.name
        if cloud not in ("", TPU_CLOUD, "kubernetes"):
            raise unresolved(
                request,
                "plan.tpu",
                f"{name} is sold by {TPU_CLOUD}, not by {cloud}",
                (),
                f"write infra: {TPU_CLOUD}",
            )
        if request.instance_type:
            raise unresolved(
                request,
                "plan.tpu",
                f"{name} is no part of an instance type such as {request.instance_type}",
                (),
                "leave it out",
            )
        return cloud or TPU_CLOUD

    def _accelerator(
        self, request: Request, cloud: str, notes: list[str]
    ) -> tuple[str, tuple[str, ...] | None]:
        asked = request.accelerator
        if asked is None or asked.memory_gib is not None:
            return "", None
        if self._table.code("accelerator", asked.name) >= 0 or self._is_unpriced(cloud):
            return asked.name, None
        known = self._accelerators.get((asked.name, cloud))
        if known is None:
            try:
                known = self._catalog.resolve_accelerator(asked.name), None
            except AmbiguousName as error:
                sold = self._sold_by(cloud, asked.name) if cloud else []
                if len(sold) != 1:
                    raise UnresolvedName(
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
        """The accelerators of a cloud whose names contain a fragment."""
        names = self._table.distinct(
            "accelerator", self._table.select(Query(cloud=cloud, has_accelerator=True))
        )
        return [name for name in names if fragment.casefold() in name.casefold()]

    def _type(self, request: Request, cloud: str, accelerator: str) -> tuple[str, str]:
        """The cloud of a type, and the cloud's name of the type.

        It is refused if it is unknown, if several clouds sell it, or if it contradicts what is
        asked beside it. Of a cloud whose types are not known it is taken as it is written.
        """
        if self._is_unpriced(cloud):
            return cloud, request.instance_type
        sellers = self._table.sellers(request.instance_type, accelerator)
        if not sellers or (cloud and cloud not in sellers):
            near = nearest_names(
                request.instance_type, self._table.types_of((cloud,) if cloud else self._usable)
            )
            where = cloud or "the catalogue"
            raise unresolved(
                request,
                "plan.unknown-type",
                f"{where} has no instance type {request.instance_type!r}",
                near,
                "%prices lists the types",
            )
        if not cloud:
            usable = sorted(set(sellers) & set(self._usable))
            if len(usable) > 1:
                raise unresolved(
                    request,
                    "plan.ambiguous-type",
                    f"{request.instance_type} is sold by several clouds: {', '.join(usable)}",
                    (),
                    f"name the cloud, for example infra: {usable[0]}",
                )
            cloud = usable[0] if usable else next(iter(sorted(sellers)))
        self._check_agrees(request, cloud, accelerator)
        return cloud, request.instance_type

    def _is_unpriced(self, cloud: str) -> bool:
        """Whether a cloud is named of which no prices are known: then its names are not either."""
        return bool(cloud) and cloud not in self._table.places

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
        raise unresolved(
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
