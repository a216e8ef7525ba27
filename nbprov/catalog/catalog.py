"""The catalogue: offers of every cloud and the questions about them."""

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
from .sources.locations import Layout
from .store import summary as info
from .store.summary import AcceleratorInfo, CloudInfo, Problem
from .store.watched_folders import WatchedFolders
from .vocabulary import name_matching, query_syntax
from .vocabulary.geography import regions_meant

if TYPE_CHECKING:
    from pandas import DataFrame

    from .store.result import Rows, View

SHIPPED_IN_WHEEL = "_catalogs"
SHIPPED_IN_CHECKOUT = "catalogs"


class Catalog:
    """Offers and the questions about them.

    Nothing is read before the first question; safe to use from several threads.

    One object answers from one state of the files, so that row numbers keep their meaning;
    `current` gives the newest state.

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
        """A catalogue over price folders.

        Parameters
        ----------
        folders
            Each holds one folder a cloud, in the project's own form or in the v8 CSV layout. Where
            two have the same cloud, the later one's is taken whole. None: the shipped prices, and
            where they are not older those in `catalogs` of nbprov's home. An empty list: no files.
        extra
            Live offers beside the files', such as the `local` cloud's.
        cache
            Folder of the binary cache; None: `cache` in nbprov's home.
        overrides
            Folder with `<cloud>.csv` and `<cloud>/*.csv`, laid over the rows. None: where no
            folders are given, `overrides` in nbprov's home. Files `<cloud>/*_custom.csv` in a price
            folder are overrides wherever they are.

        Raises
        ------
        CatalogError
            At the first question, if the folders hold no price files or none that can be read.
            Where only some cannot, `problems` tells.
        """
        if folders is None:
            layout = Layout.usual(shipped_folder())
            if overrides is not None:
                layout = replace(layout, overrides=Path(overrides))
        else:
            layout = Layout.of([folders] if isinstance(folders, str | Path) else folders, overrides)
        return cls(WatchedFolders(layout, Path(cache) if cache is not None else None), extra)

    def current(self) -> Catalog:
        """This catalogue if no file of it has changed, else a new one of the files as they are now,
        with the same live offers.

        Looking costs about 0.1 ms.
        """
        if not self._source.has_changed():
            return self
        source = self._source.reread()
        return self if source is self._source else Catalog(source, self._extra)

    def with_offers(self, offers: Sequence[Offer]) -> Catalog:
        """The same prices with these live offers instead of the present ones.

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
        """The columns of any rows at all by row number, live offers behind the stored ones.

        For planning, which compares rows of several answers.
        """
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
        """The catalogue's name for what was written: the same but for case, else the only one that
        holds it.

        Raises
        ------
        UnknownName, AmbiguousName
            With the close names.
        """
        return name_matching.resolve(name, self.accelerators())

    def query(self, text: str, *, fuzzy: bool = False, **fields: Any) -> Query:
        """A question from what people write: `A100`, `A100:4+`, `80GB+:8`, `nvidia:24GB`, `A100*`,
        `/A100.*/`, with further fields of `Query`.

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
        """The names most like this one, best first."""
        return name_matching.close(name, self._heads(), n)

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
        return info.accelerators(self._head(), self._extra)

    def _head(self) -> dict[str, Any]:
        return self._source.store.meta

    def places(self) -> info.Places:
        """Zones by region by cloud."""
        return info.places(self._head(), self._extra)

    def place_words(self, text: str) -> frozenset[tuple[str, str]]:
        """The (cloud, region) pairs that a region's name, a pattern (`us-*`) or a word (`eu`, `de`,
        `germany`) means; empty where it means none.

        A region of literally this name is what is meant in its cloud; elsewhere the word stands for
        all regions that lie there."""
        return frozenset(regions_meant(self.places(), text))

    def clouds(self) -> list[str]:
        """All clouds with offers, sorted."""
        return sorted(self.places())

    def regions(self, cloud: str) -> list[str]:
        """The regions of a cloud, sorted; empty where it is unknown."""
        return sorted(self.places().get(cloud, {}))

    def zones(self, cloud: str, region: str) -> list[str]:
        """The zones of a region, sorted; empty where the cloud names none."""
        return sorted(self.places().get(cloud, {}).get(region, ()))

    def has_instance_type(self, name: str, cloud: str = "") -> bool:
        """Whether this type is sold, by one cloud or by any."""
        return len(self.select(Query(instance_type=name, cloud=cloud))) > 0

    def instance_types(self, clouds: Iterable[str] = ()) -> set[str]:
        """The names of all machines, of these clouds or of all."""
        chosen = tuple(clouds)
        rows = self.select(Query(cloud=chosen, unusual=True))
        return set(rows.column("instance_type").tolist())

    def info(self, cloud: str) -> CloudInfo:
        """What the catalogue holds of a cloud, from which files, and what is wrong with them.

        Raises
        ------
        CatalogError
            If it knows nothing of it.
        """
        return info.cloud_info(self._head(), self._extra, cloud)

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with price and override files, clouds by name.

        The catalogue does without what they name.
        """
        return info.problems(self._head())

    def to_frame(self, rows: Rows) -> DataFrame:
        """Rows as a pandas table, prices in dollars an hour."""
        return rows.to_frame()


def shipped_folder() -> Path:
    """Where this installation keeps the prices that came with it.

    Inside the package, or beside it in a checkout.
    """
    package = Path(__file__).resolve().parent.parent
    installed = package / SHIPPED_IN_WHEEL
    return installed if installed.is_dir() else package.parent / SHIPPED_IN_CHECKOUT


_default: tuple[str | None, Catalog] | None = None
_default_lock = threading.Lock()


def default_catalog() -> Catalog:
    """The shipped prices with the user's own and his overrides.

    Answered from memory while no file has changed; a change on disk is picked up by the next call.
    Read at the first question."""
    global _default
    told = os.environ.get(
        HOME_VARIABLE
    )  # a kernel may change it after the first question, and then means another home
    with _default_lock:
        catalog = (
            _default[1].current()
            if _default is not None and _default[0] == told
            else Catalog.open()
        )
        _default = (told, catalog)
        return catalog
