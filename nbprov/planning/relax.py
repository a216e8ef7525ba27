"""What a spec would open with one constraint less: each is relaxed alone, and planned again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbprov.market import SuccessModel
from nbprov.model.blocks import Block
from nbprov.model.clock import Instant
from nbprov.model.money import Micros, format_usd
from nbprov.model.remarks import Origin
from nbprov.model.spec import Spec

from .conditions import PlanConditions
from .constraints import Constraints
from .errors import PlanError
from .lookup.enabled_clouds import EnabledCloud
from .planner import search_spec
from .spec_changes import RESOURCES, SpecChange

if TYPE_CHECKING:
    from nbprov.catalog import Catalog

    from .lookup.catalog_columns import CatalogColumns, Ints

MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One constraint, relaxed alone.

    Attributes
    ----------
    field
        The field of the spec; `blocks` or a cloud's name if it is none.
    change
        What to write instead, as YAML to paste in place of the field, or what to do.
    places
        How many places (cloud, region, zone) have an offer only then.
    offers
        How many offers there are more, also in places that have one now.
    hourly
        The cheapest of them, per node and hour; None if nothing is opened.
    is_yaml
        Whether `change` is YAML.
    origin
        Where the constraint was written.
    cloud
        The cloud that is to be set up; empty for every other change.
    named
        The zones or regions of the cheapest places, at most three.
    spec
        The spec with the change; as it is where something else than the spec is to change.
    blocks
        The blocks that are to end; empty for every other change.
    """

    field: str
    change: str
    places: int
    offers: int
    hourly: Micros | None
    is_yaml: bool = False
    origin: Origin = RESOURCES
    cloud: str = ""
    named: tuple[str, ...] = ()
    spec: Spec | None = dataclasses.field(default=None, repr=False, compare=False)
    blocks: tuple[Block, ...] = dataclasses.field(default=(), repr=False)

    def words(self) -> str:
        """One line: `max_price: 3.10 opens 4 more places, from $3.10/h`."""
        if not self.offers or self.hourly is None:
            return f"{self.change} opens nothing more"
        offers = f"{self.offers} more offer{'' if self.offers == 1 else 's'} in the same places"
        if self.places:
            offers = f"{self.places} more place{'' if self.places == 1 else 's'}"
            offers += f" ({self.offers} offers)" if self.offers > self.places else ""
        more = ", …" if self.places > len(self.named) else ""
        where = f": {', '.join(self.named)}{more}" if self.cloud and self.named else ""
        return f"{self.change} opens {offers}, from {format_usd(self.hourly)}/h{where}"


def relax(
    spec: Spec,
    catalog: Catalog,
    enabled: Mapping[str, EnabledCloud],
    *,
    blocks: Iterable[Block] = (),
    now: Instant = 0.0,
    disabled: Mapping[str, str] | None = None,
    silent: Mapping[str, Instant] | None = None,
    off: Mapping[str, EnabledCloud] | None = None,
    demo: bool = False,
) -> tuple[Relaxation, ...]:
    """Count the places that a spec would gain without each of its constraints, and their price.

    Parameters
    ----------
    catalog, enabled, blocks, now, disabled, silent, demo
        As for `plan`.
    off
        Clouds that have an adapter and are not set up; what they would open is counted too.

    Returns
    -------
    tuple of Relaxation
        Those that open something first, and of these the cheapest first.

    Raises
    ------
    PlanError
        As `plan`.

    Examples
    --------
    >>> from nbprov.catalog import default_catalog
    >>> from nbprov.model.resources import Accelerator, Request
    >>> request = Request(accelerator=Accelerator("A100", 8), cloud="aws", region="us-east-1")
    >>> clouds = {"aws": EnabledCloud("me")}
    >>> found = relax(Spec(requests=(request,)), default_catalog(), clouds)
    >>> "region" in {r.field for r in found if r.offers}
    True
    """
    from .lookup.catalog_columns import CatalogColumns

    conditions = PlanConditions(
        enabled=enabled,
        disabled=disabled or {},
        silent=silent or {},
        blocks=tuple(block for block in blocks if block.is_live(now)),
        now=now,
        demo=demo,
        success_model=SuccessModel(now=now),
    )
    relaxer = _Relaxer(spec, catalog, CatalogColumns(catalog), conditions)
    # Of two that start at one price, the one that says what to write comes first.
    return tuple(
        sorted(
            relaxer.relaxations(off or {}),
            key=lambda r: (r.offers == 0, r.hourly or 0, not r.is_yaml, r.field, r.change),
        )
    )


class _Relaxer:
    """Plans a spec again for each change, and compares its rows with those of the first plan."""

    def __init__(
        self, spec: Spec, catalog: Catalog, table: CatalogColumns, conditions: PlanConditions
    ) -> None:
        self._catalog = catalog
        self._table = table
        self._conditions = conditions
        self._constraints = Constraints(spec, catalog)
        *_, found = search_spec(spec, catalog, table, conditions)
        self._before = found.rows
        self._blocks = [block for block, _ in found.blocked]
        self._taken = frozenset(_places(table, self._before))

    def relaxations(self, off: Mapping[str, EnabledCloud]) -> Iterator[Relaxation]:
        """One relaxation for each constraint that can be dropped alone."""
        given = self._conditions
        for change in self._constraints.changes(self._blocks, given.now, given.enabled, off):
            try:
                relaxation = self._relaxation(change)
            except PlanError:
                # Without its neighbour a name may mean several things: it cannot be dropped alone.
                continue
            yield relaxation
            if change.field == "max_price" and relaxation.hourly is not None:
                raised = self._constraints.raised_cap(relaxation.hourly)
                if raised is not None:
                    yield self._relaxation(raised)

    def _relaxation(self, change: SpecChange) -> Relaxation:
        conditions = replace(
            self._conditions,
            enabled=change.enabled or self._conditions.enabled,
            blocks=() if change.unblocked else self._conditions.blocks,
        )
        *_, after = search_spec(change.spec, self._catalog, self._table, conditions)
        places, offers, hourly, named = self._opened(after.rows)
        return Relaxation(
            change.field,
            change.words,
            places,
            offers,
            hourly,
            named=named,
            is_yaml=change.is_yaml,
            cloud="" if change.enabled is None else change.field,
            origin=change.origin,
            spec=change.spec,
            blocks=tuple(self._blocks) if change.unblocked else (),
        )

    def _opened(self, after: Ints) -> tuple[int, int, Micros | None, tuple[str, ...]]:
        """Counts of new places and offers, their cheapest price, and the cheapest places."""
        import numpy as np

        table = self._table
        known = np.zeros(table.size, dtype=bool)
        known[self._before] = True
        new = after[~known[after]]
        if not len(new):
            return 0, 0, None, ()
        hourly = table.of("hourly", new)
        cheapest = new[np.argsort(hourly, kind="stable")]
        first: dict[int, int] = {}
        for place, row in zip(_places(table, cheapest), cheapest.tolist(), strict=True):
            if place not in self._taken:
                first.setdefault(place, row)
        cheap = [table.offer(row) for row in list(first.values())[:MOST_NAMED]]
        named = (offer.zone or offer.region for offer in cheap)
        return len(first), len(new), int(hourly.min()), tuple(named)


def _places(table: CatalogColumns, rows: Ints) -> list[int]:
    """A number for the place of each row."""
    import numpy as np

    keys = np.zeros(len(rows), dtype=np.int64)
    for column in ("cloud", "region", "zone"):
        keys = keys * len(table.names(column)) + table.of(column, rows)
    found: list[int] = keys.tolist()
    return found
