"""Turn a query into row numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from nbprov.catalog.query import Query, names, numbers
from nbprov.catalog.sources import aws_zone_ids
from nbprov.catalog.sources.gcp_hosts import JOINER
from nbprov.catalog.vocabulary.geography import place_word, regions_meant
from nbprov.catalog.vocabulary.instance_families import DEFAULT_FAMILIES, MEMORY_IS_TYPICAL
from nbprov.catalog.vocabulary.name_matching import pattern
from nbprov.model.places import Market
from nbprov.model.resources import COUNT_TOLERANCE, Compare, Quantity

from .columns import ColumnStore, member_mask
from .live_offers import LiveBlock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

SIZE_SLACK = 1e-6
"""Tolerance for sizes, which are 32-bit floats: 0.7 may read as 0.69999999."""

MOST_WORDS = 100
"""Number of words for places whose meaning is remembered.

People write fewer, and each takes a few KB.
"""

_NAMED = ("cloud", "zone", "instance_type", "accelerator", "maker")


class Question:
    """A query with its names turned into codes of one store and its live block."""

    def __init__(self, query: Query, store: ColumnStore, live: LiveBlock | None) -> None:
        self.query = query
        self.tables = {name: combined(store, live, name) for name in ("cloud",)}
        self.codes: dict[str, tuple[int, ...]] = {}
        self.sizes: dict[str, int] = {}
        self.counts = numbers(query.count)
        for name in _NAMED:
            wanted = names(getattr(query, name))
            if wanted:
                self._resolve(name, wanted, store, live)
        self.places: Array | None = None
        """By codes of cloud and region, whether it is meant; None where the region's code alone
        says enough, or any will do.
        """
        if names(query.region):
            self._resolve_regions(names(query.region), store, live)
        self._resolve_ground(store, live)
        self.oldest = query.oldest
        if self.oldest:
            self._take(
                "as_of",
                [i for i, text in enumerate(combined(store, live, "as_of")) if text >= self.oldest],
                store,
                live,
            )
        families = names(query.families)
        self.default_families = DEFAULT_FAMILIES in families
        self.families = tuple(f for f in families if f != DEFAULT_FAMILIES)
        if self.families:
            self._resolve("family", self.families, store, live)
        self.impossible = any(
            not codes
            for name, codes in self.codes.items()
            if not (name == "family" and self.default_families)
        )

    def _resolve(
        self, name: str, wanted: Sequence[str], store: ColumnStore, live: LiveBlock | None
    ) -> None:
        with_hosts = name == "instance_type" and self.query.wants_accelerator
        found: list[int] = []
        for text in wanted:
            stored = _codes_of(store, name, text, with_hosts=with_hosts)
            if name == "zone" and not stored and aws_zone_ids.looks_like_name(text):
                stored = [
                    code
                    for zone in aws_zone_ids.ids_of(text)
                    for code in _codes_of(store, name, zone, with_hosts=False)
                ]
            found += stored
            if live is not None and live.added[name]:
                first = len(store.table(name))
                found += [
                    first + i
                    for i, added in enumerate(live.added[name])
                    if _is_meant(text, added, with_hosts=with_hosts)
                ]
        self._take(name, found, store, live)

    def _take(
        self, name: str, codes: Sequence[int], store: ColumnStore, live: LiveBlock | None
    ) -> None:
        self.codes[name] = tuple(dict.fromkeys(codes))
        self.sizes[name] = len(store.table(name)) + (
            len(live.added[name]) if live is not None else 0
        )

    def _resolve_regions(
        self, wanted: Sequence[str], store: ColumnStore, live: LiveBlock | None
    ) -> None:
        """Resolve names to regions, and words for places to pairs of cloud and region."""
        import numpy as np

        if not any(place_word(text) for text in wanted):
            self._resolve("region", wanted, store, live)
            return
        tables = [_meant(store, live, text) for text in wanted]
        self.places = reduce(np.logical_or, tables)

    def _resolve_ground(self, store: ColumnStore, live: LiveBlock | None) -> None:
        for name, what in (("country", "country"), ("continent", "part")):
            wanted = names(getattr(self.query, name))
            if wanted:
                words = [place_word(text) for text in wanted]
                meant = {getattr(word, what) for word in words if word is not None} - {""}
                meant |= {text.strip().upper() for text in wanted if name == "country"}
                table = combined(store, live, name)
                self._take(name, [i for i, text in enumerate(table) if text in meant], store, live)

    @property
    def allows_unusual(self) -> bool:
        """Whether rows may match that are offered only to queries that name their size."""
        query = self.query
        return (
            query.unusual
            or query.cpus is not None
            or query.memory is not None
            or bool(query.instance_type)
        )

    def typical_codes(self) -> tuple[int, ...]:
        """The codes of the clouds whose memory figure beside an accelerator is only typical."""
        return tuple(
            i for i, cloud in enumerate(self.tables["cloud"]) if cloud in MEMORY_IS_TYPICAL
        )


def combined(store: ColumnStore, live: LiveBlock | None, name: str) -> list[str]:
    """Return the strings of a column by code; the live block's follow the store's."""
    table = store.table(name)
    return table + live.added[name] if live is not None and live.added[name] else table


def _meant(store: ColumnStore, live: LiveBlock | None, text: str) -> Array:
    """Return the places that a region's name or a word means, by the codes of cloud and region.

    They are worked out once for a store and its live block.
    """
    import numpy as np

    memory = store.meant if live is None else live.meant
    table = memory.get(text)
    if table is None:
        table = np.zeros(
            (len(combined(store, live, "cloud")), len(combined(store, live, "region"))), dtype=bool
        )
        places = store.meta["places"] if live is None else live.places(store)
        for cloud, region in regions_meant(places, text):
            table[_code(store, live, "cloud", cloud), _code(store, live, "region", region)] = True
        if len(memory) < MOST_WORDS:
            memory[text] = table
    return table


def _code(store: ColumnStore, live: LiveBlock | None, name: str, text: str) -> int:
    code = store.codes(name).get(text)
    if code is None:
        assert live is not None
        code = len(store.table(name)) + live.added[name].index(text)
    return code


def in_store(question: Question, store: ColumnStore) -> Array:
    """Return the store's rows that match, ascending, which is the order of price."""
    import numpy as np

    if question.impossible:
        return np.empty(0, dtype="<i4")
    start: Array | None = None
    indexed = ""
    for name in ("accelerator", "instance_type"):
        if name in question.codes and start is None:
            groups = [
                store.group(name, code)
                for code in question.codes[name]
                if code < len(store.table(name))
            ]
            if not groups:
                return np.empty(0, dtype="<i4")
            start, indexed = (
                (groups[0] if len(groups) == 1 else np.sort(np.concatenate(groups))),
                name,
            )
    if start is None and question.default_families and not question.families:
        start = store.array("default.rows")
    if start is None:
        start = np.arange(store.rows, dtype="<i4")
    return narrow(question, store.array, start, indexed)


