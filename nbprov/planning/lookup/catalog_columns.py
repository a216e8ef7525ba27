"""The catalogue as columns: values of chosen rows, codes of names, and places by name."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from nbprov.catalog.query import Query
from nbprov.model.offers import Offer

if TYPE_CHECKING:
    from nbprov.catalog import Catalog
    from nbprov.catalog.store.columns import ColumnStore
    from nbprov.catalog.store.result import View

Ints = NDArray[Any]
"""Row numbers or codes."""
Bools = NDArray[np.bool_]


@dataclass(slots=True)
class CloudPlaces:
    """The places of one cloud by case-folded name.

    Attributes
    ----------
    zones
        (region, zone) by zone name; some catalogues use one name in several regions.
    """

    regions: dict[str, str] = field(default_factory=dict)
    zones: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)

    def add(self, region: str, zone: str) -> None:
        """Add a place; an empty zone is the whole region."""
        self.regions.setdefault(region.casefold(), region)
        if zone:
            known = self.zones.get(zone.casefold(), ())
            if (region, zone) not in known:
                self.zones[zone.casefold()] = (*known, (region, zone))


SPARSE = 50
"""A share of all rows: fewer rows are sorted, more are marked in place at a fixed cost."""

_ranks: WeakKeyDictionary[ColumnStore, tuple[Ints, Ints]] = WeakKeyDictionary()
_places: WeakKeyDictionary[ColumnStore, Mapping[str, CloudPlaces]] = WeakKeyDictionary()
_moved: WeakKeyDictionary[ColumnStore, bool] = WeakKeyDictionary()


def _places_of(store: ColumnStore) -> Mapping[str, CloudPlaces]:
    """The places of the stored prices, made once for each store."""
    made = _places.get(store)
    if made is None:
        made = {}
        for cloud, regions in store.meta["places"].items():
            places = made[cloud] = CloudPlaces()
            for region, zones in regions.items():
                places.add(region, "")
                for zone in zones:
                    places.add(region, zone)
        _places[store] = made
    return made


def _ranks_of(store: ColumnStore) -> tuple[Ints, Ints]:
    """Rank by stored row, and row by rank, made once for each store."""
    made = _ranks.get(store)
    if made is None:
        rows = np.arange(store.rows, dtype=np.int32)  # sorted by price and names already
        by_rank = rows[np.lexsort((~store.array("is_us").astype(bool), store.array("hourly")))]
        rank = np.empty(store.rows, dtype=np.int32)
        rank[by_rank] = rows
        made = _ranks[store] = rank, by_rank
    return made


def _has_moved_prices(store: ColumnStore) -> bool:
    """Whether any stored price moved by more than half, looked up once for each store."""
    known = _moved.get(store)
    if known is None:
        known = _moved[store] = bool(store.array("moved_from").any())
    return known


def present(codes: Ints) -> list[int]:
    """The codes that occur, ascending.

    They are counted, because there are few; `np.unique` would also import `numpy.ma` (6 ms).

    Examples
    --------
    >>> present(np.array([3, 0, 3]))
    [0, 3]
    """
    found: list[int] = np.flatnonzero(np.bincount(codes)).tolist()
    return found


class CatalogColumns:
    """One catalogue, live offers included; row numbers are the catalogue's own.

    Attributes
    ----------
    size
        Number of rows.
    places
        Places by cloud.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        # The view has the columns of all rows; `select` gives only those of its answer.
        self._view: View = catalog._view
        self.size = self._view.rows
        self.places = self._with_live_places()
        self._live_rank: Ints | None = None

    def _with_live_places(self) -> Mapping[str, CloudPlaces]:
        stored = _places_of(self._view.store)
        live = self._view.live
        if live is None:
            return stored
        places = dict(stored)
        fresh: set[str] = set()
        for row in range(self._view.store.rows, self.size):
            cloud, region, zone = (
                self._view.text(row, name) for name in ("cloud", "region", "zone")
            )
            if cloud not in fresh:
                fresh.add(cloud)
                known = places.get(cloud, CloudPlaces())
                places[cloud] = CloudPlaces(dict(known.regions), dict(known.zones))
            places[cloud].add(region, zone)
        return places

    def select(self, query: Query) -> Ints:
        """The rows that answer a query, in the order of price and names."""
        numbers: Ints = self._catalog.select(query).numbers
        return numbers

    def offer(self, row: int) -> Offer:
        """One row as an offer."""
        return self._catalog.offer(row)

    def of(self, column: str, rows: Ints) -> NDArray[Any]:
        """A column of these rows: figures (NaN if not known), or codes of texts."""
        return self._view.gather(column, rows)

    def is_price_doubtful(self, rows: Ints) -> Bools:
        """Which rows have a price that moved by more than half; nearly always none."""
        if self._view.live is None and not _has_moved_prices(self._view.store):
            return np.zeros(len(rows), dtype=bool)
        return np.asarray(self.of("moved_from", rows) > 0)

    def names(self, column: str) -> list[str]:
        """The texts of a coded column, by code."""
        live = self._view.live
        stored = self._view.store.table(column)
        return stored if live is None else stored + live.added[column]

    def code(self, column: str, name: str) -> int:
        """The code of a text; -1 if no row has it."""
        store, live = self._view.store, self._view.live
        code: int = store.codes(column).get(name, -1)
        if code < 0 and live is not None and name in live.added[column]:
            code = len(store.table(column)) + live.added[column].index(name)
        return code

    def codes(self, column: str, names: Iterable[str]) -> list[int]:
        """The codes of several texts; -1 for a text that no row has."""
        known = self._view.store.codes(column)
        return [known[name] if name in known else self.code(column, name) for name in names]

    def is_of_family(self, rows: Ints, families: Collection[str]) -> Bools:
        """Which rows are of a type in one of these families, or whose name starts with one."""
        heads = tuple(families)
        family, kinds = self.names("family"), self.names("instance_type")
        codes, at = np.unique(self.of("instance_type", rows), return_inverse=True)
        begins = np.array([kinds[code].startswith(heads) for code in codes.tolist()], dtype=bool)
        named = np.array([name in families for name in family], dtype=bool)
        return np.asarray(begins[at] | named[self.of("family", rows)])

    def concatenated(self, parts: Sequence[Ints]) -> Ints:
        """Several answers as one: each row once, in row order."""
        named = np.zeros(self.size, dtype=bool)
        for part in parts:
            named[part] = True
        return np.flatnonzero(named)

    def rank(self, rows: Ints) -> Ints:
        """The rank of rows by price, US regions first, cloud, region, zone and type."""
        base, _ = _ranks_of(self._view.store)
        live = self._view.live
        if live is None:
            return base.take(rows)
        # Live offers stand between the stored ones: numbers are left free for them.
        step = live.rows + 1
        ranks = np.empty(len(rows), dtype=np.int64)
        stored = rows < len(base)
        ranks[stored] = base[rows[stored]].astype(np.int64) * step + live.rows
        ranks[~stored] = self._live_ranks()[rows[~stored] - len(base)]
        return ranks

    def in_rank_order(self, rows: Ints) -> Ints:
        """The rows in the order of `rank`."""
        if self._view.live is not None or len(rows) < self.size // SPARSE:
            return np.asarray(rows[np.argsort(self.rank(rows))])
        rank, by_rank = _ranks_of(self._view.store)
        here = np.zeros(self.size, dtype=bool)
        here[rank[rows]] = True
        return np.asarray(by_rank[here])

    def _live_ranks(self) -> Ints:
        """The rank of each live offer."""
        if self._live_rank is None:
            view, store, live = self._view, self._view.store, self._view.live
            assert live is not None
            _, by_rank = _ranks_of(store)
            # Ascending by rank as well as by row: rank only reorders rows of one price.
            hourly = store.array("hourly")

            def names(row: int) -> tuple[Any, ...]:
                place = tuple(
                    view.text(row, name) for name in ("cloud", "region", "zone", "instance_type")
                )
                return (not view.value(row, "is_us"), *place, view.value(row, "is_spot"))

            first = np.searchsorted(hourly, live.arrays["hourly"], side="left").tolist()
            last = np.searchsorted(hourly, live.arrays["hourly"], side="right").tolist()
            keys = [names(store.rows + row) for row in range(live.rows)]
            at = [
                bisect_left(range(low, high), key, key=lambda place: names(int(by_rank[place])))
                + low
                for key, low, high in zip(keys, first, last, strict=True)
            ]
            prices = live.arrays["hourly"].tolist()
            order = sorted(range(live.rows), key=lambda row: (prices[row], keys[row]))
            ranks = np.empty(live.rows, dtype=np.int64)
            for place, row in enumerate(order):
                ranks[row] = at[row] * (live.rows + 1) + place
            self._live_rank = ranks
        return self._live_rank

    def distinct(self, column: str, rows: Ints) -> list[str]:
        """The texts that occur in these rows, sorted."""
        names = self.names(column)
        return sorted(names[code] for code in present(self.of(column, rows)))

    def in_order(self, column: str, rows: Ints) -> list[str]:
        """The texts that occur in these rows, in row order."""
        names = self.names(column)
        return [names[code] for code in dict.fromkeys(self.of(column, rows).tolist())]

    def figures(self, column: str, rows: Ints) -> list[float]:
        """The figures that occur in these rows, ascending, as they were written."""
        values = self.of(column, rows)
        return [float(f"{v:.7g}") for v in sorted(set(values[~np.isnan(values)].tolist()))]

    def sellers(self, kind: str, accelerator: str = "") -> list[str]:
        """The clouds that sell a type, sorted.

        A GCP host is also sold with attached accelerators.
        """
        found = self.select(Query(instance_type=kind))
        if accelerator:
            found = np.concatenate(
                (found, self.select(Query(instance_type=kind, accelerator=accelerator)))
            )
        return self.distinct("cloud", found)

    def types_of(self, clouds: Collection[str]) -> list[str]:
        """The types that these clouds sell, sorted; those of all clouds if none is named."""
        if not clouds:
            return self.names("instance_type")
        return self.distinct("instance_type", self.select(Query(cloud=tuple(clouds))))

    def words_of_type(self, cloud: str, kind: str, accelerator: str = "") -> str:
        """The hardware of a type, as in `A10G:1, 4 vCPUs, 16 GiB`."""
        rows = self.select(Query(cloud=cloud, instance_type=kind))
        if not len(rows):
            rows = self.select(Query(cloud=cloud, instance_type=kind, accelerator=accelerator))
        offer = self.offer(int(rows[0]))
        words = [offer.gpus if offer.accelerator else "no accelerator"]
        words += [f"{offer.vcpus:g} vCPUs"] if offer.vcpus is not None else []
        words += [f"{offer.memory_gib:g} GiB"] if offer.memory_gib is not None else []
        return ", ".join(words)
