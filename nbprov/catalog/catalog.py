"""The catalogue: the offers of every cloud, and methods that search them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbprov.model.offers import Offer
from nbprov.model.paths import HOME_VARIABLE

from .errors import UnknownName
from .query import Query
from .sources.price_files import Layout
from .store import summary as info
from .store.summary import AcceleratorInfo, CatalogProblem, CloudInfo
from .store.watched_folders import WatchedFolders
from .vocabulary import name_matching, query_syntax
from .vocabulary.geography import regions_meant

if TYPE_CHECKING:
    from pandas import DataFrame

    from .store.result import Rows, View

SHIPPED_IN_WHEEL = "_catalogs"
SHIPPED_IN_CHECKOUT = "catalogs"


class Catalog:
    """The offers of every cloud, and methods that search them.

    No file is read before the first question. The object can be used from several threads.

    One catalogue answers from one state of the files, so that row numbers keep their meaning;
    `current` returns a catalogue of the newest state.

    Examples
    --------
    >>> from nbprov.catalog import Query, default_catalog
    >>> rows = default_catalog().select(Query(accelerator="A100", count=8))
    >>> default_catalog().offer(rows[0]).gpus
    'A100:8'
    """

    def __init__(self, source: WatchedFolders, extra: Sequence[Offer] = ()) -> None:
        self._source = source
        self._extra = tuple(extra)
        self._made: View | None = None
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        folders: Iterable[str | Path] | str | Path | None = None,
        extra: Sequence[Offer] = (),
        *,
        cache: str | Path | None = None,
        overrides: str | Path | None = None,
    ) -> Catalog:
        """Open a catalogue over price folders.

        Parameters
        ----------
        folders
            Each holds one folder a cloud, in the project's own form or in the v8 CSV layout. If two
            have the same cloud, the later one is used whole. None: the shipped prices, replaced by
            those in `catalogs` of nbprov's home unless these are older. An empty list: no files.
        extra
            Live offers in addition to the files, such as those of the `local` cloud.
        cache
            Folder of the binary cache; None: `cache` in nbprov's home.
        overrides
            Folder with `<cloud>.csv` and `<cloud>/*.csv`, which change the rows. None: `overrides`
            in nbprov's home if no folders are given, else no folder. Files `<cloud>/*_custom.csv`
            in a price folder are always overrides.

        Raises
        ------
        CatalogError
            At the first question, if the folders hold no price files or none that can be read.
            If only some cannot be read, `problems` names them.
        """
        if folders is None:
            layout = Layout.usual(shipped_folder())
            if overrides is not None:
                layout = replace(layout, overrides=Path(overrides))
        else:
            layout = Layout.of([folders] if isinstance(folders, str | Path) else folders, overrides)
        return cls(WatchedFolders(layout, Path(cache) if cache is not None else None), extra)

    def current(self) -> Catalog:
        """Return this catalogue, or a new one if its files have changed.

        A new one has the same live offers. The check takes about 0.1 ms.
        """
        if not self._source.has_changed():
            return self
        source = self._source.reread()
        return self if source is self._source else Catalog(source, self._extra)

    def with_offers(self, offers: Sequence[Offer]) -> Catalog:
        """Return a catalogue of the same prices with these live offers instead of the present ones.

        Nothing is read or copied.
        """
        return Catalog(self._source, offers)

    @property
    def _view(self) -> View:
        if self._made is None:
            from .store.live_offers import LiveBlock
            from .store.result import View

            with self._lock:
                if self._made is None:
                    store = self._source.store
                    self._made = View(store, LiveBlock(self._extra, store) if self._extra else None)
        return self._made

    @property
    def view(self) -> View:
        """The columns of all rows by row number; live offers follow the stored rows.

        Planning uses it to compare the rows of several answers.
        """
        return self._view

    def select(self, query: Query) -> Rows:
        """Return the rows that match, by hourly price, cloud, region, zone and instance type."""
        return self._view.select(query)

    def offer(self, row: int) -> Offer:
        """Return one row as an offer."""
        return self._view.offer(row)

    def offers(self, query: Query, limit: int | None = None) -> list[Offer]:
        """Return the rows that match as offers, at most `limit` of them."""
        return self.select(query).offers(limit)

    def __len__(self) -> int:
        return int(self._source.store.rows) + len(set(self._extra))

    # Names and places are answered from the store's head, without numpy.

    def accelerators(self) -> list[str]:
        """Return the names of all accelerators, sorted."""
        return sorted(self._heads())

    def resolve_accelerator(self, name: str) -> str:
        """Return the catalogue's name for an accelerator that a person wrote.

        A name that differs only in case comes first, then the only name that contains what was
        written.

        Raises
        ------
        UnknownName, AmbiguousName
            With the close names.
        """
        return name_matching.resolve(name, self.accelerators())

    def query(self, text: str, *, fuzzy: bool = False, **fields: Any) -> Query:
        """Make a query from what people write, with further fields of `Query`.

        The text may be `A100`, `A100:4+`, `80GB+:8`, `nvidia:24GB`, `A100*` or `/A100.*/`.

        Parameters
        ----------
        fuzzy
            A fragment of several names means all of them, instead of being an error.

        Raises
        ------
        UnknownName, AmbiguousName, QueryError
            If no accelerator, or more than one, is meant, or the text is in no known form.

        Examples
        --------
        >>> default_catalog().query("a100 80gb:4+", region="eu").accelerator
        ('A100-80GB',)
        """
        asked = query_syntax.read(text)
        return Query(
            accelerator=query_syntax.resolved(asked, self.accelerators(), fuzzy=fuzzy),
            count=asked.count,
            count_at_least=asked.count_at_least,
            device_gib=asked.device_gib,
            device_at_least=asked.device_at_least,
            maker=asked.maker,
            **fields,
        )

    def close_accelerators(self, name: str, n: int = 5) -> list[str]:
        """Return the accelerator names that are most like this one, best first."""
        return name_matching.close(name, self._heads(), n)

    def counts(self, name: str) -> tuple[float, ...]:
        """Return how many of an accelerator one machine may have, ascending; empty if unknown."""
        info = self._heads().get(name)
        return info.counts if info is not None else ()

    def accelerator_info(self, name: str) -> AcceleratorInfo:
        """Return what the catalogue knows of an accelerator, by its exact name.

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
        return info.accelerators(self._head(), self._extra)

    def _head(self) -> dict[str, Any]:
        return self._source.store.meta

    def places(self) -> info.Places:
        """Return the zones of each region of each cloud."""
        return info.places(self._head(), self._extra)

    def place_words(self, text: str) -> frozenset[tuple[str, str]]:
        """Return the (cloud, region) pairs that a name, a pattern or a word for a place stands for.

        The text is a region's name, a pattern (`us-*`) or a word (`eu`, `de`, `germany`); the
        answer is empty if it stands for none. In a cloud that has a region of exactly this name, it
        means that region; in other clouds, a word stands for all regions that lie there.
        """
        return frozenset(regions_meant(self.places(), text))

    def clouds(self) -> list[str]:
        """Return all clouds with offers, sorted."""
        return sorted(self.places())

    def regions(self, cloud: str) -> list[str]:
        """Return the regions of a cloud, sorted; empty if the cloud is unknown."""
        return sorted(self.places().get(cloud, {}))

    def zones(self, cloud: str, region: str) -> list[str]:
        """Return the zones of a region, sorted; empty if the cloud names none."""
        return sorted(self.places().get(cloud, {}).get(region, ()))

    def has_instance_type(self, name: str, cloud: str = "") -> bool:
        """Tell whether one cloud, or any cloud, sells this instance type."""
        return len(self.select(Query(instance_type=name, cloud=cloud))) > 0

    def instance_types(self, clouds: Iterable[str] = ()) -> set[str]:
        """Return the names of all instance types of these clouds, or of all clouds."""
        chosen = tuple(clouds)
        rows = self.select(Query(cloud=chosen, unusual=True))
        return set(rows.column("instance_type").tolist())

    def info(self, cloud: str) -> CloudInfo:
        """Return what the catalogue holds of a cloud, from which files, and their faults.

        Raises
        ------
        CatalogError
            If the catalogue knows nothing of the cloud.
        """
        return info.cloud_info(self._head(), self._extra, cloud)

    def problems(self) -> tuple[CatalogProblem, ...]:
        """Return what is wrong with price and override files, sorted by cloud.

        The catalogue works without the lines and files that are named here.
        """
        return info.problems(self._head())

    def to_frame(self, rows: Rows) -> DataFrame:
        """Return rows as a pandas table, with prices in dollars an hour."""
        return rows.to_frame()


def shipped_folder() -> Path:
    """Return the folder of the prices that came with this installation.

    It lies inside the package, or beside it in a checkout.
    """
    package = Path(__file__).resolve().parent.parent
    installed = package / SHIPPED_IN_WHEEL
    return installed if installed.is_dir() else package.parent / SHIPPED_IN_CHECKOUT


_default: tuple[str | None, Catalog] | None = None
_default_lock = threading.Lock()


def default_catalog() -> Catalog:
    """Return the catalogue of the shipped prices with the user's own prices and overrides.

    It is read at the first question and answered from memory while no file has changed; the next
    call after a change on disk returns a new catalogue.
    """
    global _default
    # A kernel may change the variable after the first question and then means another home.
    told = os.environ.get(HOME_VARIABLE)
    with _default_lock:
        catalog = (
            _default[1].current()
            if _default is not None and _default[0] == told
            else Catalog.open()
        )
        _default = (told, catalog)
        return catalog
