"""Match blocks against rows, all at once.

Blocks that name the same fields form one set of keys, however many they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from nbprov.model.blocks import Block
from nbprov.model.places import Market
from nbprov.planning.lookup.enabled_clouds import EnabledCloud

if TYPE_CHECKING:
    from nbprov.planning.lookup.catalog_columns import CatalogColumns, Ints

_FIELDS = ("instance_type", "zone", "region", "cloud", "quota_family", "market", "account")
"""Fields that a block may name; the type first."""
_VALUES = attrgetter(*_FIELDS)
_NONE = -1


class BlockFilter:
    """Finds the rows that live blocks take out, and the block that takes each.

    Parameters
    ----------
    count
        Number of nodes; a block matches from the count that it names.
    """

    def __init__(
        self, table: CatalogColumns, enabled: Mapping[str, EnabledCloud], count: int
    ) -> None:
        self._table = table
        self._count = count
        self._accounts = sorted({cloud.account for cloud in enabled.values()})
        # Clouds that are not enabled share the code behind the last account.
        found = [
            self._accounts.index(c.account) if (c := enabled.get(n)) else len(self._accounts)
            for n in table.names("cloud")
        ]
        self._account_of = np.array(found, dtype=np.int64)

    def taken(self, rows: Ints, blocks: Sequence[Block]) -> Ints:
        """The number of the first block that matches each row; -1 if none does."""
        first = np.full(len(rows), _NONE, dtype=np.int64)
        groups: dict[tuple[bool, ...], list[int]] = {}
        for number, block in enumerate(blocks):
            if self._count >= block.min_count:
                groups.setdefault(tuple(map(bool, _VALUES(block))), []).append(number)
        at: Ints | slice = slice(None)
        # Packing all columns of all rows costs more than leaving out other types first.
        if all(named[0] for named in groups):
            at = self._of_types(
                rows,
                {blocks[number].instance_type for numbers in groups.values() for number in numbers},
            )
        concerned = _RowColumns(self._table, rows[at], self._account_of)
        if not len(concerned.rows):
            return first
        here = first[at]
        for named, numbers in groups.items():
            fields = tuple(name for name, is_named in zip(_FIELDS, named, strict=True) if is_named)
            self._mark(
                here,
                concerned,
                fields,
                [blocks[number] for number in numbers],
                np.array(numbers, dtype=np.int64),
            )
        if (here != _NONE).any():
            self._close_regions(here, concerned)
        first[at] = here
        return first

    def _of_types(self, rows: Ints, names: Iterable[str]) -> Ints:
        kinds = np.zeros(self._size("instance_type") + 1, dtype=bool)
        kinds[self._codes("instance_type", names)] = True
        kinds[_NONE] = False  # index -1 stands for types that no row has
        return np.flatnonzero(kinds[self._table.of("instance_type", rows)])

    def _mark(
        self,
        first: Ints,
        rows: _RowColumns,
        fields: tuple[str, ...],
        members: Sequence[Block],
        numbers: Ints,
    ) -> None:
        """Note the earliest block of one group on the rows that it matches."""
        codes = [self._codes(name, map(attrgetter(name), members)) for name in fields]
        # A block that names what no row has matches nothing.
        real = np.ones(len(members), dtype=bool)
        for column in codes:
            real &= column >= 0
        if not real.all():
            codes, numbers = [column[real] for column in codes], numbers[real]
        if not len(numbers):
            return
        sizes = self._sizes(fields)
        wanted = _packed(codes, sizes, len(numbers))
        order = np.argsort(wanted, kind="stable")
        wanted, numbers = wanted[order], numbers[order]
        mine = rows.packed(fields, sizes)
        place = np.minimum(np.searchsorted(wanted, mine), len(wanted) - 1)
        hit = np.flatnonzero(wanted[place] == mine)
        before, found = first[hit], numbers[place[hit]]
        first[hit] = np.where(before == _NONE, found, np.minimum(before, found))

    def _sizes(self, fields: tuple[str, ...]) -> list[int]:
        return [self._size(name) for name in fields]

    def _size(self, name: str) -> int:
        if name == "market":
            return 2
        return (
            len(self._accounts) + 1 if name == "account" else max(1, len(self._table.names(name)))
        )

    def _codes(self, name: str, values: Iterable[str]) -> Ints:
        """The codes of texts; -1 for a text that no row has."""
        if name == "market":
            spot = Market.SPOT.value
            codes = [int(value == spot) for value in values]
        elif name == "account":
            known = {account: code for code, account in enumerate(self._accounts)}
            codes = [known.get(value, _NONE) for value in values]
        else:
            codes = self._table.codes(name, values)
        return np.array(codes, dtype=np.int64)

    def _close_regions(self, first: Ints, rows: _RowColumns) -> None:
        """Block an offer for any zone of a region if every zone of its type there is blocked."""
        code = self._table.code("zone", "")
        if code < 0:
            return
        anywhere = rows.column("zone") == code
        blocked = first != _NONE
        zoned_and_blocked = np.flatnonzero(blocked & ~anywhere)
        open_ones = np.flatnonzero(anywhere & ~blocked)
        if not len(open_ones) or not len(zoned_and_blocked):
            return
        fields = ("cloud", "region", "instance_type", "market")
        keys = rows.packed(fields, self._sizes(fields))
        free = set(keys[~anywhere & ~blocked].tolist())
        pairs = zip(
            keys[zoned_and_blocked].tolist(), first[zoned_and_blocked].tolist(), strict=True
        )
        closed = {key: number for key, number in pairs if key not in free}
        for place, key in zip(open_ones.tolist(), keys[open_ones].tolist(), strict=True):
            first[place] = closed.get(key, _NONE)


class _RowColumns:
    """Some rows, with each of their columns gathered once."""

    def __init__(self, table: CatalogColumns, rows: Ints, account_of: Ints) -> None:
        self.rows = rows
        self._table = table
        self._account_of = account_of
        self._known: dict[str, Ints] = {}

    def column(self, name: str) -> Ints:
        """The values of a block's field in the rows, as codes."""
        found = self._known.get(name)
        if found is None:
            if name == "account":
                found = self._account_of[self.column("cloud")]
            else:
                found = self._table.of("is_spot" if name == "market" else name, self.rows).astype(
                    np.int64
                )
            self._known[name] = found
        return found

    def packed(self, fields: Iterable[str], sizes: Sequence[int]) -> Ints:
        """One number for each row's values in these fields."""
        return _packed([self.column(name) for name in fields], sizes, len(self.rows))


def _packed(columns: Sequence[Ints], sizes: Sequence[int], count: int) -> Ints:
    packed = np.zeros(count, dtype=np.int64)
    for column, size in zip(columns, sizes, strict=True):
        packed = packed * size + column
    return packed
