"""What one constraint less would open: each is relaxed alone, and the plan made again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbprov.market import Chances
from nbprov.model.clock import Instant
from nbprov.model.money import Micros, format_usd
from nbprov.model.offers import Block
from nbprov.model.spec import Origin, Spec

from .constraints import RESOURCES, Change, Constraints
from .errors import PlanError
from .lookup.enabled_clouds import EnabledCloud
from .planner import looked_up

if TYPE_CHECKING:
    from nbprov.catalog import Catalog

    from .lookup.catalog_columns import Ints, Table


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One constraint, relaxed alone.

    Attributes
    ----------
    field
        The field of the spec; `blocks` or a cloud's name where it is none.
    change
        What to write instead, as YAML to paste where the field stands, or what to do.
    places
        How many places (cloud, region, zone) have an offer then and none now.
    offers
        How many more offers there are, those in places that have one now included.
    hourly
        The cheapest of them, a node an hour; None where nothing is opened.
    is_yaml
        Whether `change` is YAML.
    origin
        Where the constraint was written.
    """

    field: str
    change: str
    places: int
    offers: int
    hourly: Micros | None
    is_yaml: bool = False
    origin: Origin = RESOURCES

    def words(self) -> str:
        """One line: `max_price: 3.10 opens 4 more places, from $3.10/h`."""
        if not self.offers or self.hourly is None:
            return f"{self.change} opens nothing more"
        offers = f"{self.offers} more offer{'' if self.offers == 1 else 's'} in the same places"
        if self.places:
            offers = f"{self.places} more place{'' if self.places == 1 else 's'}"
            offers += f" ({self.offers} offers)" if self.offers > self.places else ""
        return f"{self.change} opens {offers}, from {format_usd(self.hourly)}/h"


def relax(
    spec: Spec,
    catalog: Catalog,
    enabled: Mapping[str, EnabledCloud],
    *,
    blocks: Iterable[Block] = (),
    now: Instant = 0.0,
    disabled: Mapping[str, str] | None = None,
    off: Mapping[str, EnabledCloud] | None = None,
    demo: bool = False,
) -> tuple[Relaxation, ...]:
    """Say, one constraint at a time, how many more places a spec without it would have, and from what price.

    Parameters
    ----------
    catalog, enabled, blocks, now, disabled, demo
        As for `plan`.
    off
        Clouds that have an adapter and are not set up: what they would open is told too.

    Returns
    -------
    tuple of Relaxation
        Those that open something first, the cheapest of these first.

    Raises
    ------
    PlanError
        As `plan`.

    Examples
    --------
    >>> from nbprov.catalog import default_catalog
    >>> from nbprov.model.spec import Accelerator, Request
    >>> spec = Spec(requests=(Request(accelerator=Accelerator("A100", 8), cloud="aws", region="us-east-1"),))
    >>> "region" in {r.field for r in relax(spec, default_catalog(), {"aws": EnabledCloud("me")}) if r.offers}
    True
    """
    from .lookup.catalog_columns import Table

    table = Table(catalog)
    settings: dict[str, Any] = {
        "now": now,
        "disabled": disabled or {},
        "demo": demo,
        "chances": Chances(now=now),
    }
    live = tuple(block for block in blocks if block.is_live(now))

    def rows_of(changed: Spec, usable: Mapping[str, EnabledCloud], blocks: Iterable[Block]) -> Ints:
        *_, found = looked_up(changed, catalog, table, usable, blocks=blocks, **settings)
        return found.rows

    before = rows_of(spec, enabled, live)
    taken = frozenset(_places(table, before))
    constraints = Constraints(spec, catalog)

    def opened() -> Iterator[Relaxation]:
        for change in constraints.changes(live, now, enabled, off or {}):
            try:
                relaxation = tell(change)
            except PlanError:
                continue  # without its neighbour a name may mean several things; then this constraint cannot be dropped alone
            yield relaxation
            if change.field == "max_price" and relaxation.hourly is not None:
                raised = constraints.raised_cap(relaxation.hourly)
                if raised is not None:
                    yield tell(raised)

    def tell(change: Change) -> Relaxation:
        after = rows_of(change.spec, change.enabled or enabled, () if change.unblocked else live)
        return Relaxation(
            change.field,
            change.words,
            *_opened(table, before, taken, after),
            is_yaml=change.is_yaml,
            origin=change.origin,
        )

    # Of two that start at one price the first says how to get it; one that opens more says what else there is.
    return tuple(
        sorted(
            opened(), key=lambda r: (r.offers == 0, r.hourly or 0, not r.is_yaml, r.field, r.change)
        )
    )


def _opened(
    table: Table, before: Ints, taken: frozenset[int], after: Ints
) -> tuple[int, int, Micros | None]:
    """New places, new offers, and the cheapest of these."""
    import numpy as np

    known = np.zeros(table.size, dtype=bool)
    known[before] = True
    new = after[~known[after]]
    if not len(new):
        return 0, 0, None
    return (
        len(taken.union(_places(table, new))) - len(taken),
        len(new),
        int(table.of("hourly", new).min()),
    )


def _places(table: Table, rows: Ints) -> list[int]:
    """A number for each row's place."""
    import numpy as np

    keys = np.zeros(len(rows), dtype=np.int64)
    for column in ("cloud", "region", "zone"):
        keys = keys * len(table.names(column)) + table.of(column, rows)
    found: list[int] = keys.tolist()
    return found
