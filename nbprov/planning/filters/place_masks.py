"""Place rules as masks over whole columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from nbprov.catalog.sources import aws_zone_ids
from nbprov.catalog.vocabulary.geography import ground_of, place_word
from nbprov.model.resources import PlaceGlob, PlaceRule

from .place_patterns import zone_matches

if TYPE_CHECKING:
    from nbprov.planning.lookup.catalog_columns import Bools, CatalogColumns, Ints


class PlaceMasks:
    """The masks of place rules over one catalogue.

    Each pattern is matched once against all names.
    """

    def __init__(self, table: CatalogColumns) -> None:
        self._table = table
        self._named: dict[tuple[str, str], Bools] = {}
        self._lying: dict[str, Bools | None] = {}

    def allowed(self, rows: Ints, rules: Iterable[PlaceRule]) -> Bools:
        """Which rows all rules permit."""
        mask = np.ones(len(rows), dtype=bool)
        for rule in rules:
            if rule.allow:
                some = np.zeros(len(rows), dtype=bool)
                for glob in rule.allow:
                    some |= self.under(rows, glob)
                mask &= some
            for glob in rule.deny:
                mask &= ~self.under(rows, glob)
        return mask

    def under(self, rows: Ints, glob: PlaceGlob) -> Bools:
        """Which rows match a pattern."""
        table = self._table
        mask = np.ones(len(rows), dtype=bool)
        for column, pattern in (("cloud", glob.cloud), ("zone", glob.zone)):
            if pattern:
                mask &= self._names(column, pattern)[table.of(column, rows)]
        if glob.region:
            regions = table.of("region", rows)
            here = self._names("region", glob.region)[regions]
            lying = self._areas(glob.region)
            if lying is not None:
                here = here | lying[table.of("cloud", rows), regions]
            mask &= here
        return mask

    def _names(self, column: str, pattern: str) -> Bools:
        key = column, pattern
        if key not in self._named:
            zones = aws_zone_ids.names() if column == "zone" else {}
            self._named[key] = np.array(
                [zone_matches(pattern, name, zones) for name in self._table.names(column)],
                dtype=bool,
            )
        return self._named[key]

    def _areas(self, pattern: str) -> Bools | None:
        """Which regions lie in a country or part of the world, by cloud and region code.

        None if the pattern names neither.
        """
        if pattern not in self._lying:
            word = place_word(pattern)
            made: Bools | None = None
            if word is not None:
                table = self._table
                made = np.zeros((len(table.names("cloud")), len(table.names("region"))), dtype=bool)
                for cloud, places in table.places.items():
                    for region in places.regions.values():
                        made[table.code("cloud", cloud), table.code("region", region)] = word.holds(
                            ground_of(cloud, region)
                        )
            self._lying[pattern] = made
        return self._lying[pattern]