def in_live(question: Question, live: LiveBlock) -> Array:
    """Return the live block's rows that match, ascending."""
    import numpy as np

    start = np.arange(live.rows, dtype="<i4")
    return (
        start[:0] if question.impossible else narrow(question, live.arrays.__getitem__, start, "")
    )


def narrow(question: Question, column: Callable[[str], Array], rows: Array, indexed: str) -> Array:
    """Drop the rows that do not match, testing the cheap and selective conditions first."""
    import numpy as np

    query = question.query
    if query.max_hourly is not None:
        hourly = column("hourly")
        rows = rows[
            : int(np.searchsorted(rows, np.searchsorted(hourly, query.max_hourly, side="right")))
        ]
    if query.min_hourly is not None:
        rows = rows[
            int(
                np.searchsorted(
                    rows, np.searchsorted(column("hourly"), query.min_hourly, side="left")
                )
            ) :
        ]
    for name, codes in question.codes.items():
        if name != indexed and name != "family":
            rows = rows[member_mask(column(name)[rows], codes, question.sizes[name])]
    if question.places is not None:
        rows = rows[question.places[column("cloud")[rows], column("region")[rows]]]
    if query.market is not None:
        is_spot = column("is_spot")[rows]
        rows = rows[is_spot if query.market is Market.SPOT else ~is_spot]
    if query.has_accelerator is not None or question.counts:
        rows = rows[_count_mask(question, column("accelerator_count")[rows])]
    if question.default_families or question.families:
        rows = rows[_family_mask(question, column, rows)]
    if not question.allows_unusual:
        rows = rows[~column("asked_only")[rows]]
    if query.cpus is not None:
        rows = rows[_quantity_mask(query.cpus, column("vcpus")[rows], column("vcpus")[rows])]
    if query.memory is not None:
        rows = rows[_memory_mask(question, column, rows)]
    if query.device_gib is not None:
        rows = rows[_device_mask(query, column("device_gb")[rows])]
    return rows


