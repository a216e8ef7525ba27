"""The catalogue: offers of every cloud and the questions about them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.model.offers import Offer
from nbprov.model.paths import home

from . import names
from .errors import CatalogError, UnknownName
from .families import MEMORY_IS_TYPICAL
from .query import Query

if TYPE_CHECKING:
    from pandas import DataFrame

    from .rows import Rows, View
    from .store import Store

SHIPPED_IN_WHEEL = "_catalogs"
SHIPPED_IN_CHECKOUT = "catalogs"


@dataclass(frozen=True, slots=True)
class AcceleratorInfo:
    """What is known of one kind of accelerator.

    Attributes
    ----------
    memory_gib
        Memory of one device, as most clouds report it; None where none does.
    counts
        How many a machine are sold, ascending.
    clouds
        Who sells it, sorted.
    """

    name: str
    maker: str
    memory_gib: float | None
    counts: tuple[float, ...]
    clouds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CloudInfo:
    """What the catalogue holds of one cloud.

    Attributes
    ----------
    rows, gpu_rows
        One a type, place and market with a known price.
    sources
        (source, date, rows) of every source.
    oldest, newest
        Dates of the oldest and newest price, `YYYY-MM-DD`.
    left_out
        What was not taken over, by reason: how many lines or prices.
    """

    cloud: str
    rows: int
    gpu_rows: int
    regions: int
    zones: int
    sources: tuple[tuple[str, str, int], ...]
    oldest: str
    newest: str
    left_out: Mapping[str, int]


class _Source:
    """Folders and the store made of them when first asked; shared by all views of one catalogue."""

    def __init__(self, folders: Sequence[Path], cache: Path | None) -> None:
        self.folders = tuple(folders)
        self.cache = cache
        self._lock = threading.Lock()
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        if self._store is None:
            with self._lock:
                if self._store is None:
                    self._store = self._load()
        return self._store

    def _load(self) -> Store:
        from .build import cloud_files
        from .cache import load

        files = cloud_files(self.folders)
        if not files and self.folders:
            raise CatalogError(
                f"no price files in {', '.join(str(f) for f in self.folders)}",
                hint="a folder holds one folder a cloud, with vms.csv or with types.csv, prices.csv and sources.csv",
                code="catalog.empty",
            )
        return load(files, self.cache if self.cache is not None else home() / "cache")


class Catalog:
    """Offers and the questions about them. Nothing is read before the first question; safe to use from several threads.

    Examples
    --------
    >>> from nbprov.catalog import Query, default_catalog
    >>> rows = default_catalog().select(Query(accelerator="A100", count=8))
    >>> default_catalog().offer(rows[0]).gpus
    'A100:8'
    """

    def __init__(self, source: _Source, extra: Sequence[Offer] = ()) -> None:
        self._source = source
        self._extra = tuple(extra)
        self._made: View | None = None
        self._meta: dict[str, Any] | None = None
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls, folders: Iterable[str | Path] | str | Path | None = None, extra: Sequence[Offer] = (), *, cache: str | Path | None = None
    ) -> Catalog:
        """A catalogue over price folders.

        Parameters
        ----------
        folders
            Each holds one folder a cloud, in the project's own form or in the v8 CSV layout. Where two have the same cloud, the later
            one's is taken whole. None: the shipped prices, then those in `catalogs` of nbprov's home. An empty list: no files.
        extra
            Live offers beside the files', such as the `local` cloud's.
        cache
            Folder of the binary cache; None: `cache` in nbprov's home.

        Raises
        ------
        CatalogError
            At the first question, if the folders hold no price files or one that cannot be read.
        """
        if folders is None:
            chosen = [shipped_folder(), home() / SHIPPED_IN_CHECKOUT]
        else:
            chosen = [Path(f) for f in ([folders] if isinstance(folders, str | Path) else folders)]
        return cls(_Source(chosen, Path(cache) if cache is not None else None), extra)

    def with_offers(self, offers: Sequence[Offer]) -> Catalog:
        """The same prices with these live offers instead of the present ones. Nothing is read or copied."""
        return Catalog(self._source, offers)

    @property
    def _view(self) -> View:
        if self._made is None:
            from .block import LiveBlock
            from .rows import View

            with self._lock:
                if self._made is None:
                    store = self._source.store
                    self._made = View(store, LiveBlock(self._extra, store) if self._extra else None)
        return self._made

    @property
    def view(self) -> View:
        """The columns of any rows at all by row number, live offers behind the stored ones: for planning, which compares rows of several answers."""
        return self._view

    def select(self, query: Query) -> Rows:
        """The rows that answer, in the order of hourly price, cloud, region, zone, instance type."""
        return self._view.select(query)

    def offer(self, row: int) -> Offer:
        """One row as an offer."""
        return self._view.offer(row)

    def offers(self, query: Query, limit: int | None = None) -> list[Offer]:
        """What `select` finds, as offers, at most `limit` of them."""
        return self.select(query).offers(limit)

    def __len__(self) -> int:
        return int(self._source.store.rows) + len(set(self._extra))

    # Names and places: answered from the store's head, without numpy.

    def accelerators(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._heads())

    def resolve_accelerator(self, name: str) -> str:
        """The catalogue's name for what was written: the same but for case, else the only one that holds it.

        Raises
        ------
        UnknownName, AmbiguousName
            With the close names.
        """
        return names.resolve(name, self.accelerators())

    def close_accelerators(self, name: str, n: int = 5) -> list[str]:
        """The names most like this one, best first."""
        return names.close(name, self._heads(), n)

    def counts(self, name: str) -> tuple[float, ...]:
        """How many of an accelerator are sold in one machine, ascending; empty where it is unknown."""
        info = self._heads().get(name)
        return info.counts if info is not None else ()

    def accelerator_info(self, name: str) -> AcceleratorInfo:
        """What is known of an accelerator, by its exact name.

        Raises
        ------
        UnknownName
            With the close names.
        """
        info = self._heads().get(name)
        if info is None:
            raise UnknownName(name, self.close_accelerators(name))
        return info

    def _heads(self) -> dict[str, AcceleratorInfo]:
        stored = self._head()["accelerators"]
        infos = {
            name: AcceleratorInfo(name, about["maker"], about["memory"], tuple(about["counts"]), tuple(about["clouds"]))
            for name, about in stored.items()
        }
        for offer in self._extra:
            name = offer.accelerator
            if not name:
                continue
            known = infos.get(name, AcceleratorInfo(name, "", None, (), ()))
            infos[name] = AcceleratorInfo(
                name,
                known.maker,
                known.memory_gib if known.memory_gib is not None else offer.accelerator_memory_gib,
                tuple(sorted({*known.counts, offer.accelerator_count})),
                tuple(sorted({*known.clouds, offer.cloud})),
            )
        return infos

    def _head(self) -> dict[str, Any]:
        return self._source.store.meta

    def _places(self) -> dict[str, dict[str, list[str]]]:
        places: dict[str, dict[str, list[str]]] = self._head()["places"]
        if not self._extra:
            return places
        places = {cloud: {region: list(zones) for region, zones in regions.items()} for cloud, regions in places.items()}
        for offer in self._extra:
            zones = places.setdefault(offer.cloud, {}).setdefault(offer.region, [])
            if offer.zone and offer.zone not in zones:
                zones.append(offer.zone)
        return places

    def clouds(self) -> list[str]:
        """All clouds with offers, sorted."""
        return sorted(self._places())

    def regions(self, cloud: str) -> list[str]:
        """The regions of a cloud, sorted; empty where it is unknown."""
        return sorted(self._places().get(cloud, {}))

    def zones(self, cloud: str, region: str) -> list[str]:
        """The zones of a region, sorted; empty where the cloud names none."""
        return sorted(self._places().get(cloud, {}).get(region, ()))

    def clouds_of_region(self, region: str) -> list[str]:
        """The clouds that have a region of this name, whatever the case."""
        low = region.lower()
        return sorted(cloud for cloud, regions in self._places().items() if any(r.lower() == low for r in regions))

    def close_regions(self, name: str, cloud: str = "", n: int = 5) -> list[str]:
        """The regions most like this name, in one cloud or in all, best first."""
        places = self._places()
        return names.close(name, sorted({r for c, regions in places.items() if cloud in ("", c) for r in regions}), n)

    def close_zones(self, name: str, cloud: str = "", n: int = 5) -> list[str]:
        """The zones most like this name, in one cloud or in all, best first."""
        places = self._places()
        return names.close(name, sorted({z for c, rs in places.items() if cloud in ("", c) for zs in rs.values() for z in zs}), n)

    def has_instance_type(self, name: str, cloud: str = "") -> bool:
        """Whether this type is sold, by one cloud or by any."""
        return len(self.select(Query(instance_type=name, cloud=cloud))) > 0

    def info(self, cloud: str) -> CloudInfo:
        """What the catalogue holds of a cloud.

        Raises
        ------
        CatalogError
            If it holds nothing.
        """
        places = self._places()
        if cloud not in places:
            known = ", ".join(sorted(places))
            raise CatalogError(f"the catalogue has no prices of {cloud!r}", hint=f"it has those of {known}", code="catalog.no-cloud")
        stored = self._head()["clouds"].get(cloud, {"rows": 0, "gpu_rows": 0, "sources": [], "left_out": {}})
        live = [offer for offer in set(self._extra) if offer.cloud == cloud]
        sources = {(source, as_of): n for source, as_of, n in stored["sources"]}
        for offer in live:
            sources[offer.source, offer.as_of] = sources.get((offer.source, offer.as_of), 0) + 1
        dates = sorted(as_of for _, as_of in sources)
        return CloudInfo(
            cloud=cloud,
            rows=stored["rows"] + len(live),
            gpu_rows=stored["gpu_rows"] + sum(1 for offer in live if offer.accelerator),
            regions=len(places[cloud]),
            zones=sum(len(zones) for zones in places[cloud].values()),
            sources=tuple((source, as_of, n) for (source, as_of), n in sorted(sources.items())),
            oldest=dates[0],
            newest=dates[-1],
            left_out=dict(stored["left_out"]),
        )

    @staticmethod
    def memory_is_typical(offer: Offer) -> bool:
        """Whether the memory figure is only what such machines usually have, so that a demand on it counts as met but is to be checked."""
        return bool(offer.accelerator) and offer.cloud in MEMORY_IS_TYPICAL

    def to_frame(self, rows: Rows) -> DataFrame:
        """Rows as a pandas table, prices in dollars an hour."""
        from .frame import to_frame

        return to_frame(rows)


def shipped_folder() -> Path:
    """Where this installation keeps the prices that came with it: inside the package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / SHIPPED_IN_WHEEL
    return installed if installed.is_dir() else package.parent / SHIPPED_IN_CHECKOUT


_default: Catalog | None = None
_default_lock = threading.Lock()


def default_catalog() -> Catalog:
    """The shipped prices with the user's own beside them; one a process, read at the first question."""
    global _default
    with _default_lock:
        if _default is None:
            _default = Catalog.open()
        return _default
