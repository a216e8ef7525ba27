"""Query results: row numbers in the order of price, with the columns by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, overload

from nbprov.catalog.vocabulary.instance_families import MEMORY_IS_TYPICAL
from nbprov.model.offers import Offer
from nbprov.model.places import Market

from .columns import NUMBERS, ColumnStore
from .live_offers import LiveBlock
from .select import Question, combined, in_live, in_store

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from pandas import DataFrame

    from nbprov.catalog.query import Query

    Array = NDArray[Any]


class View:
    """A store and the live offers beside it, if any, under one row numbering.

    The live offers follow the store's rows.
    """

    def __init__(self, store: ColumnStore, live: LiveBlock | None) -> None:
        self.store = store
        self.live = live
        self.rows = store.rows + (live.rows if live is not None else 0)
        self._tables: dict[str, Array] = {}

    def select(self, query: Query) -> Rows:
        """Return the rows that match, by price, cloud, region, zone and type."""
        question = Question(query, self.store, self.live)
        numbers = in_store(question, self.store)
        if self.live is not None:
            extra = in_live(question, self.live)
            if len(extra):
                numbers = self._merge(numbers, extra)
        return Rows(self, numbers)

    def _merge(self, base: Array, extra: Array) -> Array:
        import numpy as np

        assert self.live is not None
        hourly = self.store.array("hourly")[base]
        places = []
        for number in extra.tolist():
            key = self.live.keys[number]
            low = int(np.searchsorted(hourly, key[0], side="left"))
            high = int(np.searchsorted(hourly, key[0], side="right"))
            while low < high:
                middle = (low + high) // 2
                if self._key(int(base[middle])) <= key:
                    low = middle + 1
                else:
                    high = middle
            places.append(low)
        return np.insert(base, places, extra + self.store.rows)

    def _key(self, row: int) -> tuple[Any, ...]:
        place = tuple(self.text(row, name) for name in ("cloud", "region", "zone", "instance_type"))
        return (self.value(row, "hourly"), *place, self.value(row, "is_spot"))

    def table(self, name: str) -> Array:
        """Return the strings of a coded column by code, as an array of objects."""
        import numpy as np

        known = self._tables.get(name)
        if known is None:
            known = self._tables[name] = np.array(
                combined(self.store, self.live, name), dtype=object
            )
        return known

    def gather(self, name: str, numbers: Array) -> Array:
        """Return a column as stored, for these rows."""
        import numpy as np

        stored = self.store.array(name)
        # `take` needs half the time of an index in brackets where row numbers have 32 bits.
        if self.live is None or not len(numbers):
            return stored.take(numbers)
        ours = numbers < self.store.rows
        if ours.all():
            return stored.take(numbers)
        beside = self.live.arrays[name]
        result = np.empty(len(numbers), dtype=np.promote_types(stored.dtype, beside.dtype))
        result[ours] = stored[numbers[ours]]
        result[~ours] = beside[numbers[~ours] - self.store.rows]
        return result

    def value(self, row: int, name: str) -> Any:
        """Return one cell as stored."""
        if row < self.store.rows:
            return self.store.array(name)[row].item()
        assert self.live is not None
        return self.live.arrays[name][row - self.store.rows].item()

    def text(self, row: int, name: str) -> str:
        """Return one cell of a string column."""
        code: int = self.value(row, name)
        own = self.store.table(name)
        if code < len(own):
            return own[code]
        assert self.live is not None
        return self.live.added[name][code - len(own)]

    def offer(self, row: int) -> Offer:
        """Return the row as an offer."""
        if not 0 <= row < self.rows:
            raise IndexError(f"there is no row {row}")
        text, value = self.text, self.value
        return Offer(
            cloud=text(row, "cloud"),
            region=text(row, "region"),
            zone=text(row, "zone"),
            instance_type=text(row, "instance_type"),
            accelerator=text(row, "accelerator"),
            accelerator_count=_short(value(row, "accelerator_count")) or 0.0,
            vcpus=_short(value(row, "vcpus")),
            memory_gib=_short(value(row, "memory_gib")),
            market=Market.SPOT if value(row, "is_spot") else Market.ON_DEMAND,
            hourly=value(row, "hourly"),
            quota_family=text(row, "quota_family"),
            accelerator_memory_gib=_short(value(row, "accelerator_memory_gib")),
            arch=text(row, "arch"),
            source=text(row, "source"),
            as_of=text(row, "as_of"),
            moved_from=value(row, "moved_from"),
        )


def _short(value: float) -> float | None:
    """Return a 32-bit figure as it was written; None if it is not known."""
    return None if value != value else float(f"{value:.7g}")


class Rows:
    """Row numbers with their columns.

    `len()`, iteration and `rows[i]` give row numbers, which `Catalog.offer` takes; a slice gives
    `Rows`.

    Attributes
    ----------
    numbers
        The row numbers as a numpy array, cheapest first.

    Examples
    --------
    >>> from nbprov.catalog import Query, default_catalog
    >>> rows = default_catalog().select(Query(accelerator="A100", count=8))
    >>> rows.offers(1)[0].gpus, bool(rows.column("hourly")[0] <= rows.column("hourly")[-1])
    ('A100:8', True)
    """

    __slots__ = ("_view", "numbers")

    def __init__(self, view: View, numbers: Array) -> None:
        self._view = view
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers.tolist())

    @overload
    def __getitem__(self, item: int) -> int: ...
    @overload
    def __getitem__(self, item: slice) -> Rows: ...
    def __getitem__(self, item: int | slice) -> int | Rows:
        if isinstance(item, slice):
            return Rows(self._view, self.numbers[item])
        return int(self.numbers[item])

    def column(self, name: str) -> Array:
        """Return a column for these rows: figures as numbers (NaN: not known), text as `str`.

        Names are those of `Offer` (`cloud`, `region`, `zone`, `instance_type`, `accelerator`,
        `accelerator_count`, `accelerator_memory_gib`, `vcpus`, `memory_gib`, `hourly` in
        micro-dollars, `quota_family`, `arch`, `source`, `as_of`), `market`, and `is_spot`,
        `device_gb`, `is_us`, `is_default`, `asked_only`, `moved_from`, `maker`, `family`,
        `country`, `continent`, `memory_is_typical`.
        """
        import numpy as np

        if name == "market":
            markets = np.array([Market.ON_DEMAND, Market.SPOT], dtype=object)
            return np.asarray(markets[self._view.gather("is_spot", self.numbers).astype(int)])
        if name == "memory_is_typical":
            typical = np.isin(self.column("cloud").astype(str), sorted(MEMORY_IS_TYPICAL))
            return np.asarray(typical & (self.column("accelerator_count") > 0))
        stored = self._view.gather(name, self.numbers)
        return stored if name in NUMBERS else np.asarray(self._view.table(name)[stored])

    def codes(self, name: str) -> Array:
        """Return the codes of a text column, to group and compare without making strings.

        `table(name)[code]` is the text.
        """
        return self._view.gather(name, self.numbers)

    def table(self, name: str) -> Array:
        """Return the strings of a text column by code."""
        return self._view.table(name)

    def where(self, **fields: str) -> Array:
        """Return a mask of the rows whose text columns have exactly these values.

        An empty value matches all rows, as in a block.

        Examples
        --------
        >>> from nbprov.catalog import Query, default_catalog
        >>> rows = default_catalog().select(Query(accelerator="A100", count=8))
        >>> set(rows.take(rows.where(cloud="gcp")).column("cloud"))
        {'gcp'}
        """
        import numpy as np

        mask = np.ones(len(self), dtype=bool)
        for name, value in fields.items():
            if not value:
                continue
            if name == "market":
                mask &= self._view.gather("is_spot", self.numbers) == (value == Market.SPOT.value)
                continue
            code = self._code(name, value)
            mask &= self.codes(name) == code if code is not None else False
        return mask

    def _code(self, name: str, value: str) -> int | None:
        store, live = self._view.store, self._view.live
        code = store.codes(name).get(value)
        if code is None and live is not None and value in live.added[name]:
            code = len(store.table(name)) + live.added[name].index(value)
        return code

    def take(self, selector: ArrayLike) -> Rows:
        """Return the rows that a mask or an array of positions picks, in that order."""
        import numpy as np

        return Rows(self._view, self.numbers[np.asarray(selector)])

    def offers(self, limit: int | None = None) -> list[Offer]:
        """Return these rows as offers, at most `limit` of them."""
        return [self._view.offer(row) for row in self.numbers[:limit].tolist()]

    def to_frame(self) -> DataFrame:
        """Return these rows as a pandas table with prices in US dollars an hour.

        `nbprov.catalog.store.frame` describes the columns.

        Examples
        --------
        >>> from nbprov.catalog import Query, default_catalog
        >>> frame = default_catalog().select(Query(accelerator="A100", count=8)).to_frame()
        >>> frame.groupby("cloud", observed=True).hourly.min()  # doctest: +SKIP
        """
        from .frame import frame_of

        return frame_of(self.column)