def _count_mask(question: Question, counts: Array) -> Array:
    import numpy as np

    if question.counts and question.query.count_at_least:
        masks = [counts >= min(question.counts) - COUNT_TOLERANCE]
    else:
        masks = [np.abs(counts - wanted) <= COUNT_TOLERANCE for wanted in question.counts]
    if question.query.has_accelerator is not None:
        having = (counts > 0) == question.query.has_accelerator
        return np.asarray(having & reduce(np.logical_or, masks) if masks else having)
    return np.asarray(reduce(np.logical_or, masks))


def _family_mask(question: Question, column: Callable[[str], Array], rows: Array) -> Array:
    import numpy as np

    mask = (
        column("is_default")[rows] if question.default_families else np.zeros(len(rows), dtype=bool)
    )
    if question.families and question.codes["family"]:
        mask = mask | member_mask(
            column("family")[rows], question.codes["family"], question.sizes["family"]
        )
    return np.asarray(mask)


def _quantity_mask(demand: Quantity, actual: Array, vcpus: Array) -> Array:
    import numpy as np

    if demand.compare is Compare.EXACTLY:
        return np.asarray(np.abs(actual - demand.value) <= SIZE_SLACK * demand.value)
    floor = demand.value * vcpus if demand.compare is Compare.PER_VCPU else demand.value
    return np.asarray(actual >= floor * (1 - SIZE_SLACK))


def _memory_mask(question: Question, column: Callable[[str], Array], rows: Array) -> Array:
    import numpy as np

    demand = question.query.memory
    assert demand is not None
    mask = _quantity_mask(demand, column("memory_gib")[rows], column("vcpus")[rows])
    typical = question.typical_codes() if question.query.wants_accelerator else ()
    if typical:
        beside = column("accelerator_count")[rows] > 0
        mask = mask | (
            beside & member_mask(column("cloud")[rows], typical, len(question.tables["cloud"]))
        )
    return np.asarray(mask)


def _device_mask(query: Query, sizes: Array) -> Array:
    import numpy as np

    assert query.device_gib is not None
    if query.device_at_least:
        return np.asarray(sizes >= query.device_gib * (1 - SIZE_SLACK))
    return np.asarray(np.abs(sizes - query.device_gib) <= SIZE_SLACK * query.device_gib)


def _codes_of(store: ColumnStore, name: str, text: str, *, with_hosts: bool) -> list[int]:
    fits = pattern(text)
    if fits is not None:
        return [code for code, known in enumerate(store.table(name)) if fits(known)]
    folded = store.folded(name)
    found = list(folded.get(text.strip().lower(), ()))
    if with_hosts:
        head = text.strip().lower() + JOINER
        found += [
            code for known, codes in folded.items() if known.startswith(head) for code in codes
        ]
    return found


def _is_meant(text: str, known: str, *, with_hosts: bool) -> bool:
    fits = pattern(text)
    if fits is not None:
        return bool(fits(known))
    low, name = text.strip().lower(), known.lower()
    return name == low or (with_hosts and name.startswith(low + JOINER))
