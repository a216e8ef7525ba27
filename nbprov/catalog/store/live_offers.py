"""Live offers beside the store, coded with its dictionaries so that one query covers both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbprov.model.offers import Offer

from .columns import COLUMNS, NUMBERS, STRINGS, ColumnStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class LiveBlock:
    """Live offers, sorted as the store is.

    Strings that the store does not know get codes after its own.

    Attributes
    ----------
    added
        For each coded column the strings that the store does not have.
    arrays
        The columns, codes for strings.
    regions
        Regions by cloud, of these offers alone.
    meant
        As `ColumnStore.meant`, for store and live offers together.
    """

    def __init__(self, offers: Sequence[Offer], store: ColumnStore) -> None:
        import numpy as np

        from .builder import row_of_offer

        rows = sorted(set(map(row_of_offer, offers)), key=_sort_key)
        self.rows = len(rows)
        self.keys = [_sort_key(row) for row in rows]
        self.meant: dict[str, Array] = {}
        self.regions: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            self.regions[row[_AT["cloud"]]].add(row[_AT["region"]])
        self.added: dict[str, list[str]] = {}
        self.arrays: dict[str, Array] = {}
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(COLUMNS)
        for name, values in zip(COLUMNS, columns, strict=True):
            if name in NUMBERS:
                dtype = NUMBERS[name]
                filled = [np.nan if v is None else v for v in values]
                self.arrays[name] = np.array(filled, dtype=dtype)
            else:
                self.arrays[name] = self._code(name, values, store)

    def places(self, store: ColumnStore) -> dict[str, set[str]]:
        """Return the regions of each cloud, of the store and of these offers."""
        both = {cloud: set(regions) for cloud, regions in store.meta["places"].items()}
        for cloud, regions in self.regions.items():
            both[cloud] = both.get(cloud, set()) | regions
        return both

    def _code(self, name: str, values: Sequence[str], store: ColumnStore) -> Array:
        import numpy as np

        code_of = store.codes(name)
        added = self.added[name] = sorted({v for v in values if v not in code_of})
        first = len(code_of)
        new = {text: first + i for i, text in enumerate(added)}
        return np.fromiter(
            (code_of[v] if v in code_of else new[v] for v in values), dtype="<u4", count=len(values)
        )


def _sort_key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the store's sort key: price, cloud, region, zone, type, on-demand before spot."""
    return (row[_AT["hourly"]], *row[: len(_PLACE)], row[_AT["is_spot"]])


_AT = {name: i for i, name in enumerate(COLUMNS)}
_PLACE = STRINGS[:4]
